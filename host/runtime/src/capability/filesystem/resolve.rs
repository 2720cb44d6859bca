//! Resolution of a guest's paths beneath a folder, by the kernel alone.
//!
//! `openat2(2)` follows a path and refuses to leave the folder at any step: by `..`, by a link, by a magic link of the
//! kernel, or onto another mount. Names are then created, removed and moved relative to their opened parent, one plain
//! name at a time, and no call here follows that name if it is a link. There is no fallback for kernels without
//! `openat2` (before 5.6): there the folder is not granted.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Maximum length of a path. The kernel's own limit is the same.
pub(crate) const MAX_PATH_BYTES: usize = 4095;
/// Maximum number of attempts when the kernel asks to try again because of a concurrent rename. After that, the guest
/// gets the error and may try again itself.
const MAX_ATTEMPTS: usize = 32;

/// An error when resolving a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResolveError {
    /// An error of the system.
    System(Errno),
    /// A path that leads out of the folder.
    Outside,
    /// Something that is neither a file nor a folder.
    Special(FileType),
}

impl From<Errno> for ResolveError {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::XDEV => Self::Outside,
            other => Self::System(other),
        }
    }
}

/// Options for opening a file or a folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenOptions {
    pub(crate) follow: bool,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Fails unless it is a folder.
    pub(crate) directory: bool,
}

/// A file or a folder that was opened.
pub(crate) struct OpenedFile {
    pub(crate) file: File,
    pub(crate) is_dir: bool,
}

/// Opens a file or a folder that exists.
///
/// Its type is read first, with `O_PATH`: opening a pipe or a device can block for ever, or have side effects.
pub(crate) fn open(folder: impl AsFd, path: &str, options: OpenOptions) -> Result<OpenedFile, ResolveError> {
    let follow = if options.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let seen = resolve(&folder, path, OFlags::PATH | follow, Mode::empty())?;
    let kind = file_type(&seen)?;
    match kind {
        FileType::Symlink => return Err(ResolveError::System(Errno::LOOP)),
        FileType::RegularFile if options.directory => return Err(ResolveError::System(Errno::NOTDIR)),
        FileType::RegularFile | FileType::Directory => {}
        special => return Err(ResolveError::Special(special)),
    }
    let file = resolve(&folder, path, open_flags(options) | follow, Mode::empty())?;
    // It may have been replaced in between. Because of `NONBLOCK`, opening it did not block even then.
    match file_type(&file)? {
        FileType::RegularFile => Ok(OpenedFile { file: file.into(), is_dir: false }),
        FileType::Directory => Ok(OpenedFile { file: file.into(), is_dir: true }),
        special => Err(ResolveError::Special(special)),
    }
}

/// Creates a file that does not exist. A link of that name counts as existing, wherever it points.
pub(crate) fn create(folder: impl AsFd, path: &str, options: OpenOptions) -> Result<OpenedFile, ResolveError> {
    let flags = open_flags(options) | OFlags::CREATE | OFlags::EXCL;
    let file = resolve(&folder, path, flags, Mode::from_raw_mode(0o666))?;
    Ok(OpenedFile { file: file.into(), is_dir: false })
}

fn open_flags(options: OpenOptions) -> OFlags {
    let access = match (options.read, options.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    let directory = if options.directory { OFlags::DIRECTORY } else { OFlags::empty() };
    access | directory | OFlags::NONBLOCK | OFlags::NOCTTY
}

/// A name and its opened parent folder.
pub(crate) struct NamedEntry<'a> {
    pub(crate) parent: OwnedFd,
    pub(crate) name: &'a str,
    /// True if the path ended with a slash, which only a folder allows.
    pub(crate) has_trailing_slash: bool,
}

/// Resolves all but the last part of a path.
pub(crate) fn resolve_parent<'a>(folder: impl AsFd, path: &'a str) -> Result<NamedEntry<'a>, ResolveError> {
    let plain = path.trim_end_matches('/');
    let (before, name) = plain.rsplit_once('/').map_or((".", plain), |(before, name)| match before {
        // `/name`: the kernel reports that it leads outside.
        "" => ("/", name),
        before => (before, name),
    });
    match name {
        "" if path.starts_with('/') => return Err(ResolveError::Outside),
        "" => return Err(ResolveError::System(Errno::NOENT)),
        // Resolved all the same, so that a path that leads outside is reported as such.
        "." | ".." => {
            resolve(&folder, plain, OFlags::PATH, Mode::empty())?;
            return Err(ResolveError::System(Errno::INVAL));
        }
        _ => {}
    }
    let parent = resolve(&folder, before, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    Ok(NamedEntry { parent, name, has_trailing_slash: plain.len() < path.len() })
}

impl NamedEntry<'_> {
    /// Fails if the path ended with a slash.
    pub(crate) fn without_trailing_slash(self) -> Result<Self, ResolveError> {
        if self.has_trailing_slash { Err(ResolveError::System(Errno::NOTDIR)) } else { Ok(self) }
    }

    /// Returns an `O_PATH` descriptor of the entry, and follows no link.
    pub(crate) fn open_entry(&self) -> Result<OwnedFd, ResolveError> {
        Ok(resolve(&self.parent, self.name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?)
    }
}

/// Opens a path of a guest beneath `folder`. Every path of a guest that is resolved in this crate goes through here;
/// those of `stat_at` and the other delegated methods are resolved by wasmtime.
fn resolve(folder: impl AsFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    if path.len() > MAX_PATH_BYTES {
        return Err(Errno::NAMETOOLONG);
    }
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    for _ in 0..MAX_ATTEMPTS {
        match rustix::fs::openat2(&folder, path, flags | OFlags::CLOEXEC, mode, rules) {
            Err(Errno::AGAIN) => {}
            ended => return ended,
        }
    }
    Err(Errno::INTR)
}

/// Checks that `openat2` works on this folder: an old kernel does not have it, and a filter may refuse it. Called
/// when a granted folder is opened.
pub(crate) fn is_supported(folder: impl AsFd) -> Result<(), Errno> {
    resolve(folder, ".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).map(drop)
}

pub(super) fn file_type(file: impl AsFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode))
}
