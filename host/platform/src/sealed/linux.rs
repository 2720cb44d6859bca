//! Memory of `memfd_create(2)`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};

pub(super) fn create(name: &str) -> io::Result<File> {
    Ok(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

pub(super) fn seal(file: &File) -> io::Result<()> {
    Ok(fcntl_add_seals(file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?)
}

pub(super) fn is_sealed(file: &File) -> bool {
    fcntl_get_seals(file).is_ok_and(|seals| !seals.is_empty())
}

pub(super) fn path_of(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}
