//! Systems whose socket options are not set yet. The system's own sizes hold.

use std::io;

/// Anything: no option is set.
pub trait Socket {}

impl<T> Socket for T {}

pub(super) fn set_send_buffer(_: &impl Socket, _: usize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
