//! Owners and permission bits.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::Mode;

/// Permission bits to write, of group and others.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// All permission bits of group and others.
const OPEN_TO_OTHERS: u32 = 0o077;
/// All permission bits.
const PERMISSIONS: u32 = 0o777;
/// The permission bits of a folder that only its owner may enter.
const FOLDER: u32 = 0o700;
/// The permission bits of a file that only its owner may read and write.
const FILE: u32 = 0o600;

pub(super) fn is_own(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

pub(super) fn is_writable_by_others(metadata: &Metadata) -> bool {
    metadata.mode() & WRITABLE_BY_OTHERS != 0
}

pub(super) fn is_open_to_others(metadata: &Metadata) -> bool {
    metadata.mode() & OPEN_TO_OTHERS != 0
}

pub(super) fn mode(metadata: &Metadata) -> u32 {
    metadata.mode() & PERMISSIONS
}

pub(super) fn permissions(mode: u32) -> Permissions {
    Permissions::from_mode(mode)
}

pub(super) fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

pub(super) fn create_folder_in(parent: &File, name: &str) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(parent, name, Mode::RWXU)?)
}

pub(super) fn write_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(FILE);
    options
}

pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
