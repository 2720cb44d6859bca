//! Changes of names in a folder: creating, removing, moving and linking, each charged to the folder's account.

use std::os::fd::{AsFd, OwnedFd};

use fumehood_core::permission::files::{Protection, QuotaExceeded};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;

use super::ledger::{Ledger, WriteError};
use super::protected_set::ProtectedSet;
use super::resolve::{self, OpenOptions, OpenedFile, ResolveError, file_type};

/// An error of a change that was not made.
#[derive(Debug)]
pub(crate) enum ChangeError {
    /// A path that cannot be resolved.
    Path(ResolveError),
    /// A quota that is used up, or an error of the system.
    Write(WriteError),
    /// A link that could lead out of the folder.
    Link,
    /// A protected file of the host.
    Protected(Protection),
}

impl From<ResolveError> for ChangeError {
    fn from(failure: ResolveError) -> Self {
        Self::Path(failure)
    }
}

impl From<Errno> for ChangeError {
    fn from(errno: Errno) -> Self {
        Self::Path(errno.into())
    }
}

impl From<WriteError> for ChangeError {
    fn from(unwritten: WriteError) -> Self {
        Self::Write(unwritten)
    }
}

impl From<Protection> for ChangeError {
    fn from(protection: Protection) -> Self {
        Self::Protected(protection)
    }
}

impl From<QuotaExceeded> for ChangeError {
    fn from(spent: QuotaExceeded) -> Self {
        Self::Write(spent.into())
    }
}

/// Opens a file, and creates it if it does not exist. With `exclusive`, fails if it exists.
pub(crate) fn open_or_create(
    folder: impl AsFd,
    (ledger, protected): (&Ledger, &ProtectedSet),
    path: &str,
    options: OpenOptions,
    exclusive: bool,
) -> Result<OpenedFile, ChangeError> {
    if !exclusive {
        match protected.open(&folder, path, options) {
            Err(ChangeError::Path(ResolveError::System(Errno::NOENT))) => {}
            ended => return ended,
        }
    }
    ledger.change_names(|names| names.add(|| protected.create(folder, path, options)))
}

/// Creates a folder.
pub(crate) fn create_folder(
    folder: impl AsFd,
    (ledger, protected): (&Ledger, &ProtectedSet),
    path: &str,
) -> Result<(), ChangeError> {
    let new = resolve::resolve_parent(folder, path)?;
    protected.check_name(&new)?;
    ledger
        .change_names(|names| names.add(|| Ok(rustix::fs::mkdirat(&new.parent, new.name, Mode::from_raw_mode(0o777))?)))
}

/// Removes an empty folder.
pub(crate) fn remove_folder(
    folder: impl AsFd,
    (ledger, protected): (&Ledger, &ProtectedSet),
    path: &str,
) -> Result<(), ChangeError> {
    let old = resolve::resolve_parent(folder, path)?;
    protected.check_name(&old)?;
    ledger.change_names(|names| {
        let removed = old.open_entry()?;
        rustix::fs::unlinkat(&old.parent, old.name, AtFlags::REMOVEDIR)?;
        names.remove(removed);
        Ok(())
    })
}

/// Removes the name of a file or of a link.
pub(crate) fn remove_file(
    folder: impl AsFd,
    (ledger, protected): (&Ledger, &ProtectedSet),
    path: &str,
) -> Result<(), ChangeError> {
    let old = resolve::resolve_parent(folder, path)?.without_trailing_slash()?;
    protected.check_name(&old)?;
    ledger.change_names(|names| {
        let removed = old.open_entry()?;
        rustix::fs::unlinkat(&old.parent, old.name, AtFlags::empty())?;
        names.remove(removed);
        Ok(())
    })
}

/// Moves a name within one granted folder.
pub(crate) fn rename(
    from: impl AsFd,
    old: &str,
    to: impl AsFd,
    new: &str,
    (ledger, protected): (&Ledger, &ProtectedSet),
) -> Result<(), ChangeError> {
    let (old, new) = (resolve::resolve_parent(from, old)?, resolve::resolve_parent(to, new)?);
    protected.check_name(&old)?;
    protected.check_name(&new)?;
    ledger.change_names(|names| {
        let moved = old.open_entry()?;
        check_moved_link(&moved)?;
        if old.has_trailing_slash || new.has_trailing_slash {
            check_is_folder(&moved)?;
        }
        let replaced = match new.open_entry() {
            Ok(there) => Some(there),
            Err(ResolveError::System(Errno::NOENT)) => None,
            Err(failure) => return Err(failure.into()),
        };
        rustix::fs::renameat(&old.parent, old.name, &new.parent, new.name)?;
        match replaced {
            // Two names of one file: rename(2) does nothing, and both remain.
            Some(there) if is_same(&there, &moved)? => {}
            Some(there) => names.remove(there),
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
    (ledger, protected): (&Ledger, &ProtectedSet),
) -> Result<(), ChangeError> {
    let old = resolve::resolve_parent(from, old)?.without_trailing_slash()?;
    let new = resolve::resolve_parent(to, new)?.without_trailing_slash()?;
    protected.check_name(&old)?;
    protected.check_name(&new)?;
    ledger.change_names(|names| {
        let linked = old.open_entry()?;
        protected.check_identity(&linked)?;
        check_moved_link(&linked)?;
        names.add(|| {
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
    (ledger, protected): (&Ledger, &ProtectedSet),
    path: &str,
) -> Result<(), ChangeError> {
    let new = resolve::resolve_parent(folder, path)?.without_trailing_slash()?;
    protected.check_name(&new)?;
    check_target(target.as_bytes())?;
    ledger.change_names(|names| names.add(|| Ok(rustix::fs::symlinkat(target, &new.parent, new.name)?)))
}

fn check_target(target: &[u8]) -> Result<(), ChangeError> {
    let leads_up = target.split(|byte| *byte == b'/').any(|part| part == b"..");
    if leads_up || target.starts_with(b"/") { Err(ChangeError::Link) } else { Ok(()) }
}

/// Checks the target of a link that is about to get another name. A link that the tool did not make may point outside
/// as long as it stays where it is.
fn check_moved_link(moved: &OwnedFd) -> Result<(), ChangeError> {
    match file_type(moved)? {
        FileType::Symlink => check_target(rustix::fs::readlinkat(moved, "", Vec::new())?.as_bytes()),
        _ => Ok(()),
    }
}

fn check_is_folder(what: &OwnedFd) -> Result<(), ChangeError> {
    match file_type(what)? {
        FileType::Directory => Ok(()),
        _ => Err(Errno::NOTDIR.into()),
    }
}

fn is_same(one: &OwnedFd, other: &OwnedFd) -> Result<bool, Errno> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}
