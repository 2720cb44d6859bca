//! Properties and operations of open files that the standard library does not have for every system.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(not(unix))]
compile_error!("files: identity, used blocks and writes at an offset are not implemented for this system");

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

/// The identity and the size of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatus {
    /// The number of the device.
    pub device: u64,
    /// The number of the file on the device.
    pub inode: u64,
    /// The number of names of the file.
    pub links: u64,
    /// The size, in bytes.
    pub bytes: u64,
    /// The part of it that has blocks on the device, in bytes.
    pub allocated_bytes: u64,
    /// The size of a block, in bytes.
    pub block_bytes: u64,
    /// True for a regular file.
    pub is_regular: bool,
}

impl FileStatus {
    /// Reads the status of an open file.
    ///
    /// # Errors
    /// If the system cannot tell it.
    pub fn of(file: &File) -> io::Result<Self> {
        Ok(Self::from(&file.metadata()?))
    }
}

impl From<&Metadata> for FileStatus {
    fn from(metadata: &Metadata) -> Self {
        system::status(metadata)
    }
}

/// The metadata that identifies a version of a file. Another file in its place, or a change of its content, has another
/// stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    /// The numbers of device and file.
    pub id: (u64, u64),
    /// The size, in bytes.
    pub bytes: u64,
    /// Seconds and nanoseconds of the last change of the content.
    pub written: (i64, i64),
    /// Seconds and nanoseconds of the last change of anything.
    pub changed: (i64, i64),
}

impl FileStamp {
    /// Reads the stamp of the file that `path` resolves to; `None` if there is none.
    #[must_use]
    pub fn read(path: &Path) -> Option<Self> {
        Some(system::stamp(&std::fs::metadata(path).ok()?))
    }
}

impl From<&Metadata> for FileStamp {
    fn from(metadata: &Metadata) -> Self {
        system::stamp(metadata)
    }
}

/// Opens a file for reading without waiting, so that a pipe without a writer does not block. The caller checks what it
/// has opened.
///
/// # Errors
/// If it cannot be opened.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    system::open_without_waiting(path, true)
}

/// Like [`open_without_waiting`], and fails if the path ends with a link.
///
/// # Errors
/// If it cannot be opened.
pub fn open_without_following(path: &Path) -> io::Result<File> {
    system::open_without_waiting(path, false)
}

/// Writes a part of `bytes` at an offset, and returns its length.
///
/// # Errors
/// If nothing can be written.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    system::write_at(file, bytes, offset)
}

/// Writes a part of `bytes` at the end, wherever that is by then, and returns its length.
///
/// # Errors
/// If nothing can be written.
pub fn append(file: &File, bytes: &[u8]) -> io::Result<usize> {
    system::append(file, bytes)
}

/// Returns whether this user may execute the file.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    system::is_executable(path)
}

/// Creates a symbolic link.
///
/// # Errors
/// If it cannot be created.
pub fn create_link(target: impl AsRef<Path>, path: &Path) -> io::Result<()> {
    system::create_link(target.as_ref(), path)
}

/// Creates a named pipe that only this user may open.
///
/// # Errors
/// If it cannot be created.
pub fn create_pipe(path: &Path) -> io::Result<()> {
    system::create_pipe(path)
}
