//! Sealed files in memory (`memfd_create(2)`).

use std::fs::File;
use std::io::{self, Seek as _, Write as _};

use fumehood_core::limits::display_bytes;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::process::Resource;

/// Creates an empty file without a name in any folder, to be filled and then sealed.
pub(crate) fn new(name: &str) -> io::Result<File> {
    Ok(rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?.into())
}

/// Makes the bytes and the length of a file immutable, and rewinds it.
pub(crate) fn seal(file: &mut File) -> io::Result<()> {
    file.flush()?;
    rustix::fs::fcntl_add_seals(&*file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    file.rewind()
}

/// Explains an error of writing such a file if the limit on file sizes is the reason. `what` names the content.
pub(crate) fn explain(error: io::Error, what: &str) -> io::Error {
    if error.kind() != io::ErrorKind::FileTooLarge {
        return error;
    }
    let limit = rustix::process::getrlimit(Resource::Fsize).current.map_or_else(|| "unknown".to_owned(), display_bytes);
    let message = format!(
        "{what} does not fit into a file in memory, because file sizes of this process are limited to {limit}; start it with a \
         higher limit, for example after `ulimit -f unlimited`"
    );
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explains_the_limit_on_file_sizes_only() {
        let limited = explain(io::ErrorKind::FileTooLarge.into(), "the component");
        assert_eq!(limited.kind(), io::ErrorKind::FileTooLarge);
        assert!(limited.to_string().contains("the component does not fit"), "{limited}");
        let other = explain(io::Error::other("broken"), "the component");
        assert_eq!(other.to_string(), "broken");
    }
}
