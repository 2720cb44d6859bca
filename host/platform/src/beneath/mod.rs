//! Resolution of paths beneath an open folder, by the kernel alone.
//!
//! Linux has it since 5.6 (`openat2(2)`): it follows a path and refuses to leave the folder at any step, by `..`, by a
//! link, by a magic link of the kernel, or onto another mount. Elsewhere [`is_available`] returns `false`, and a caller
//! resolves paths by other means.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "unsupported.rs"]
mod system;

use std::fs::File;
use std::io;
use std::path::Path;

/// The use that is made of an open file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nothing but its metadata: not even a pipe or a device notices that it was opened.
    Metadata,
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Reading and writing.
    ReadWrite,
}

/// Options for opening a file or a folder. Opening never waits: not for the other end of a pipe either.
#[derive(Debug, Clone, Copy)]
pub struct OpenOptions {
    /// The use that is made of it.
    pub access: Access,
    /// Fails unless it is a folder.
    pub directory: bool,
    /// Follows a link at the end of the path. Links before the end are followed in any case.
    pub follow: bool,
    /// Creates a file, and fails if the name exists.
    pub create_new: bool,
}

/// An error of opening a path beneath a folder.
#[derive(Debug)]
#[non_exhaustive]
pub enum BeneathError {
    /// The path leads out of the folder.
    Outside,
    /// An error of the system.
    System(io::Error),
}

impl From<io::Error> for BeneathError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Returns whether the kernel resolves paths beneath this folder: an old one does not, and a filter of system calls may
/// refuse it to this process.
#[must_use]
pub fn is_available(folder: &File) -> bool {
    system::is_available(folder)
}

/// Opens a path beneath a folder.
///
/// # Errors
/// [`BeneathError::Outside`] if the path leads out of the folder or onto another mount.
pub fn open(folder: &File, path: &str, options: OpenOptions) -> Result<File, BeneathError> {
    system::open(folder, path, options)
}

/// Opens a folder by its absolute path, if no part of the path is a link. `None` if the kernel does not offer that.
///
/// # Errors
/// If a part of the path is a link, or no folder.
pub fn open_folder_without_links(path: &Path) -> io::Result<Option<File>> {
    system::open_folder_without_links(path)
}
