//! Log lines for operators. They are never part of a result.
//!
//! Writing never fails and never blocks. Lines beyond the call's log limit are dropped and counted by the host.
//!
//! ```
//! use fumehood_guest::log;
//!
//! let rows = 3;
//! log::debug(format_args!("read {rows} rows"));
//! log::warn("the last row is empty");
//! ```

use std::fmt::Display;

use crate::host;

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Individual steps.
    Trace,
    /// Information for debugging.
    Debug,
    /// Information for operators.
    Info,
    /// A problem that does not stop the call.
    Warn,
    /// A problem that makes the call fail.
    Error,
}

/// Writes one line.
pub fn write(level: Level, message: impl Display) {
    host::log(level, message.to_string());
}

/// Writes one line at [`Level::Trace`].
pub fn trace(message: impl Display) {
    write(Level::Trace, message);
}

/// Writes one line at [`Level::Debug`].
pub fn debug(message: impl Display) {
    write(Level::Debug, message);
}

/// Writes one line at [`Level::Info`].
pub fn info(message: impl Display) {
    write(Level::Info, message);
}

/// Writes one line at [`Level::Warn`].
pub fn warn(message: impl Display) {
    write(Level::Warn, message);
}

/// Writes one line at [`Level::Error`].
pub fn error(message: impl Display) {
    write(Level::Error, message);
}
