//! Signals that this process hears.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(not(unix))]
#[path = "unsupported.rs"]
mod system;

use std::io;

pub(crate) use system::{AllSignals, Hangup, Stop};

/// Makes writing beyond `ulimit -f` an error of that write. Without a handler, the signal that comes with it ends the
/// process.
pub(crate) fn survive_file_size_limit() {
    system::survive_file_size_limit();
}

/// Hears SIGINT (Ctrl-C) and SIGTERM, or what the system has in their place, from now on.
///
/// # Errors
/// If the handlers cannot be installed.
pub(crate) fn listen_for_stop() -> io::Result<Stop> {
    Stop::listen()
}

/// Hears SIGHUP from now on, which asks for the configuration to be read again. Systems without it send nothing.
///
/// # Errors
/// If the handler cannot be installed.
pub(crate) fn listen_for_hangup() -> io::Result<Hangup> {
    Hangup::listen()
}

/// Hears from now on every signal that people and programs send to a program, so that it can be passed on.
///
/// # Errors
/// If a handler cannot be installed.
pub(crate) fn listen_for_all() -> io::Result<AllSignals> {
    AllSignals::listen()
}
