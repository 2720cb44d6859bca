//! Socket options of POSIX.

use std::io;

pub use std::os::fd::AsFd as Socket;

pub(super) fn set_send_buffer(socket: &impl Socket, bytes: usize) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_send_buffer_size(socket, bytes)?)
}
