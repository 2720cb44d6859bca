//! Compiled code that our own compiler has just made, in sealed memory.

use std::fs::File;
use std::io::{self, Read};

use super::{Authentic, sealed};

/// Compiled code in a sealed file: neither its bytes nor its length can change.
///
/// It has no name in any folder. The caller that creates one guarantees that the bytes come from this process's compiler,
/// or from the compiler process that it started itself.
#[derive(Debug)]
pub(crate) struct FreshCode(File);

impl FreshCode {
    /// Reads exactly `bytes` bytes, through a small buffer.
    ///
    /// # Errors
    /// If there are fewer bytes, or the system has no memory for them.
    pub(crate) fn receive(from: impl Read, bytes: u64) -> io::Result<Self> {
        let mut file = sealed::new("fumehood-code")?;
        let copied = io::copy(&mut from.take(bytes), &mut file);
        let received = copied.map_err(|error| sealed::explain(error, "the compiled code"))?;
        if received != bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        sealed::seal(&mut file)?;
        Ok(Self(file))
    }

    /// Converts into code that can be sent to a worker process.
    pub(crate) fn into_authentic(self) -> Authentic {
        Authentic(self.0)
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

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
