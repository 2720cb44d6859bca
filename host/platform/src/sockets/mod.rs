//! Settings of sockets that the standard library does not have.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(not(unix))]
#[path = "unsupported.rs"]
mod system;

use std::io;

pub use system::Socket;

/// Sets the size of a socket's buffer for sending, in bytes.
///
/// # Errors
/// If the system refuses that, or has no such setting.
pub fn set_send_buffer(socket: &impl Socket, bytes: usize) -> io::Result<()> {
    system::set_send_buffer(socket, bytes)
}
