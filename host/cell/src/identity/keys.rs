//! The Ed25519 keys of gateways and workers (RFC 8032).

use std::fmt;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use fumehood_platform::private;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, ED25519_PUBLIC_KEY_LEN, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// The beginning of a public key's text.
const PREFIX: &str = "ed25519:";
/// Maximum size of a key file, in bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// Errors of keys of gateways and workers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is no public key.
    #[error(
        "`{0}` is not a public key of a cell; expected `ed25519:` and 44 characters of base64, as `fumehood cell key show` prints them"
    )]
    Public(String),
    /// The file has no private key.
    #[error("{0} is not a key of a cell; create one with `fumehood cell key new FILE`")]
    Private(String),
    /// Others can read the private key.
    #[error("other users can read the private key {0}; make it private (`chmod 600`)")]
    Open(String),
    /// The file is there already.
    #[error("{0} already exists; choose another file, or print its public key with `fumehood cell key show {0}`")]
    Exists(String),
    /// The file cannot be read or written.
    #[error("cannot read or write the key of the cell in {file}")]
    Io {
        /// The file.
        file: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The system gave no random bytes.
    #[error("the system returned no random bytes for a key")]
    Random,
}

/// The private key of a gateway or worker.
pub struct NodeKey {
    pair: Ed25519KeyPair,
    public: NodePublicKey,
}

impl fmt::Debug for NodeKey {
    /// Leaves out the private half.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeKey").field("public", &self.public).finish_non_exhaustive()
    }
}

impl NodeKey {
    /// Generates a key. Returns it with the text for a file.
    ///
    /// # Errors
    /// If the system has no random bytes.
    pub fn generate() -> Result<(Self, String), KeyError> {
        let encoded = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| KeyError::Random)?;
        let key = Self::from_pkcs8(encoded.as_ref()).ok_or(KeyError::Random)?;
        Ok((key, BASE64_STANDARD.encode(encoded.as_ref())))
    }

    /// Generates a key, and writes it to a new file that only this user can read.
    ///
    /// # Errors
    /// If the file exists, or cannot be written.
    pub fn create(file: &Path) -> Result<Self, KeyError> {
        let (key, text) = Self::generate()?;
        let written = private::write_options().create_new(true).open(file).and_then(|mut opened| {
            writeln!(opened, "{text}")?;
            opened.sync_all()?;
            private::sync_parent(file)
        });
        written.map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists(file.display().to_string()),
            _ => KeyError::Io { file: file.display().to_string(), source },
        })?;
        Ok(key)
    }

    /// Reads a key that [`Self::create`] wrote.
    ///
    /// # Errors
    /// If the file cannot be read, is open to others, or has no key.
    pub fn read(file: &Path) -> Result<Self, KeyError> {
        let name = || file.display().to_string();
        let failed = |source| KeyError::Io { file: name(), source };
        let opened = fs::File::open(file).map_err(failed)?;
        let metadata = opened.metadata().map_err(failed)?;
        if metadata.is_file() && private::is_open_to_others(&metadata) {
            return Err(KeyError::Open(name()));
        }
        let mut text = String::new();
        opened.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
        let bytes = BASE64_STANDARD.decode(text.trim()).map_err(|_| KeyError::Private(name()))?;
        Self::from_pkcs8(&bytes).ok_or_else(|| KeyError::Private(name()))
    }

    fn from_pkcs8(bytes: &[u8]) -> Option<Self> {
        let pair = Ed25519KeyPair::from_pkcs8(bytes).ok()?;
        let public = NodePublicKey(pair.public_key().as_ref().try_into().ok()?);
        Some(Self { pair, public })
    }

    /// Returns the public half.
    #[must_use]
    pub fn public(&self) -> NodePublicKey {
        self.public
    }

    pub(super) fn sign(&self, text: &[u8]) -> ring::signature::Signature {
        self.pair.sign(text)
    }
}

/// The public key of a gateway or worker, written as `ed25519:` and base64.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodePublicKey([u8; ED25519_PUBLIC_KEY_LEN]);

impl NodePublicKey {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn verifies(&self, text: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(text, signature).is_ok()
    }
}

impl fmt::Display for NodePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", BASE64_STANDARD.encode(self.0))
    }
}

impl fmt::Debug for NodePublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for NodePublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = text.strip_prefix(PREFIX).and_then(|encoded| BASE64_STANDARD.decode(encoded).ok());
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| KeyError::Public(text.chars().take(80).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_file_and_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let made = NodeKey::create(&file).unwrap();
        assert_eq!(NodeKey::read(&file).unwrap().public(), made.public());
        assert!(NodeKey::create(&file).unwrap_err().to_string().contains("key already exists"));
        assert_eq!(made.public().to_string().parse::<NodePublicKey>().unwrap(), made.public());
    }

    #[cfg(unix)]
    #[test]
    fn rejects_a_key_that_others_can_read() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        NodeKey::create(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(NodeKey::read(&file), Err(KeyError::Open(_))));
    }

    #[test]
    fn rejects_what_is_no_key() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        private::write_options().create_new(true).open(&file).unwrap().write_all(b"AAAA").unwrap();
        assert!(matches!(NodeKey::read(&file), Err(KeyError::Private(_))));
        assert!(matches!(NodeKey::read(&folder.path().join("none")), Err(KeyError::Io { .. })));
        for text in ["", "ed25519:", "ed25519:AAAA", "rsa:AAAA"] {
            assert!(text.parse::<NodePublicKey>().is_err(), "{text}");
        }
    }
}
