//! Keys of signers: generated, read and written.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fumehood_core::digest::Digest;
use pkcs8::der::{Decode as _, Encode as _};
use pkcs8::{ObjectIdentifier, PrivateKeyInfo};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use serde::{Deserialize, Serialize};
use sigstore_crypto::KeyPair;
use sigstore_crypto::{KeyAlgorithm, VerificationKey};
use sigstore_types::{DerPublicKey, SignatureBytes};
use zeroize::Zeroizing;

use super::crypto_provider;

/// Maximum size of a file with a key, in bytes.
pub const MAX_KEY_BYTES: usize = 16 << 10;
/// The identifier of Ed25519 keys (RFC 8410, section 3).
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");

/// The algorithm of a signer's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Algorithm {
    /// ECDSA with the curve P-256 and SHA-256, which every program that reads Sigstore's bundles knows.
    #[default]
    #[serde(rename = "p256")]
    P256,
    /// Ed25519.
    #[serde(rename = "ed25519")]
    Ed25519,
}

/// A public key: what an operator trusts.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey {
    der: Vec<u8>,
    algorithm: Algorithm,
}

/// The identity of a key: the SHA-256 digest of its public half in DER.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(Digest);

/// A private key that signs. The bytes are cleared from memory when it is dropped.
///
/// ```
/// use fumehood_registry::signature::{Algorithm, KeyError, PublicKey, SigningKey};
///
/// let key = SigningKey::generate(Algorithm::default())?;
/// let signature = key.sign_text(b"greeter 1.0")?;
/// // The public half is what others trust.
/// let public: PublicKey = key.public().to_pem().parse()?;
/// assert!(public.verifies(b"greeter 1.0", &signature));
/// assert!(!public.verifies(b"greeter 1.1", &signature));
/// # Ok::<(), KeyError>(())
/// ```
pub struct SigningKey {
    pkcs8: Zeroizing<Vec<u8>>,
    pair: KeyPair,
    public: PublicKey,
}

/// An error about a key. No message repeats any part of a key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is no public key.
    #[error("invalid public key: {0}; expected PEM with `BEGIN PUBLIC KEY`, of P-256 or Ed25519")]
    NotPublic(String),
    /// The text is no private key.
    #[error(
        "invalid private key: {0}; expected PEM with `BEGIN ENCRYPTED PRIVATE KEY` or `BEGIN PRIVATE KEY`, as \
         `openssl pkcs8 -topk8` writes it"
    )]
    NotPrivate(String),
    /// The private key has another algorithm.
    #[error("the key is neither P-256 nor Ed25519, or its public key is missing; create one with `fumehood key new`")]
    Algorithm,
    /// The passphrase does not open the key.
    #[error("wrong passphrase; try again")]
    Passphrase,
    /// A passphrase is needed.
    #[error("the key is encrypted; its passphrase is required")]
    Encrypted,
    /// The passphrase is too short.
    #[error("the passphrase has {0} characters; the minimum is {minimum}", minimum = super::MIN_PASSPHRASE_CHARS)]
    ShortPassphrase(usize),
    /// Opening the key would take more memory or time than any real key does.
    #[error("decrypting the key needs more than {maximum} MiB of memory, which may be an attack", maximum = super::MAX_SCRYPT_MEMORY_BYTES >> 20)]
    Work,
    /// The system gave no randomness.
    #[error("the system returned no random bytes for a key")]
    Random,
    /// The file of the key exists.
    #[error("{0} already exists, and keys are never overwritten; choose another file, or move this one away")]
    Exists(std::path::PathBuf),
    /// The file of the key can be read by others.
    #[error("other users can read or change {0}, or it is not a regular file; make it private (`chmod 600`)")]
    Open(std::path::PathBuf),
    /// The file cannot be read or written.
    #[error("cannot read or write the key {path}")]
    Io {
        /// The file.
        path: std::path::PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::P256 => "P-256",
            Self::Ed25519 => "Ed25519",
        })
    }
}

fn not_public(reason: impl fmt::Display) -> KeyError {
    KeyError::NotPublic(reason.to_string())
}

impl PublicKey {
    /// Parses a SubjectPublicKeyInfo in DER (RFC 5280, section 4.1).
    ///
    /// # Errors
    /// If it is malformed, or of an algorithm other than P-256 and Ed25519.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        crypto_provider::install();
        if der.len() > MAX_KEY_BYTES {
            return Err(not_public("it is too long"));
        }
        let key = DerPublicKey::from_bytes(der);
        let algorithm = match KeyAlgorithm::from_spki(&key).map_err(not_public)? {
            KeyAlgorithm::EcdsaP256 => Algorithm::P256,
            KeyAlgorithm::Ed25519 => Algorithm::Ed25519,
            _ => return Err(not_public("it has another algorithm")),
        };
        VerificationKey::from_spki(&key).map_err(not_public)?;
        Ok(Self { der: der.to_vec(), algorithm })
    }

    /// Returns the key in PEM, as `openssl` and other programs read it.
    #[must_use]
    pub fn to_pem(&self) -> String {
        // Line feeds alone: the text goes into files of this system.
        DerPublicKey::from_bytes(&self.der).to_pem().replace("\r\n", "\n")
    }

    /// Returns the algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the identity of the key.
    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId(Digest::of(&self.der))
    }

    /// Returns whether the owner of this key signed `text`: see [`SigningKey::sign_text`].
    #[must_use]
    pub fn verifies(&self, text: &[u8], signature: &str) -> bool {
        crypto_provider::install();
        let Ok(bytes) = STANDARD.decode(signature) else { return false };
        let verified = VerificationKey::from_spki(&self.as_sigstore())
            .and_then(|key| key.verify(text, &SignatureBytes::new(bytes)));
        verified.is_ok()
    }

    pub(super) fn as_sigstore(&self) -> DerPublicKey {
        DerPublicKey::from_bytes(&self.der)
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    /// Parses PEM, or base64 of DER in one line, which fits into a configuration.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        if text.len() > MAX_KEY_BYTES {
            return Err(KeyError::NotPublic("it is too long".to_owned()));
        }
        if text.starts_with("-----") {
            let key = DerPublicKey::from_pem(text).map_err(|error| KeyError::NotPublic(error.to_string()))?;
            return Self::from_der(key.as_bytes());
        }
        let der = STANDARD.decode(text).map_err(|_| KeyError::NotPublic("it is neither PEM nor base64".to_owned()))?;
        Self::from_der(&der)
    }
}

impl TryFrom<String> for PublicKey {
    type Error = KeyError;
    fn try_from(text: String) -> Result<Self, KeyError> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        STANDARD.encode(key.der)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({} {})", self.algorithm, self.id())
    }
}

impl KeyId {
    /// Returns the hint that a bundle names this key by: base64 of the digest, as cosign writes it.
    #[must_use]
    pub fn hint(&self) -> String {
        STANDARD.encode(self.0.as_bytes())
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl SigningKey {
    /// Generates a key.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn generate(algorithm: Algorithm) -> Result<Self, KeyError> {
        let random = SystemRandom::new();
        let document = match algorithm {
            Algorithm::P256 => EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random),
            Algorithm::Ed25519 => Ed25519KeyPair::generate_pkcs8(&random),
        };
        let document = document.map_err(|_| KeyError::Random)?;
        Self::from_pkcs8(document.as_ref())
    }

    /// Reads an unencrypted key in PKCS #8 (RFC 5208).
    ///
    /// # Errors
    /// If it is malformed, or of an algorithm other than P-256 and Ed25519.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        crypto_provider::install();
        let pkcs8 = portable(der)?;
        let pair = KeyPair::from_pkcs8_der(&pkcs8).map_err(|_| KeyError::Algorithm)?;
        let public = pair.public_key_der().map_err(|_| KeyError::Algorithm)?;
        let public = PublicKey::from_der(public.as_bytes())?;
        Ok(Self { pkcs8, pair, public })
    }

    /// Returns the public half.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs a text as it is, and returns the signature in base64. Whoever calls this gives the text a beginning that no
    /// other signed text has.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn sign_text(&self, text: &[u8]) -> Result<String, KeyError> {
        let signature = self.pair.sign(text).map_err(|_| KeyError::Random)?;
        Ok(STANDARD.encode(signature.as_bytes()))
    }

    pub(super) fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }

    pub(super) fn pair(&self) -> &KeyPair {
        &self.pair
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("public", &self.public).finish_non_exhaustive()
    }
}

/// Returns an Ed25519 key in version 1 of PKCS #8, which every program reads; version 2 is what `ring` writes. Other keys
/// are returned as they are.
fn portable(der: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    // Version 2 with the public half of `ring` is not what the parser takes, so that the seed is looked for first.
    if let Some(seed) = ed25519_seed(der) {
        let algorithm = pkcs8::AlgorithmIdentifierRef { oid: ED25519, parameters: None };
        let version_1 = PrivateKeyInfo::new(algorithm, seed).to_der();
        return version_1.map(Zeroizing::new).map_err(|_| not_pkcs8());
    }
    PrivateKeyInfo::from_der(der).map_err(|_| not_pkcs8())?;
    Ok(Zeroizing::new(der.to_vec()))
}

fn not_pkcs8() -> KeyError {
    KeyError::NotPrivate("it is not PKCS #8".to_owned())
}

/// Returns the private key of an Ed25519 document, an OCTET STRING in an OCTET STRING (RFC 8410, section 7): it stands at the
/// same place in both versions.
fn ed25519_seed(der: &[u8]) -> Option<&[u8]> {
    /// Everything between the version and the seed: the algorithm, and the two headers of the seed.
    const BEFORE_SEED: [u8; 11] = [0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
    // A header of two bytes and the version of three.
    let rest = der.get(5..)?.strip_prefix(&BEFORE_SEED)?;
    rest.get(..32)?;
    der.get(14..48)
}
