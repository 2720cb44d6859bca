//! Changes of names in a folder: creating, removing, moving and linking, each charged to the folder's account.

use cap_fs_ext::DirExt as _;
use cap_std::fs::Metadata;
use fumehood_core::policy::permission::files::{Protection, QuotaExceeded};

use super::ledger::{Ledger, RemovedEntry, WriteError};
use super::protected_set::ProtectedSet;
use super::resolve::{Base, ErrorCode, NamedEntry, OpenOptions, OpenedFile, ResolveError};
use super::resolver::is_same;

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

impl From<std::io::Error> for ChangeError {
    fn from(error: std::io::Error) -> Self {
        Self::Path(error.into())
    }
}

impl From<ErrorCode> for ChangeError {
    fn from(code: ErrorCode) -> Self {
        Self::Path(code.into())
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
    folder: Base<'_>,
    ledger: &Ledger,
    protected: &ProtectedSet,
    path: &str,
    options: OpenOptions,
    exclusive: bool,
) -> Result<OpenedFile, ChangeError> {
    // An existing file gets no new name, so that opening it charges nothing, even if the account is used up.
    if !exclusive {
        match protected.open(folder, path, options) {
            Err(ChangeError::Path(ResolveError::System(ErrorCode::NoEntry))) => {}
            ended => return ended,
        }
    }
    ledger.change_names(|names| names.add(|| protected.create(folder, path, options)))
}

pub(crate) fn create_folder(
    folder: Base<'_>,
    ledger: &Ledger,
    protected: &ProtectedSet,
    path: &str,
) -> Result<(), ChangeError> {
    let new = folder.parent_of(path)?;
    protected.check_name(&new)?;
    ledger.change_names(|names| names.add(|| Ok(new.dir().create_dir(new.name)?)))
}

/// Removes an empty folder.
pub(crate) fn remove_folder(
    folder: Base<'_>,
    ledger: &Ledger,
    protected: &ProtectedSet,
    path: &str,
) -> Result<(), ChangeError> {
    let old = folder.parent_of(path)?;
    protected.check_name(&old)?;
    ledger.change_names(|names| {
        old.look()?;
        old.dir().remove_dir(old.name)?;
        names.remove(RemovedEntry::Other);
        Ok(())
    })
}

/// Removes the name of a file or of a link.
pub(crate) fn remove_file(
    folder: Base<'_>,
    ledger: &Ledger,
    protected: &ProtectedSet,
    path: &str,
) -> Result<(), ChangeError> {
    let old = folder.parent_of(path)?.without_trailing_slash()?;
    protected.check_name(&old)?;
    ledger.change_names(|names| {
        let removed = old.removed(old.look()?);
        old.dir().remove_file_or_symlink(old.name)?;
        names.remove(removed);
        Ok(())
    })
}

/// Moves a name within one granted folder.
pub(crate) fn rename(
    from: Base<'_>,
    old: &str,
    to: Base<'_>,
    new: &str,
    ledger: &Ledger,
    protected: &ProtectedSet,
) -> Result<(), ChangeError> {
    let old = from.parent_of(old)?;
    let new = to.parent_of(new)?;
    protected.check_name(&old)?;
    protected.check_name(&new)?;
    ledger.change_names(|names| {
        let moved = old.look()?.metadata;
        check_moved_link(&old, &moved)?;
        if (old.has_trailing_slash || new.has_trailing_slash) && !moved.is_dir() {
            return Err(ErrorCode::NotDirectory.into());
        }
        let replaced = match new.look() {
            // Two names of one file: rename(2) does nothing, and both remain.
            Ok(there) if is_same(&there.metadata, &moved) => None,
            Ok(there) => Some(new.removed(there)),
            Err(ResolveError::System(ErrorCode::NoEntry)) => None,
            Err(failure) => return Err(failure.into()),
        };
        old.dir().rename(old.name, &new.dir(), new.name)?;
        if let Some(there) = replaced {
            names.remove(there);
        }
        Ok(())
    })
}

/// Creates a hard link within one granted folder.
pub(crate) fn link(
    from: Base<'_>,
    old: &str,
    to: Base<'_>,
    new: &str,
    ledger: &Ledger,
    protected: &ProtectedSet,
) -> Result<(), ChangeError> {
    let old = from.parent_of(old)?.without_trailing_slash()?;
    let new = to.parent_of(new)?.without_trailing_slash()?;
    protected.check_name(&old)?;
    protected.check_name(&new)?;
    ledger.change_names(|names| {
        let linked = old.look()?.metadata;
        protected.check_identity(&linked)?;
        check_moved_link(&old, &linked)?;
        // The old name is not followed if it is a link.
        names.add(|| Ok(old.dir().hard_link(old.name, &new.dir(), new.name)?))
    })
}

/// Creates a symbolic link to something beside it or below.
///
/// Folders above a link can be moved or replaced later, so that a link with `..` in it could come to point outside. The
/// sandbox would not follow it; other programs would.
pub(crate) fn symlink(
    folder: Base<'_>,
    target: &str,
    ledger: &Ledger,
    protected: &ProtectedSet,
    path: &str,
) -> Result<(), ChangeError> {
    let new = folder.parent_of(path)?.without_trailing_slash()?;
    protected.check_name(&new)?;
    check_target(target.as_bytes())?;
    let bytes = target.len() as u64;
    ledger.change_names(|names| names.add_link(bytes, || Ok(new.dir().symlink(target, new.name)?)))
}

fn check_target(target: &[u8]) -> Result<(), ChangeError> {
    let leads_up = target.split(|byte| *byte == b'/').any(|part| part == b"..");
    if leads_up || target.starts_with(b"/") { Err(ChangeError::Link) } else { Ok(()) }
}

/// Checks the target of a link that is about to get another name. A link that the tool did not make may point outside
/// as long as it stays where it is.
fn check_moved_link(named: &NamedEntry<'_>, moved: &Metadata) -> Result<(), ChangeError> {
    if !moved.file_type().is_symlink() {
        return Ok(());
    }
    check_target(named.dir().read_link_contents(named.name)?.as_os_str().as_encoded_bytes())
}
