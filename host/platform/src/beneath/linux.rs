//! Resolution by `openat2(2)`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Access, BeneathError, OpenOptions};

/// Maximum number of attempts when the kernel asks to try again because of a concurrent rename. After that, the caller
/// gets the error and may try again itself.
const MAX_ATTEMPTS: usize = 32;

pub(super) fn is_available(folder: &File) -> bool {
    open_flags(folder, ".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).is_ok()
}

/// Returns `None` if the system call does not exist, or a filter refuses it.
fn is_offered<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOSYS | Errno::PERM) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn open(folder: &File, path: &str, options: OpenOptions) -> Result<File, BeneathError> {
    let access = match options.access {
        Access::Metadata => OFlags::PATH,
        Access::Read => OFlags::RDONLY,
        Access::Write => OFlags::WRONLY,
        Access::ReadWrite => OFlags::RDWR,
    };
    let mut flags = access;
    flags.set(OFlags::DIRECTORY, options.directory);
    flags.set(OFlags::NOFOLLOW, !options.follow);
    flags.set(OFlags::NONBLOCK | OFlags::NOCTTY, options.access != Access::Metadata);
    flags.set(OFlags::CREATE | OFlags::EXCL, options.create_new);
    let mode = if options.create_new { Mode::from_raw_mode(0o666) } else { Mode::empty() };
    match open_flags(folder, path, flags, mode) {
        Ok(file) => Ok(file.into()),
        Err(Errno::XDEV) => Err(BeneathError::Outside),
        Err(errno) => Err(BeneathError::System(errno.into())),
    }
}

fn open_flags(folder: impl AsFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    for _ in 0..MAX_ATTEMPTS {
        match rustix::fs::openat2(&folder, path, flags | OFlags::CLOEXEC, mode, rules) {
            Err(Errno::AGAIN) => {}
            ended => return ended,
        }
    }
    Err(Errno::INTR)
}

pub(super) fn open_folder_without_links(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let rules = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = rustix::fs::openat2(rustix::fs::CWD, path, flags, Mode::empty(), rules);
    Ok(is_offered(opened)?.map(File::from))
}
