//! The cryptography that Sigstore's crates use: `ring`, which the rest of the program uses as well.

use ring::digest::{Context, SHA256, SHA384, SHA512};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
    UnparsedPublicKey, VerificationAlgorithm,
};
use sigstore_crypto::provider::{CryptoProvider, HashContext, SigningKeyPair};
use sigstore_crypto::{Error, KeyAlgorithm, SigningScheme, install_default_provider};
use sigstore_types::HashAlgorithm;

/// Hashes, and signs and verifies with P-256 and Ed25519. Everything else is refused.
#[derive(Debug)]
struct Ring;

/// Makes sure that Sigstore's crates have a provider; without one they end the process.
pub(super) fn install() {
    // A program that embeds this library may have installed another one, which then serves as well.
    let _ = install_default_provider(&Ring);
}

struct Hash(Context);

impl HashContext for Hash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

struct P256(EcdsaKeyPair);

impl SigningKeyPair for P256 {
    fn algorithm(&self) -> KeyAlgorithm {
        KeyAlgorithm::EcdsaP256
    }

    fn public_key_bytes(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, Error> {
        let signature = self.0.sign(&SystemRandom::new(), data);
        let signature = signature.map_err(|_| Error::Signing("the system returned no random bytes".to_owned()))?;
        Ok(signature.as_ref().to_vec())
    }

    fn sign_prehashed(&self, _digest: &[u8]) -> Result<Vec<u8>, Error> {
        Err(no_prehash())
    }
}

struct Edwards(Ed25519KeyPair);

impl SigningKeyPair for Edwards {
    fn algorithm(&self) -> KeyAlgorithm {
        KeyAlgorithm::Ed25519
    }

    fn public_key_bytes(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(self.0.sign(data).as_ref().to_vec())
    }

    fn sign_prehashed(&self, _digest: &[u8]) -> Result<Vec<u8>, Error> {
        Err(no_prehash())
    }
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>, Error> {
        let algorithm = match algorithm {
            HashAlgorithm::Sha2256 => &SHA256,
            HashAlgorithm::Sha2384 => &SHA384,
            HashAlgorithm::Sha2512 => &SHA512,
            other => return Err(Error::UnsupportedAlgorithm(format!("no digests with {other:?}"))),
        };
        Ok(Box::new(Hash(Context::new(algorithm))))
    }

    fn verify_raw(&self, scheme: SigningScheme, public_key: &[u8], data: &[u8], signature: &[u8]) -> Result<(), Error> {
        let algorithm: &'static dyn VerificationAlgorithm = match scheme {
            SigningScheme::EcdsaP256Sha256 => &ECDSA_P256_SHA256_ASN1,
            SigningScheme::Ed25519 => &ED25519,
            other => return Err(Error::UnsupportedAlgorithm(format!("no signatures with {}", other.name()))),
        };
        let verified = UnparsedPublicKey::new(algorithm, public_key).verify(data, signature);
        verified.map_err(|_| Error::Verification(format!("not a signature of {}", scheme.name())))
    }

    fn verify_prehashed(
        &self,
        _scheme: SigningScheme,
        _public_key: &[u8],
        _digest: &[u8],
        _signature: &[u8],
    ) -> Result<(), Error> {
        // Only signatures over bare digests, without an envelope, would need it; none is accepted here.
        Err(no_prehash())
    }

    fn key_pair_from_pkcs8_der(&self, pkcs8: &[u8]) -> Result<Box<dyn SigningKeyPair>, Error> {
        let random = SystemRandom::new();
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, pkcs8, &random) {
            return Ok(Box::new(P256(pair)));
        }
        // `maybe_unchecked`: what other programs write has no public key in it that could be compared.
        match Ed25519KeyPair::from_pkcs8_maybe_unchecked(pkcs8) {
            Ok(pair) => Ok(Box::new(Edwards(pair))),
            Err(_) => Err(Error::InvalidKeyFormat("neither a P-256 nor an Ed25519 key".to_owned())),
        }
    }
}

fn no_prehash() -> Error {
    Error::UnsupportedAlgorithm("signatures over digests are not used here".to_owned())
}
