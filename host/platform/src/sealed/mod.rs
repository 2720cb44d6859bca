//! Files in memory, which nobody can change once they are sealed.

#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
compile_error!("sealed files: passing compiled code in sealed memory is implemented only for Linux");

use std::fs::File;
use std::io;
use std::path::PathBuf;

/// Creates an empty file without a name in any folder, to be filled and then sealed. `name` is shown in lists of open
/// files.
///
/// # Errors
/// If the system has no memory for it.
pub fn create(name: &str) -> io::Result<File> {
    system::create(name)
}

/// Makes the bytes and the length of a file of [`create`] immutable.
///
/// # Errors
/// If the file cannot be sealed.
pub fn seal(file: &File) -> io::Result<()> {
    system::seal(file)
}

/// Returns whether a file is in memory and sealed.
#[must_use]
pub fn is_sealed(file: &File) -> bool {
    system::is_sealed(file)
}

/// Returns a path that leads to this very file, whatever its name leads to by now, for as long as it is open.
#[must_use]
pub fn path_of(file: &File) -> PathBuf {
    system::path_of(file)
}
