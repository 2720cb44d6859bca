//! Sigstore bundles: signing a statement, and verifying one offline with keys that are trusted.

use fumehood_core::digest::Digest;
use fumehood_core::text::sanitize::printable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sigstore_bundle::{BundleV03, VerificationMaterialV03};
use sigstore_crypto::VerificationKey;
use sigstore_types::bundle::VerificationMaterialContent;
use sigstore_types::{
    Bundle, DsseEnvelope, DsseSignature, KeyId as SigstoreKeyId, MediaType, PayloadBytes, SignatureContent,
};

use super::crypto_provider;
use super::key::{KeyId, PublicKey, SigningKey};
use super::statement::{Claim, PAYLOAD_TYPE, Statement, Subject};
use crate::reference::OciReference;

/// Maximum size of a bundle with the signature of a component, in bytes.
pub const MAX_BUNDLE_BYTES: usize = 256 << 10;
/// Media type of a bundle (Sigstore bundle format 0.3).
pub const BUNDLE_MEDIA_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";

/// The result of verifying a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSignature {
    /// The key that made the signature.
    pub key: KeyId,
    /// The verified claim.
    pub claim: Claim,
}

/// A reason not to accept a signature. Each is one sentence that names the component.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SignatureError {
    /// There is no signature.
    #[error(
        "{name} is not signed; ask its publisher for a signature, or set `signatures = \"warn\"` for this registry"
    )]
    Missing {
        /// The name of the component.
        name: String,
    },
    /// No key is trusted for this name, so that no signature can be accepted.
    #[error("no key is trusted for {name}; add the publisher's public key to `trusted_keys`")]
    NoTrustedKey {
        /// The name of the component.
        name: String,
    },
    /// The signature was made with a key that is not trusted for this name.
    #[error(
        "{name} is signed with a key that is not trusted for it (hint {hint}); compare it with the key that its \
         publisher announces before you trust it"
    )]
    ForeignKey {
        /// The name of the component.
        name: String,
        /// The hint of the bundle about its key.
        hint: String,
    },
    /// The signature names a trusted key, and was not made with it, or not over these bytes.
    #[error(
        "the signature of {name} is invalid: it was not made with the key {key} that it names; download the component \
         again from its publisher"
    )]
    Wrong {
        /// The name of the component.
        name: String,
        /// The trusted key that the bundle names.
        key: KeyId,
    },
    /// The signature is that of another version or of other bytes.
    #[error("the signature of {name} was made for {signed}, but this is {found}; it was copied from another version")]
    OtherDigest {
        /// The name of the component.
        name: String,
        /// The digest in the signature.
        signed: Digest,
        /// The digest of what was received.
        found: Digest,
    },
    /// The signature is that of another component.
    #[error("the signature of {name} was made for the name {signed}; it was copied from another component")]
    OtherName {
        /// The name of the component.
        name: String,
        /// The name in the signature.
        signed: String,
    },
    /// The signature is that of another release.
    #[error(
        "the signature of {name} was made for the tag {signed}, but {asked} was requested: an older release may be \
         served instead of a newer one; ask its publisher, or use {signed}"
    )]
    OtherTag {
        /// The name of the component.
        name: String,
        /// The tag in the signature.
        signed: String,
        /// The tag that was asked for.
        asked: String,
    },
    /// The bundle cannot be read.
    #[error("malformed signature of {name}: {reason}; expected a Sigstore bundle 0.3 with a provenance statement")]
    Malformed {
        /// The name of the component.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The component cannot be signed.
    #[error("cannot sign {name}: {reason}")]
    Unsignable {
        /// The name of the component.
        name: String,
        /// The reason.
        reason: String,
    },
}

impl SignatureError {
    /// Returns how close a refused signature came to being accepted: with several of them, the closest explains most.
    fn closeness(&self) -> u8 {
        match self {
            Self::OtherTag { .. } => 6,
            Self::OtherDigest { .. } => 5,
            Self::OtherName { .. } => 4,
            Self::Wrong { .. } => 3,
            Self::ForeignKey { .. } => 2,
            Self::Malformed { .. } => 1,
            _ => 0,
        }
    }
}

/// Signs a claim. Returns the bundle as JSON.
///
/// # Errors
/// If the system gives no randomness.
pub fn sign(key: &SigningKey, claim: &Claim) -> Result<String, SignatureError> {
    let unsignable = |reason: String| SignatureError::Unsignable { name: claim.name.clone(), reason };
    let payload = claim.to_json().map_err(|error| unsignable(error.to_string()))?;
    seal(key, &payload).map_err(unsignable)
}

/// Verifies signatures of one component. One good signature of a trusted key is enough.
///
/// # Errors
/// The reason why the best of the signatures is refused.
pub fn verify(
    name: &str,
    manifest: &Digest,
    component: &Digest,
    bundles: &[Vec<u8>],
    trusted: &[PublicKey],
) -> Result<VerifiedSignature, SignatureError> {
    verify_with_tag(name, None, Digests { manifest, component }, bundles, trusted)
}

/// Like [`verify`], for what was asked for under a reference. A signature that states a tag is good for that tag alone.
///
/// # Errors
/// The reason why the best of the signatures is refused.
pub fn verify_reference(
    reference: &OciReference,
    manifest: &Digest,
    component: &Digest,
    bundles: &[Vec<u8>],
    trusted: &[PublicKey],
) -> Result<VerifiedSignature, SignatureError> {
    verify_with_tag(&reference.name(), reference.tag(), Digests { manifest, component }, bundles, trusted)
}

/// The digests that a signature has to be about.
#[derive(Clone, Copy)]
struct Digests<'a> {
    manifest: &'a Digest,
    component: &'a Digest,
}

fn verify_with_tag(
    name: &str,
    tag: Option<&str>,
    digests: Digests<'_>,
    bundles: &[Vec<u8>],
    trusted: &[PublicKey],
) -> Result<VerifiedSignature, SignatureError> {
    if bundles.is_empty() {
        return Err(SignatureError::Missing { name: name.to_owned() });
    }
    if trusted.is_empty() {
        return Err(SignatureError::NoTrustedKey { name: name.to_owned() });
    }
    let mut closest: Option<SignatureError> = None;
    for bundle in bundles {
        match verify_one(name, tag, digests, bundle, trusted) {
            Ok(verified) => return Ok(verified),
            Err(error) if closest.as_ref().is_none_or(|other| error.closeness() > other.closeness()) => {
                closest = Some(error);
            }
            Err(_) => {}
        }
    }
    Err(closest.unwrap_or(SignatureError::Missing { name: name.to_owned() }))
}

fn verify_one(
    name: &str,
    tag: Option<&str>,
    digests: Digests<'_>,
    bundle: &[u8],
    trusted: &[PublicKey],
) -> Result<VerifiedSignature, SignatureError> {
    let malformed = |reason: String| SignatureError::Malformed { name: name.to_owned(), reason };
    let opened = open(bundle, trusted, MAX_BUNDLE_BYTES).map_err(|error| match error {
        OpenError::Malformed(reason) => malformed(reason),
        OpenError::ForeignKey(hint) => SignatureError::ForeignKey { name: name.to_owned(), hint },
        OpenError::Wrong(key) => SignatureError::Wrong { name: name.to_owned(), key },
    })?;
    let claim = Claim::from_json(&opened.payload).map_err(malformed)?;
    if claim.name != name {
        return Err(SignatureError::OtherName { name: name.to_owned(), signed: printable(&claim.name).into_owned() });
    }
    for (signed, found) in [(claim.manifest, digests.manifest), (claim.component, digests.component)] {
        if signed != *found {
            return Err(SignatureError::OtherDigest { name: name.to_owned(), signed, found: *found });
        }
    }
    if let (Some(signed), Some(asked)) = (claim.tag.as_deref(), tag)
        && signed != asked
    {
        let signed = printable(signed).into_owned();
        let asked = asked.to_owned();
        return Err(SignatureError::OtherTag { name: name.to_owned(), signed, asked });
    }
    Ok(VerifiedSignature { key: opened.key, claim })
}

/// A payload whose signature was verified.
struct VerifiedPayload {
    key: KeyId,
    payload: Vec<u8>,
}

/// A reason why a bundle was not opened.
enum OpenError {
    Malformed(String),
    ForeignKey(String),
    Wrong(KeyId),
}

impl OpenError {
    fn malformed(reason: &str) -> Self {
        Self::Malformed(printable(reason).into_owned())
    }
}

/// Signs an in-toto statement. Returns the bundle as JSON.
fn seal(key: &SigningKey, payload: &[u8]) -> Result<String, String> {
    let hint = key.public().id().hint();
    let signature = key.pair().sign(&sigstore_types::dsse::pae(PAYLOAD_TYPE, payload));
    let signature = DsseSignature::new(signature.map_err(|error| error.to_string())?, SigstoreKeyId::new(""));
    let envelope = DsseEnvelope::new(PAYLOAD_TYPE, PayloadBytes::from_bytes(payload), signature);
    let material = VerificationMaterialV03::PublicKey { hint };
    let bundle = BundleV03::new(material, SignatureContent::DsseEnvelope(envelope)).into_bundle();
    bundle.to_json().map_err(|error| error.to_string())
}

/// Verifies the signature of a bundle and returns its payload.
///
/// Sigstore's own verifier takes no bundle without an entry of a transparency log or a timestamp. Here keys are trusted because
/// an operator names them, and verification needs no network; so its types and its check of a signature are used, and the
/// caller compares names and digests. Entries of a log that a bundle may have say nothing more here.
fn open(bundle: &[u8], trusted: &[PublicKey], max_bytes: usize) -> Result<VerifiedPayload, OpenError> {
    crypto_provider::install();
    if bundle.len() > max_bytes {
        return Err(OpenError::malformed(&format!("it has more than {max_bytes} bytes")));
    }
    let text = std::str::from_utf8(bundle).map_err(|_| OpenError::malformed("it is not text"))?;
    let bundle = Bundle::from_json(text).map_err(|error| OpenError::malformed(&error.to_string()))?;
    if bundle.media_type() != MediaType::Bundle0_3 {
        return Err(OpenError::malformed("it is a bundle of another version"));
    }
    let VerificationMaterialContent::PublicKey(named) = &bundle.verification_material.content else {
        return Err(OpenError::malformed("it was made with a certificate, not with a key"));
    };
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
        return Err(OpenError::malformed("it has no statement"));
    };
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(OpenError::malformed("its payload is not an in-toto statement"));
    }
    let signed = envelope.pae();
    for key in trusted {
        let made_it = VerificationKey::from_spki(&key.as_sigstore())
            .and_then(|verifier| verifier.verify(&signed, &envelope.signature.sig));
        if made_it.is_ok() {
            return Ok(VerifiedPayload { key: key.id(), payload: envelope.payload.as_bytes().to_vec() });
        }
    }
    match trusted.iter().find(|key| key.id().hint() == named.hint) {
        Some(key) => Err(OpenError::Wrong(key.id())),
        None => Err(OpenError::ForeignKey(printable(&named.hint).chars().take(100).collect())),
    }
}

/// A reason why a signed value was refused.
pub(crate) enum OpenJsonError {
    Malformed(String),
    ForeignKey(String),
    Wrong(KeyId),
    OtherName(String),
}

/// Signs a value under a name. Returns the bundle as JSON.
pub(crate) fn sign_json<P: Serialize>(
    key: &SigningKey,
    name: &str,
    predicate_type: &str,
    value: &P,
) -> Result<String, String> {
    let json = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    let subject = vec![Subject::new(name.to_owned(), &Digest::of(&json))];
    let statement = serde_json::to_vec(&Statement::new(subject, predicate_type, value));
    seal(key, &statement.map_err(|error| error.to_string())?)
}

/// Verifies a value that was signed under a name.
pub(crate) fn open_json<P: Serialize + DeserializeOwned>(
    bundle: &[u8],
    name: &str,
    predicate_type: &str,
    trusted: &[PublicKey],
    max_bytes: usize,
) -> Result<(KeyId, P), OpenJsonError> {
    let opened = open(bundle, trusted, max_bytes).map_err(|error| match error {
        OpenError::Malformed(reason) => OpenJsonError::Malformed(reason),
        OpenError::ForeignKey(hint) => OpenJsonError::ForeignKey(hint),
        OpenError::Wrong(key) => OpenJsonError::Wrong(key),
    })?;
    let statement: Statement<P> =
        serde_json::from_slice(&opened.payload).map_err(|error| OpenJsonError::Malformed(error.to_string()))?;
    if !statement.is_known_version() || statement.predicate_type != predicate_type {
        return Err(OpenJsonError::Malformed("it has another predicate".to_owned()));
    }
    match statement.subject.as_slice() {
        [subject] if subject.name == name => Ok((opened.key, statement.predicate)),
        [subject] => Err(OpenJsonError::OtherName(subject.name.clone())),
        _ => Err(OpenJsonError::Malformed("it does not have exactly one subject".to_owned())),
    }
}
