//! systemd: the protocols of sd_notify(3) and sd_listen_fds(3), and the native protocol of its journal.

use std::fs::{File, Metadata};
use std::io;
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use listenfd::ListenFd;
use sd_notify::NotifyState;

use super::ServiceState;

/// The socket of the journal (systemd-journald.service(8)).
const JOURNAL_SOCKET: &str = "/run/systemd/journal/socket";
/// The variable with device and inode of the stream that is connected to the journal.
const JOURNAL_STREAM: &str = "JOURNAL_STREAM";
/// Maximum time in which the journal takes an entry.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(1);

/// A socket to the journal.
#[derive(Debug)]
pub(super) struct Journal(UnixDatagram);

impl Journal {
    pub(super) fn open() -> Option<Self> {
        Self::at(Path::new(JOURNAL_SOCKET)).ok()
    }

    fn at(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.connect(path)?;
        socket.set_write_timeout(Some(JOURNAL_TIMEOUT))?;
        Ok(Self(socket))
    }

    pub(super) fn send(&self, entry: &[u8]) -> io::Result<()> {
        self.0.send(entry).map(drop)
    }
}

/// Returns whether standard error is the stream that `JOURNAL_STREAM` names, and was not redirected since.
pub(super) fn is_stderr_journal() -> bool {
    let Ok(named) = std::env::var(JOURNAL_STREAM) else { return false };
    let stderr = io::stderr().as_fd().try_clone_to_owned().and_then(|stderr| File::from(stderr).metadata());
    stderr.is_ok_and(|stderr| is_stream(&named, &stderr))
}

/// Returns whether `DEVICE:INODE` names this file.
fn is_stream(named: &str, file: &Metadata) -> bool {
    let Some((device, inode)) = named.split_once(':') else { return false };
    device.parse() == Ok(file.st_dev()) && inode.parse() == Ok(file.st_ino())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_of_the_journal_is_known_by_device_and_inode() {
        let file = tempfile::tempfile().unwrap().metadata().unwrap();
        let device = file.st_dev();
        let inode = file.st_ino();
        assert!(is_stream(&format!("{device}:{inode}"), &file));
        for other in [format!("{device}:{}", inode + 1), format!("{inode}"), String::new(), "a:b".to_owned()] {
            assert!(!is_stream(&other, &file), "{other}");
        }
    }

    #[test]
    fn journal_receives_an_entry_as_one_datagram() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert!(Journal::at(&path).is_err());
        let daemon = UnixDatagram::bind(&path).unwrap();
        Journal::at(&path).unwrap().send(b"MESSAGE=hello\nPRIORITY=6\n").unwrap();
        let mut received = [0; 64];
        let count = daemon.recv(&mut received).unwrap();
        assert_eq!(&received[..count], b"MESSAGE=hello\nPRIORITY=6\n");
    }
}
