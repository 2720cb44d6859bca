//! Limits that this process inherited.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(not(unix))]
#[path = "unsupported.rs"]
mod system;

use std::error::Error;
use std::io;

use crate::sockets::Socket;

/// Maximum number of files that connections of clients leave to everything else, such as the start of a worker process.
const RESERVED_FILES: u64 = 64;

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

/// Returns the maximum number of files that this process may hold open.
#[must_use]
pub fn max_open_files() -> Option<u64> {
    system::max_open_files()
}

/// Returns whether so many files are open that connections of clients should leave the rest to everything else: a quarter
/// of the limit, and at most 64. `newest` is the socket that was opened last.
#[must_use]
pub fn is_short_of_files(newest: &impl Socket) -> bool {
    let is_reserved = |limit: u64| system::descriptor(newest).is_some_and(|newest| newest >= limit - reserved(limit));
    max_open_files().is_some_and(is_reserved)
}

fn reserved(limit: u64) -> u64 {
    RESERVED_FILES.min(limit / 4)
}
