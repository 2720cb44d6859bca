//! Lines for the people who run the tool. They are never part of a result.
//!
//! Writing never fails and never blocks; what goes over the call's log cap is dropped and counted by the host.
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

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every step.
    Trace,
    /// What helps to find a fault.
    Debug,
    /// What a person may want to know.
    Info,
    /// Something went wrong and the call goes on.
    Warn,
    /// Something went wrong and the call will fail.
    Error,
}

/// Writes one line.
pub fn write(level: Level, message: impl Display) {
    host::log(level, message.to_string());
}

/// Every step.
pub fn trace(message: impl Display) {
    write(Level::Trace, message);
}

/// What helps to find a fault.
pub fn debug(message: impl Display) {
    write(Level::Debug, message);
}

/// What a person may want to know.
pub fn info(message: impl Display) {
    write(Level::Info, message);
}

/// Something went wrong and the call goes on.
pub fn warn(message: impl Display) {
    write(Level::Warn, message);
}

/// Something went wrong and the call will fail.
pub fn error(message: impl Display) {
    write(Level::Error, message);
}
