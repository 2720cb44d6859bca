//! Limits of `getrlimit(2)`.

use std::error::Error;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::DiskSpace;

pub(super) fn max_file_bytes() -> Option<u64> {
    getrlimit(Resource::Fsize).current
}

pub(super) fn max_open_files() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

pub(super) fn disk_space(path: &Path) -> Option<DiskSpace> {
    let found = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(DiskSpace { free: bytes(found.f_bavail), size: bytes(found.f_blocks) })
}

pub(super) fn is_out_of_memory(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref() == Some(&Errno::NOMEM)
}
