//! Private keys in files: PKCS #8, encrypted with a passphrase through scrypt and AES-256, readable by their owner alone.

use std::fmt;
use std::io::Read as _;
use std::path::Path;

use pkcs5::pbes2;
use pkcs5::scrypt;
use pkcs8::der::{Decode as _, Encode as _, pem};
use pkcs8::{EncryptedPrivateKeyInfo, LineEnding};
use zeroize::Zeroizing;

use super::key::{KeyError, MAX_KEY_BYTES, SigningKey};
use crate::private_file;

/// Minimum length of a passphrase for a new file, in characters.
pub const MIN_PASSPHRASE_CHARS: usize = 8;
/// Maximum memory that scrypt may ask for, in bytes.
pub const MAX_SCRYPT_MEMORY_BYTES: u64 = 256 << 20;
/// Maximum number of rounds of PBKDF2, the function that older programs encrypt keys with.
const MAX_PBKDF2_ROUNDS: u32 = 10_000_000;
/// Cost of scrypt for new files, as a power of two: with blocks of 8 it takes 16 MiB. OpenSSL opens no file that takes 32.
const SCRYPT_LOG_COST: u8 = 14;
/// Size of a block of scrypt, in units of 128 bytes.
const SCRYPT_BLOCK_SIZE: u32 = 8;
/// Number of runs of scrypt one after the other, which make up for the memory (OWASP, "Password Storage Cheat Sheet").
const SCRYPT_RUNS: u32 = 5;
const SALT_BYTES: usize = 16;
const IV_BYTES: usize = 16;
const LABEL_ENCRYPTED: &str = "ENCRYPTED PRIVATE KEY";
const LABEL_PLAIN: &str = "PRIVATE KEY";

/// A passphrase. It is cleared from memory when it is dropped, and never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(Zeroizing<String>);

impl Passphrase {
    /// Wraps a passphrase. A line feed at its end, which files and pipes add, is left out.
    #[must_use]
    pub fn new(text: String) -> Self {
        let text = Zeroizing::new(text);
        let line = text.strip_suffix('\n').unwrap_or(&text);
        Self(Zeroizing::new(line.strip_suffix('\r').unwrap_or(line).to_owned()))
    }

    /// Checks that a new key may be encrypted with it.
    ///
    /// # Errors
    /// If it is shorter than [`MIN_PASSPHRASE_CHARS`].
    pub fn check_new(&self) -> Result<(), KeyError> {
        let chars = self.0.chars().count();
        if chars < MIN_PASSPHRASE_CHARS { Err(KeyError::ShortPassphrase(chars)) } else { Ok(()) }
    }

    fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(…)")
    }
}

fn not_private(reason: &str) -> KeyError {
    KeyError::NotPrivate(reason.to_owned())
}

fn not_encrypted() -> KeyError {
    not_private("it cannot be encrypted")
}

impl SigningKey {
    /// Returns the key in PEM, encrypted with a passphrase.
    ///
    /// # Errors
    /// If the passphrase is shorter than [`MIN_PASSPHRASE_CHARS`], or the system gives no randomness.
    pub fn to_encrypted_pem(&self, passphrase: &Passphrase) -> Result<Zeroizing<String>, KeyError> {
        passphrase.check_new()?;
        let mut salt = [0; SALT_BYTES];
        let mut iv = [0; IV_BYTES];
        getrandom::fill(&mut salt).map_err(|_| KeyError::Random)?;
        getrandom::fill(&mut iv).map_err(|_| KeyError::Random)?;
        let cost =
            scrypt::Params::new(SCRYPT_LOG_COST, SCRYPT_BLOCK_SIZE, SCRYPT_RUNS, 32).map_err(|_| not_encrypted())?;
        let parameters = pbes2::Parameters::scrypt_aes256cbc(cost, &salt, &iv).map_err(|_| not_encrypted())?;
        let encrypted_data = parameters.encrypt(passphrase.as_bytes(), self.pkcs8()).map_err(|_| not_encrypted())?;
        let document =
            EncryptedPrivateKeyInfo { encryption_algorithm: parameters.into(), encrypted_data: &encrypted_data };
        let der = document.to_der().map_err(|_| not_encrypted())?;
        let text = pem::encode_string(LABEL_ENCRYPTED, LineEnding::LF, &der).map_err(|_| not_encrypted())?;
        Ok(Zeroizing::new(text))
    }

    /// Reads a key in PEM, encrypted or not. A passphrase for a key that is not encrypted is left unused.
    ///
    /// # Errors
    /// If it is malformed, if it is encrypted and the passphrase is missing or wrong, or if opening it would take more than
    /// [`MAX_SCRYPT_MEMORY_BYTES`].
    pub fn from_pem(text: &str, passphrase: Option<&Passphrase>) -> Result<Self, KeyError> {
        if text.len() > MAX_KEY_BYTES {
            return Err(not_private("it is too long"));
        }
        let (label, der) = pem::decode_vec(text.trim().as_bytes()).map_err(|_| not_private("it is not PEM"))?;
        let der = Zeroizing::new(der);
        match label {
            LABEL_PLAIN => Self::from_pkcs8(&der),
            LABEL_ENCRYPTED => {
                let document = EncryptedPrivateKeyInfo::from_der(&der);
                let document = document.map_err(|_| not_private("its encryption is unknown"))?;
                check_work(&document)?;
                let passphrase = passphrase.ok_or(KeyError::Encrypted)?;
                let opened = document.encryption_algorithm.decrypt(passphrase.as_bytes(), document.encrypted_data);
                let pkcs8 = Zeroizing::new(opened.map_err(|_| KeyError::Passphrase)?);
                // A wrong passphrase sometimes gives bytes that end well and are no key.
                Self::from_pkcs8(&pkcs8).map_err(|error| match error {
                    KeyError::NotPrivate(_) => KeyError::Passphrase,
                    other => other,
                })
            }
            other => Err(not_private(&format!("it is a `{other}`"))),
        }
    }

    /// Writes the encrypted key to a new file that only its owner can read. The file appears as a whole or not at all.
    ///
    /// # Errors
    /// If the file exists, or cannot be written, and as [`Self::to_encrypted_pem`].
    pub fn write(&self, path: &Path, passphrase: &Passphrase) -> Result<(), KeyError> {
        let text = self.to_encrypted_pem(passphrase)?;
        private_file::create(path, text.as_bytes()).map_err(|source| match source.kind() {
            std::io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
            _ => KeyError::Io { path: path.to_owned(), source },
        })
    }

    /// Reads a key from a file that only its owner can read.
    ///
    /// # Errors
    /// If the file cannot be read, or is open to others, and as [`Self::from_pem`].
    pub fn read(path: &Path, passphrase: Option<&Passphrase>) -> Result<Self, KeyError> {
        let io = |source| KeyError::Io { path: path.to_owned(), source };
        let file = private_file::open(path).map_err(|source| match source.kind() {
            std::io::ErrorKind::PermissionDenied => KeyError::Open(path.to_owned()),
            _ => io(source),
        })?;
        let mut text = Zeroizing::new(String::new());
        file.take(MAX_KEY_BYTES as u64 + 1).read_to_string(&mut text).map_err(io)?;
        Self::from_pem(&text, passphrase)
    }
}

/// Refuses files whose parameters would take more memory or time than any real file does.
fn check_work(document: &EncryptedPrivateKeyInfo<'_>) -> Result<(), KeyError> {
    let Some(parameters) = document.encryption_algorithm.pbes2() else {
        return Err(KeyError::NotPrivate("its encryption is outdated".to_owned()));
    };
    if let Some(scrypt) = parameters.kdf.scrypt() {
        let memory = scrypt.cost_parameter.saturating_mul(128).saturating_mul(u64::from(scrypt.block_size));
        let work = memory.saturating_mul(u64::from(scrypt.parallelization));
        // Runs one after the other take time instead of memory: four times the maximum is some seconds.
        if memory > MAX_SCRYPT_MEMORY_BYTES || work > MAX_SCRYPT_MEMORY_BYTES * 4 {
            return Err(KeyError::Work);
        }
    }
    if parameters.kdf.pbkdf2().is_some_and(|pbkdf2| pbkdf2.iteration_count > MAX_PBKDF2_ROUNDS) {
        return Err(KeyError::Work);
    }
    Ok(())
}
