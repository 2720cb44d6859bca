//! Systems whose service managers are told nothing.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use super::ServiceState;

/// The journal, which this system does not have.
#[derive(Debug)]
pub(super) enum Journal {}

impl Journal {
    pub(super) fn open() -> Option<Self> {
        None
    }

    pub(super) fn send(&self, _: &[u8]) -> io::Result<()> {
        match *self {}
    }
}

pub(super) fn is_stderr_journal() -> bool {
    false
}

pub(super) fn notify(_: ServiceState) {}

pub(super) fn notify_alive() {}

pub(super) fn watchdog_timeout() -> Option<Duration> {
    None
}

#[expect(clippy::unnecessary_wraps, reason = "on other systems there may be a socket of the wrong kind")]
pub(super) fn take_listener() -> io::Result<Option<TcpListener>> {
    Ok(None)
}
