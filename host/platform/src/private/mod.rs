//! Files and folders of this user alone, and the permissions of those that others may read.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(not(unix))]
compile_error!(
    "private files: owners and access lists are not checked on this system, so keys and secrets would not be private"
);

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io;
use std::path::Path;

/// Returns whether a file or folder belongs to this user.
#[must_use]
pub fn is_own(metadata: &Metadata) -> bool {
    system::is_own(metadata)
}

/// Returns whether other users can write to a file or folder.
#[must_use]
pub fn is_writable_by_others(metadata: &Metadata) -> bool {
    system::is_writable_by_others(metadata)
}

/// Returns whether other users have any access to a file or folder.
#[must_use]
pub fn is_open_to_others(metadata: &Metadata) -> bool {
    system::is_open_to_others(metadata)
}

/// Returns the permission bits, for messages.
#[must_use]
pub fn mode(metadata: &Metadata) -> u32 {
    system::mode(metadata)
}

/// Returns the permissions of a folder that only this user may enter.
#[must_use]
pub fn folder_permissions() -> Permissions {
    system::permissions(0o700)
}

/// Returns the permissions of a file that everybody may read and this user may write.
#[must_use]
pub fn readable_permissions() -> Permissions {
    system::permissions(0o644)
}

/// Returns the permissions of a folder that everybody may enter and this user may write.
#[must_use]
pub fn readable_folder_permissions() -> Permissions {
    system::permissions(0o755)
}

/// Returns the permissions of a file before the process's own mask is taken off, as new files have them.
#[must_use]
pub fn usual_permissions() -> Permissions {
    system::permissions(0o666)
}

/// Creates a folder and those above it, if they do not exist. Those that it creates are of this user alone.
///
/// # Errors
/// If one of them cannot be created.
pub fn create_folders(path: &Path) -> io::Result<()> {
    system::create_folders(path)
}

/// Creates a folder in an open one, of this user alone.
///
/// # Errors
/// If it cannot be created.
pub fn create_folder_in(parent: &File, name: &str) -> io::Result<()> {
    system::create_folder_in(parent, name)
}

/// Returns options to open a file for writing. A file that is created belongs to this user alone.
#[must_use]
pub fn write_options() -> OpenOptions {
    system::write_options()
}

/// Writes the entry of a file in its folder to disk, so that a new name survives a crash.
///
/// # Errors
/// If the folder cannot be opened or written.
pub fn sync_parent(file: &Path) -> io::Result<()> {
    match file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => system::sync_folder(folder),
        None => Ok(()),
    }
}
