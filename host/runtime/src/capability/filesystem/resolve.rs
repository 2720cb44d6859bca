//! Paths of a guest, resolved beneath a folder by the kernel and by nothing else.
//!
//! `openat2` follows a path and refuses to leave the folder at any step: by `..`, by a link, by a magic link of the
//! kernel, or onto another mount. Names are then created, removed and moved relative to their opened parent, one plain
//! name at a time, which no call here follows if it is a link. There is no fallback for kernels without `openat2`
//! (before 5.6): there the folder is not granted.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The longest path that is looked at, in bytes. The kernel's own limit is the same.
pub(crate) const MOST_PATH: usize = 4095;
/// The kernel asks to try again when something was renamed meanwhile; a guest that is told so may do that itself.
const TRIES: usize = 32;

/// Why a path leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// As the system says.
    System(Errno),
    /// It leads out of the folder.
    Outside,
    /// What is there is neither a file nor a folder.
    Special(FileType),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::XDEV => Self::Outside,
            other => Self::System(other),
        }
    }
}

/// What a file is opened for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) follow: bool,
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// Only a folder will do.
    pub(crate) directory: bool,
}

/// Something that was opened: a file or a folder, and which.
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) is_dir: bool,
}

/// Opens what is there already.
///
/// It is looked at first without opening it: opening a pipe or a device can wait for ever, or do something.
pub(crate) fn open(folder: impl AsFd, path: &str, opening: Opening) -> Result<Opened, Failure> {
    let follow = if opening.follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let seen = resolve(&folder, path, OFlags::PATH | follow, Mode::empty())?;
    let kind = kind_of(&seen)?;
    match kind {
        FileType::Symlink => return Err(Failure::System(Errno::LOOP)),
        FileType::RegularFile if opening.directory => return Err(Failure::System(Errno::NOTDIR)),
        FileType::RegularFile | FileType::Directory => {}
        special => return Err(Failure::Special(special)),
    }
    let file = resolve(&folder, path, access(opening) | follow, Mode::empty())?;
    // It may have been replaced in between; then nothing has waited all the same, because of `NONBLOCK`.
    match kind_of(&file)? {
        FileType::RegularFile => Ok(Opened { file: file.into(), is_dir: false }),
        FileType::Directory => Ok(Opened { file: file.into(), is_dir: true }),
        special => Err(Failure::Special(special)),
    }
}

/// Creates a file that is not there yet. A link in its place counts as being there, wherever it points.
pub(crate) fn create(folder: impl AsFd, path: &str, opening: Opening) -> Result<Opened, Failure> {
    let flags = access(opening) | OFlags::CREATE | OFlags::EXCL;
    let file = resolve(&folder, path, flags, Mode::from_raw_mode(0o666))?;
    Ok(Opened { file: file.into(), is_dir: false })
}

fn access(opening: Opening) -> OFlags {
    let access = match (opening.read, opening.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    let directory = if opening.directory { OFlags::DIRECTORY } else { OFlags::empty() };
    access | directory | OFlags::NONBLOCK | OFlags::NOCTTY
}

/// A name and the opened folder that it is in.
pub(crate) struct Named<'a> {
    pub(crate) parent: OwnedFd,
    pub(crate) name: &'a str,
    /// The path said, with a slash at its end, that this is a folder.
    pub(crate) says_folder: bool,
}

/// Resolves all but the last part of a path.
pub(crate) fn parent<'a>(folder: impl AsFd, path: &'a str) -> Result<Named<'a>, Failure> {
    let plain = path.trim_end_matches('/');
    let (before, name) = plain.rsplit_once('/').map_or((".", plain), |(before, name)| match before {
        // `/name`: the kernel says that it leads outside.
        "" => ("/", name),
        before => (before, name),
    });
    match name {
        "" if path.starts_with('/') => return Err(Failure::Outside),
        "" => return Err(Failure::System(Errno::NOENT)),
        // Resolved all the same: what leads outside is told so.
        "." | ".." => {
            resolve(&folder, plain, OFlags::PATH, Mode::empty())?;
            return Err(Failure::System(Errno::INVAL));
        }
        _ => {}
    }
    let parent = resolve(&folder, before, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    Ok(Named { parent, name, says_folder: plain.len() < path.len() })
}

impl Named<'_> {
    /// For what only a folder may be called with a slash at the end.
    pub(crate) fn not_a_folder(self) -> Result<Self, Failure> {
        if self.says_folder { Err(Failure::System(Errno::NOTDIR)) } else { Ok(self) }
    }

    /// What bears this name, without opening or following it.
    pub(crate) fn look(&self) -> Result<OwnedFd, Failure> {
        Ok(resolve(&self.parent, self.name, OFlags::PATH | OFlags::NOFOLLOW, Mode::empty())?)
    }
}

/// The one place where a guest's path meets the file system.
fn resolve(folder: impl AsFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    if path.len() > MOST_PATH {
        return Err(Errno::NAMETOOLONG);
    }
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
    for _ in 0..TRIES {
        match rustix::fs::openat2(&folder, path, flags | OFlags::CLOEXEC, mode, rules) {
            Err(Errno::AGAIN) => {}
            ended => return ended,
        }
    }
    Err(Errno::INTR)
}

/// Whether this kernel can do all that. Asked once, of the folder itself.
pub(crate) fn is_supported(folder: impl AsFd) -> Result<(), Errno> {
    resolve(folder, ".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).map(drop)
}

fn kind_of(file: impl AsFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode))
}
