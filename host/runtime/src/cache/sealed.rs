//! Files in memory that nobody can change any more.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};

use rustix::fs::{MemfdFlags, SealFlags};

/// An empty file without a name in any folder, to be filled and then sealed.
pub(crate) fn new(name: &str) -> io::Result<File> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

/// Makes its bytes and its length final, and goes back to its start.
pub(crate) fn seal(file: &mut File) -> io::Result<()> {
    file.flush()?;
    rustix::fs::fcntl_add_seals(&*file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    file.rewind()
}
