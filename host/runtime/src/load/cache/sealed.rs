//! Sealed files in memory, and compiled code in one.

use std::fs::File;
use std::io::{self, Read, Seek as _, Write as _};

use fumehood_core::call::limits::display_bytes;
use fumehood_platform::{limits, sealed};

use super::AuthenticCode;

/// Makes the bytes and the length of a file immutable, and rewinds it.
pub(crate) fn seal(file: &mut File) -> io::Result<()> {
    file.flush()?;
    sealed::seal(file)?;
    file.rewind()
}

/// Explains an error of writing such a file if the limit on file sizes is the reason. `what` names the content.
pub(crate) fn explain(error: io::Error, what: &str) -> io::Error {
    if error.kind() != io::ErrorKind::FileTooLarge {
        return error;
    }
    let limit = limits::max_file_bytes().map_or_else(|| "unknown".to_owned(), display_bytes);
    let message = format!(
        "{what} does not fit into a memory file, because file sizes of this process are limited to {limit}; raise the \
         limit, for example with `ulimit -f unlimited`"
    );
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}

/// Compiled code in a sealed file: neither its bytes nor its length can change.
///
/// It has no name in any folder. The caller that creates one guarantees that the bytes come from this process's
/// compiler, or from the compiler process that it started itself.
#[derive(Debug)]
pub(crate) struct FreshCode(File);

impl FreshCode {
    /// Reads exactly `bytes` bytes, through a small buffer.
    ///
    /// # Errors
    /// If there are fewer bytes, or the system has no memory for them.
    pub(crate) fn receive(from: impl Read, bytes: u64) -> io::Result<Self> {
        let mut file = sealed::create("fumehood-code")?;
        let copied = io::copy(&mut from.take(bytes), &mut file);
        let received = copied.map_err(|error| explain(error, "the compiled code"))?;
        if received != bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        seal(&mut file)?;
        Ok(Self(file))
    }

    /// Converts into code that can be sent to a worker process.
    pub(crate) fn into_authentic(self) -> AuthenticCode {
        AuthenticCode(self.0)
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }
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

    #[test]
    fn received_code_is_immutable() {
        let code = FreshCode::receive(&b"codeandmore"[..], 4).unwrap();
        let mut text = String::new();
        code.file().read_to_string(&mut text).unwrap();
        assert_eq!(text, "code");
        assert!(code.file().write_all(b"x").is_err());
        assert!(code.file().set_len(0).is_err());
    }

    #[test]
    fn rejects_code_that_is_too_short() {
        assert_eq!(FreshCode::receive(&b"cod"[..], 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
