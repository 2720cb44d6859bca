//! Signatures of components: keys, statements, and Sigstore bundles that are verified offline.

mod bundle;
mod crypto_provider;
mod key;
mod key_file;
mod statement;

pub use bundle::{
    BUNDLE_MEDIA_TYPE, MAX_BUNDLE_BYTES, SignatureError, VerifiedSignature, sign, verify, verify_reference,
};
pub(crate) use bundle::{OpenJsonError, open_json, sign_json};
pub use key::{Algorithm, KeyError, KeyId, MAX_KEY_BYTES, PublicKey, SigningKey};
pub use key_file::{MAX_SCRYPT_MEMORY_BYTES, MIN_PASSPHRASE_CHARS, Passphrase};
pub(crate) use statement::PROVENANCE_TYPE;
pub use statement::{Claim, MAX_PROVENANCE_BYTES, Provenance};
