//! Systems whose kernel does not resolve paths beneath a folder.

use std::fs::File;
use std::io;
use std::path::Path;

use super::{BeneathError, OpenOptions};

pub(super) fn is_available(_: &File) -> bool {
    false
}

pub(super) fn open(_: &File, _: &str, _: OpenOptions) -> Result<File, BeneathError> {
    Err(BeneathError::System(io::ErrorKind::Unsupported.into()))
}

pub(super) fn open_folder_without_links(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}
