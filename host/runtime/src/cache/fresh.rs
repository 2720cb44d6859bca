//! Compiled code that our own compiler has just made, in memory that nobody can change any more.

use std::fs::File;
use std::io::{self, Read};

use super::{Authentic, sealed};

/// Compiled code, sealed: neither its bytes nor its length change as long as it exists.
///
/// It has no name in any folder. Whoever makes one vouches for where the bytes come from: this process's compiler, or
/// the compiler process that it started itself.
#[derive(Debug)]
pub(crate) struct FreshCode(File);

impl FreshCode {
    /// Reads exactly so many bytes. Only a small buffer of them is held at a time.
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

    /// The same for a worker process.
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
    fn what_was_received_cannot_be_changed() {
        let code = FreshCode::receive(&b"codeandmore"[..], 4).unwrap();
        let mut text = String::new();
        code.file().read_to_string(&mut text).unwrap();
        assert_eq!(text, "code");
        assert!(code.file().write_all(b"x").is_err());
        assert!(code.file().set_len(0).is_err());
    }

    #[test]
    fn less_than_was_said_is_nothing() {
        assert_eq!(FreshCode::receive(&b"cod"[..], 4).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
