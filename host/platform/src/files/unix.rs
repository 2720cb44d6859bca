//! Files as POSIX describes them.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::{Access, OFlags};

use super::{FileStamp, FileStatus};

/// The unit in which `stat(2)` counts blocks.
const STAT_BLOCK_BYTES: u64 = 512;

pub(super) fn status(metadata: &Metadata) -> FileStatus {
    FileStatus {
        device: metadata.dev(),
        inode: metadata.ino(),
        links: metadata.nlink(),
        bytes: metadata.len(),
        allocated_bytes: metadata.blocks().saturating_mul(STAT_BLOCK_BYTES),
        block_bytes: metadata.blksize(),
        is_regular: metadata.is_file(),
    }
}

pub(super) fn stamp(metadata: &Metadata) -> FileStamp {
    FileStamp {
        id: (metadata.dev(), metadata.ino()),
        bytes: metadata.len(),
        written: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    }
}

pub(super) fn open_without_waiting(path: &Path, follow: bool) -> io::Result<File> {
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    flags.set(OFlags::NOFOLLOW, !follow);
    // The bits fit: they are what open(2) takes.
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    file.write_at(bytes, offset)
}

#[cfg(target_os = "linux")]
pub(super) fn append(file: &File, bytes: &[u8]) -> io::Result<usize> {
    let buffers = [io::IoSlice::new(bytes)];
    Ok(rustix::io::pwritev2(file, &buffers, 0, rustix::io::ReadWriteFlags::APPEND)?)
}

/// Another process that appends at the same moment may overwrite this: only Linux appends to a file that was not opened
/// for it.
#[cfg(not(target_os = "linux"))]
pub(super) fn append(file: &File, bytes: &[u8]) -> io::Result<usize> {
    file.write_at(bytes, file.metadata()?.len())
}

pub(super) fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

pub(super) fn create_link(target: &Path, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(target_vendor = "apple"))]
pub(super) fn create_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?)
}

/// There is no safe call for it.
#[cfg(target_vendor = "apple")]
pub(super) fn create_pipe(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
