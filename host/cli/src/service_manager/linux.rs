//! systemd: the protocols of sd_notify(3) and sd_listen_fds(3).

use std::io;
use std::net::TcpListener;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;

use super::ServiceState;

pub(super) fn notify(state: ServiceState) {
    let _untold = match (state, NotifyState::monotonic_usec_now()) {
        (ServiceState::Ready, _) => sd_notify::notify(&[NotifyState::Ready]),
        (ServiceState::Stopping, _) => sd_notify::notify(&[NotifyState::Stopping]),
        // Both in one message, as `Type=notify-reload` needs them.
        (ServiceState::Reloading, Ok(now)) => sd_notify::notify(&[NotifyState::Reloading, now]),
        (ServiceState::Reloading, Err(error)) => Err(error),
    };
}

pub(super) fn notify_alive() {
    let _untold = sd_notify::notify(&[NotifyState::Watchdog]);
}

pub(super) fn watchdog_timeout() -> Option<Duration> {
    sd_notify::watchdog_enabled()
}

pub(super) fn take_listener() -> io::Result<Option<TcpListener>> {
    let mut passed = ListenFd::from_env();
    if passed.len() > 1 {
        let message = format!("the service manager passed {} sockets; one ListenStream is enough", passed.len());
        return Err(io::Error::other(message));
    }
    let Some(listener) = passed.take_tcp_listener(0)? else { return Ok(None) };
    listener.set_nonblocking(true)?;
    Ok(Some(listener))
}
