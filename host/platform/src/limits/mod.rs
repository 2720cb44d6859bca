//! Limits that this process inherited.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(not(unix))]
#[path = "unsupported.rs"]
mod system;

use std::error::Error;
use std::io;
use std::path::Path;

/// Returns the maximum size of a file that this process may write, in bytes. The system may end the process where it
/// writes beyond that.
#[must_use]
pub fn max_file_bytes() -> Option<u64> {
    system::max_file_bytes()
}

/// Returns whether an error of a library says that the system has no memory left.
#[must_use]
pub fn is_out_of_memory(error: &(dyn Error + 'static)) -> bool {
    let is_out = |error: &io::Error| error.kind() == io::ErrorKind::OutOfMemory;
    error.downcast_ref::<io::Error>().is_some_and(is_out) || system::is_out_of_memory(error)
}

/// Returns the bytes that this user may still write to the file system of a path, and the size of that file system.
#[must_use]
pub fn disk_space(path: &Path) -> Option<DiskSpace> {
    system::disk_space(path)
}

/// The room of a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// The part that this user may still write.
    pub free: u64,
    /// All of it.
    pub size: u64,
}

/// Returns the maximum number of files that this process may hold open.
#[must_use]
pub fn max_open_files() -> Option<u64> {
    system::max_open_files()
}
