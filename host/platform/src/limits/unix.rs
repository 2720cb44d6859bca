//! Limits of `getrlimit(2)`.

use std::error::Error;
use std::os::fd::AsRawFd as _;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::sockets::Socket;

pub(super) fn max_file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

pub(super) fn max_open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the number of a socket. The system gives the lowest free one, so that the newest shows how many are taken.
pub(super) fn descriptor(socket: &impl Socket) -> Option<u64> {
    u64::try_from(socket.as_fd().as_raw_fd()).ok()
}

pub(super) fn is_out_of_memory(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref() == Some(&Errno::NOMEM)
}
