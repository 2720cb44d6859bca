//! Files that only their owner can read: created as a whole or not at all, and checked when they are opened.

use std::fs::{File, Metadata};
use std::io::{self, Write as _};
use std::path::Path;

use fumehood_platform::{files, private};
use tempfile::NamedTempFile;

/// Prefix of files that are not complete yet.
pub(crate) const TEMPORARY_PREFIX: &str = ".incomplete-";

/// Writes a new file.
///
/// # Errors
/// With `AlreadyExists` if it exists, and if it cannot be written.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary(folder_of(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path).map_err(|error| error.error)?;
    sync_folder(folder_of(path))
}

/// Writes a file in place of the one that may be there. Readers see either, and nothing in between.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = temporary(folder_of(path))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    sync_folder(folder_of(path))
}

/// Creates a temporary file, with a lock that tells other processes that it is in use. The name disappears when the file is
/// dropped; that of a process that was killed is removed by [`remove_abandoned`].
pub(crate) fn temporary(folder: &Path) -> io::Result<NamedTempFile> {
    // The mode of such a file is 0600.
    let file = tempfile::Builder::new().prefix(TEMPORARY_PREFIX).tempfile_in(folder)?;
    file.as_file().try_lock()?;
    Ok(file)
}

/// Removes temporary files of processes that are gone. Returns their number.
pub(crate) fn remove_abandoned(folder: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX) {
            continue;
        }
        let Ok(file) = open(&entry.path()) else { continue };
        let is_abandoned = file.try_lock().is_ok();
        // Between creation and lock of a file of another process lies an instant; it is not older than that.
        let is_fresh = file.metadata()?.modified()?.elapsed().is_ok_and(|age| age.as_secs() < 1);
        if is_abandoned && !is_fresh && std::fs::remove_file(entry.path()).is_ok() {
            removed += 1;
        }
    }
    Ok(removed)
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Opens a regular file that belongs to this user and that other users cannot access. Links are not followed.
///
/// # Errors
/// With `PermissionDenied` if it is something else.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = files::open_without_following(path).map_err(|error| {
        // Systems report a link that is not followed with different error codes.
        let is_link = std::fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        if is_link { denied() } else { error }
    })?;
    let metadata = file.metadata()?;
    if metadata.is_file() && is_private(&metadata) { Ok(file) } else { Err(denied()) }
}

/// Creates a folder that only its owner can access, or checks the one that is there.
///
/// # Errors
/// With `PermissionDenied` if it is a link, belongs to another user, or other users can access it.
pub(crate) fn ensure_folder(path: &Path) -> io::Result<()> {
    private::create_folders(path)?;
    let metadata = std::fs::symlink_metadata(path)?;
    if metadata.is_dir() && is_private(&metadata) { Ok(()) } else { Err(denied()) }
}

fn denied() -> io::Error {
    let why = "it is a link, belongs to another user, or other users can access it";
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn is_private(metadata: &Metadata) -> bool {
    private::is_own(metadata) && !private::is_open_to_others(metadata)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
