//! The connection between a host and a process that it started: a stream of bytes that also carries open files.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
compile_error!("passing open files between processes is not implemented for this system");

/// Maximum number of open files that are sent at once.
pub(crate) const MAX_FILES: usize = 250;

/// The choice to wait until the socket is ready, or to fail with [`WouldBlock`](std::io::ErrorKind::WouldBlock).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    /// As the socket is set, which is to wait.
    Usual,
    /// Not at all.
    Never,
}

pub(crate) use system::{ReadHalf, Socket, SocketListener, WriteHalf, file_of_listener, has_output, listener_of_file};
