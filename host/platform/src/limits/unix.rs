//! Limits of `getrlimit(2)`.

use std::error::Error;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

pub(super) fn max_file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

pub(super) fn max_open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

pub(super) fn is_out_of_memory(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref() == Some(&Errno::NOMEM)
}
