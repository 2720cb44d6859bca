//! The service manager that started this process, such as systemd: it is told the state, and may pass a socket.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod system;

use std::io;
use std::net::TcpListener;
use std::time::Duration;

/// The journal of the service manager.
#[derive(Debug)]
pub(crate) struct Journal(system::Journal);

impl Journal {
    /// Opens the journal if standard error is connected to it, as `JOURNAL_STREAM` tells (systemd.exec(5)).
    pub(crate) fn of_stderr() -> Option<Self> {
        if system::is_stderr_journal() { Self::open() } else { None }
    }

    /// Opens the journal; `None` if it cannot be reached.
    pub(crate) fn open() -> Option<Self> {
        system::Journal::open().map(Self)
    }

    /// Sends one entry in the native protocol.
    ///
    /// # Errors
    /// If the journal does not take it.
    pub(crate) fn send(&self, entry: &[u8]) -> io::Result<()> {
        self.0.send(entry)
    }
}

/// A state of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceState {
    /// It serves; also after it has read its configuration again.
    Ready,
    /// It reads its configuration again.
    Reloading,
    Stopping,
}

/// Tells the service manager, if there is one. That it cannot be told changes nothing for those who are served.
pub(crate) fn notify(state: ServiceState) {
    system::notify(state);
}

/// Tells the service manager from now on that this process is alive, if it wants to know.
pub(crate) fn keep_alive() {
    if let Some(timeout) = system::watchdog_timeout() {
        tokio::spawn(async move {
            // Twice in each period (sd_watchdog_enabled(3)).
            let mut interval = tokio::time::interval((timeout / 2).max(Duration::from_millis(1)));
            loop {
                interval.tick().await;
                system::notify_alive();
            }
        });
    }
}

/// Takes the listening socket that the service manager passed; `None` if it passed none.
///
/// # Errors
/// If it passed several, or one that does not listen for TCP.
pub(crate) fn take_listener() -> io::Result<Option<TcpListener>> {
    system::take_listener()
}
