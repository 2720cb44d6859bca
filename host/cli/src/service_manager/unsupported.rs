//! Systems whose service managers are told nothing.

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use super::ServiceState;

pub(super) fn notify(_: ServiceState) {}

pub(super) fn notify_alive() {}

pub(super) fn watchdog_timeout() -> Option<Duration> {
    None
}

#[expect(clippy::unnecessary_wraps, reason = "on other systems there may be a socket of the wrong kind")]
pub(super) fn take_listener() -> io::Result<Option<TcpListener>> {
    Ok(None)
}
