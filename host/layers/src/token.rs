//! Bearer tokens: parsing, generation and comparison (RFC 6750).

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use fumehood_core::digest::Digest;
use subtle::ConstantTimeEq as _;

/// Minimum length of a token, in bytes.
const MIN_BYTES: usize = 16;
/// Maximum length of a token, in bytes.
const MAX_BYTES: usize = 1024;
/// Maximum length of the token of another party's server, in bytes.
const MAX_FOREIGN_BYTES: usize = 8 << 10;
/// Number of random bytes of a generated token.
const RANDOM_BYTES: usize = 32;

/// A bearer token. `Debug` does not print it.
///
/// ```
/// use fumehood_layers::{Token, TokenError};
///
/// let token = Token::generate()?;
/// // Shown once, to the person who gives it to the client.
/// println!("{}", token.reveal());
/// assert!(token.matches(token.reveal()));
/// assert!(!token.matches("another one"));
/// // Too short for a secret.
/// assert!(matches!(Token::parse("secret"), Err(TokenError::Form)));
/// # Ok::<(), TokenError>(())
/// ```
#[derive(Clone)]
pub struct Token(String);

/// Errors of reading, parsing and generating tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// An unreadable file.
    #[error("cannot read the token from {path}")]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A file that users other than its owner can access.
    #[error("other users can read {0}; run `chmod 600` on it, and create a new token")]
    Open(PathBuf),
    /// A malformed token.
    #[error("invalid token; expected {MIN_BYTES} to {MAX_BYTES} visible ASCII characters without spaces")]
    Form,
    /// A malformed token of another party's server.
    #[error("invalid token; expected 1 to {MAX_FOREIGN_BYTES} visible ASCII characters without spaces")]
    Foreign,
    /// No random bytes from the system.
    #[error("the system returned no random bytes for a token")]
    Random,
}

impl Token {
    /// Parses a token; line ends around it are ignored.
    ///
    /// # Errors
    /// If it is too short to be a secret, too long, or has other characters than visible ASCII.
    pub fn parse(text: &str) -> Result<Self, TokenError> {
        let text = text.trim_matches(['\r', '\n']);
        let fits = (MIN_BYTES..=MAX_BYTES).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(TokenError::Form) }
    }

    /// Parses the token of another party's server, which may be short.
    ///
    /// # Errors
    /// If it is empty, too long, or has other characters than visible ASCII.
    pub fn from_foreign(text: &str) -> Result<Self, TokenError> {
        let text = text.trim_matches(['\r', '\n']);
        let fits = (1..=MAX_FOREIGN_BYTES).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_graphic());
        if fits { Ok(Self(text.to_owned())) } else { Err(TokenError::Foreign) }
    }

    /// Reads a token from a file that only its owner can access.
    ///
    /// # Errors
    /// If the file cannot be read, others can access it, or it does not hold a token.
    pub fn read(path: &Path) -> Result<Self, TokenError> {
        let failed = |source| TokenError::Read { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(failed(std::io::Error::other("it is not a regular file")));
        }
        if fumehood_platform::private::is_open_to_others(&metadata) {
            return Err(TokenError::Open(path.to_owned()));
        }
        let mut text = String::new();
        file.take(MAX_BYTES as u64 + 3).read_to_string(&mut text).map_err(failed)?;
        Self::parse(&text)
    }

    /// Generates a token of 256 random bits.
    ///
    /// # Errors
    /// If the system gives no random bytes.
    pub fn generate() -> Result<Self, TokenError> {
        let mut bytes = [0; RANDOM_BYTES];
        getrandom::fill(&mut bytes).map_err(|_| TokenError::Random)?;
        Ok(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Returns the secret, to be printed once for the operator who starts the server, or sent to another server.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether the presented token is this one. The time it takes reveals nothing about the token, not even its
    /// length.
    #[must_use]
    pub fn matches(&self, presented: &str) -> bool {
        self.digest().as_bytes().as_slice().ct_eq(Digest::of(presented.as_bytes()).as_bytes()).into()
    }

    /// Returns the digest by which a server knows the token. It is not secret: a token of 256 random bits cannot be guessed,
    /// so a fast hash without salt keeps it as safe as a slow one would keep a password. Only such tokens may be hashed
    /// so.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn check_token(text: &str, fits: bool) {
        assert_eq!(Token::parse(text).is_ok(), fits, "{text:?}")
    }

    #[test]
    fn rejects_malformed_tokens() {
        check_token("0123456789abcdef", true);
        check_token("0123456789abcdef\n", true);
        check_token("0123456789abcde", false);
        check_token("0123456789 abcdef", false);
        check_token("0123456789abcdef\u{e4}", false);
        check_token(&"x".repeat(1025), false);
        assert_ne!(Token::generate().unwrap().reveal(), Token::generate().unwrap().reveal());
        assert_eq!(Token::generate().unwrap().reveal().len(), 43);
        assert_eq!(format!("{:?}", Token::parse("0123456789abcdef").unwrap()), "Token(…)");
    }

    #[test]
    fn rejects_a_token_file_that_others_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o640);
        assert!(matches!(Token::read(&path), Err(TokenError::Open(_))));
        mode(0o600);
        assert!(Token::read(&path).unwrap().reveal() == "0123456789abcdef");
        assert!(matches!(Token::read(folder.path()), Err(TokenError::Read { .. })));
    }
}
