//! Changes of names in a folder: creating, removing, moving and linking, each charged to the folder's account.

use std::os::fd::{AsFd, OwnedFd};

use fumehood_core::permission::files::{Protection, Spent};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::ledger::{Ledger, Unwritten};
use super::protect::Protected;
use super::resolve::{self, Failure, Opened, Opening};

/// An error of a change that was not made.
#[derive(Debug)]
pub(crate) enum Unchanged {
    /// A path that cannot be resolved.
    Path(Failure),
    /// A quota that is used up, or an error of the system.
    Unwritten(Unwritten),
    /// A link that could lead out of the folder.
    Link,
    /// A protected file of the host.
    Protected(Protection),
}

impl From<Failure> for Unchanged {
    fn from(failure: Failure) -> Self {
        Self::Path(failure)
    }
}

impl From<Errno> for Unchanged {
    fn from(errno: Errno) -> Self {
        Self::Path(errno.into())
    }
}

impl From<Unwritten> for Unchanged {
    fn from(unwritten: Unwritten) -> Self {
        Self::Unwritten(unwritten)
    }
}

impl From<Protection> for Unchanged {
    fn from(protection: Protection) -> Self {
        Self::Protected(protection)
    }
}

impl From<Spent> for Unchanged {
    fn from(spent: Spent) -> Self {
        Self::Unwritten(spent.into())
    }
}

/// Opens a file, and creates it if it does not exist. Always creates it if `exclusive`.
pub(crate) fn open_or_create(
    folder: impl AsFd,
    (ledger, protected): (&Ledger, &Protected),
    path: &str,
    opening: Opening,
    exclusive: bool,
) -> Result<Opened, Unchanged> {
    if !exclusive {
        match protected.open(&folder, path, opening) {
            Err(Unchanged::Path(Failure::System(Errno::NOENT))) => {}
            ended => return ended,
        }
    }
    ledger.names(|names| names.adding(|| protected.create(folder, path, opening)))
}

/// Creates a folder.
pub(crate) fn create_folder(
    folder: impl AsFd,
    (ledger, protected): (&Ledger, &Protected),
    path: &str,
) -> Result<(), Unchanged> {
    let new = resolve::parent(folder, path)?;
    protected.check_name(&new)?;
    ledger.names(|names| names.adding(|| Ok(rustix::fs::mkdirat(&new.parent, new.name, Mode::from_raw_mode(0o777))?)))
}

/// Removes an empty folder.
pub(crate) fn remove_folder(
    folder: impl AsFd,
    (ledger, protected): (&Ledger, &Protected),
    path: &str,
) -> Result<(), Unchanged> {
    let old = resolve::parent(folder, path)?;
    protected.check_name(&old)?;
    ledger.names(|names| {
        let gone = old.look()?;
        rustix::fs::unlinkat(&old.parent, old.name, AtFlags::REMOVEDIR)?;
        names.removed(gone);
        Ok(())
    })
}

/// Removes the name of a file or of a link.
pub(crate) fn remove_file(
    folder: impl AsFd,
    (ledger, protected): (&Ledger, &Protected),
    path: &str,
) -> Result<(), Unchanged> {
    let old = resolve::parent(folder, path)?.not_a_folder()?;
    protected.check_name(&old)?;
    ledger.names(|names| {
        let gone = old.look()?;
        rustix::fs::unlinkat(&old.parent, old.name, AtFlags::empty())?;
        names.removed(gone);
        Ok(())
    })
}

/// Moves a name within one granted folder.
pub(crate) fn rename(
    from: impl AsFd,
    old: &str,
    to: impl AsFd,
    new: &str,
    (ledger, protected): (&Ledger, &Protected),
) -> Result<(), Unchanged> {
    let (old, new) = (resolve::parent(from, old)?, resolve::parent(to, new)?);
    protected.check_name(&old)?;
    protected.check_name(&new)?;
    ledger.names(|names| {
        let moved = old.look()?;
        check_moved_link(&moved)?;
        if old.has_trailing_slash || new.has_trailing_slash {
            must_be_folder(&moved)?;
        }
        let replaced = match new.look() {
            Ok(there) => Some(there),
            Err(Failure::System(Errno::NOENT)) => None,
            Err(failure) => return Err(failure.into()),
        };
        rustix::fs::renameat(&old.parent, old.name, &new.parent, new.name)?;
        match replaced {
            // Two names of one file: rename(2) does nothing, and both remain.
            Some(there) if is_same(&there, &moved)? => {}
            Some(there) => names.removed(there),
            None => {}
        }
        Ok(())
    })
}

/// Creates a hard link within one granted folder.
pub(crate) fn link(
    from: impl AsFd,
    old: &str,
    to: impl AsFd,
    new: &str,
    (ledger, protected): (&Ledger, &Protected),
) -> Result<(), Unchanged> {
    let old = resolve::parent(from, old)?.not_a_folder()?;
    let new = resolve::parent(to, new)?.not_a_folder()?;
    protected.check_name(&old)?;
    protected.check_name(&new)?;
    ledger.names(|names| {
        let linked = old.look()?;
        protected.check_identity(&linked)?;
        check_moved_link(&linked)?;
        names.adding(|| {
            // Without a flag it does not follow the old name if it is a link.
            Ok(rustix::fs::linkat(&old.parent, old.name, &new.parent, new.name, AtFlags::empty())?)
        })
    })
}

/// Creates a symbolic link to something beside it or below.
///
/// Folders above a link can be moved or replaced later, so that a link with `..` in it could come to point outside. The
/// sandbox would not follow it; other programs would.
pub(crate) fn symlink(
    folder: impl AsFd,
    target: &str,
    (ledger, protected): (&Ledger, &Protected),
    path: &str,
) -> Result<(), Unchanged> {
    let new = resolve::parent(folder, path)?.not_a_folder()?;
    protected.check_name(&new)?;
    check_target(target.as_bytes())?;
    ledger.names(|names| names.adding(|| Ok(rustix::fs::symlinkat(target, &new.parent, new.name)?)))
}

fn check_target(target: &[u8]) -> Result<(), Unchanged> {
    let leads_up = target.split(|byte| *byte == b'/').any(|part| part == b"..");
    if leads_up || target.starts_with(b"/") { Err(Unchanged::Link) } else { Ok(()) }
}

/// Checks the target of a link that is about to get another name. A link that the tool did not make may point outside as
/// long as it stays where it is.
fn check_moved_link(moved: &OwnedFd) -> Result<(), Unchanged> {
    match kind_of(moved)? {
        FileType::Symlink => check_target(rustix::fs::readlinkat(moved, "", Vec::new())?.as_bytes()),
        _ => Ok(()),
    }
}

fn must_be_folder(what: &OwnedFd) -> Result<(), Unchanged> {
    match kind_of(what)? {
        FileType::Directory => Ok(()),
        _ => Err(Errno::NOTDIR.into()),
    }
}

fn kind_of(what: &OwnedFd) -> Result<FileType, Errno> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(what)?.st_mode))
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> Result<bool, Errno> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
