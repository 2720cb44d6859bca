//! The record of a stored component: what it is, where it came from, and who signed it.

use fumehood_core::digest::Digest;
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::reference::OciReference;
use crate::signature::{KeyId, Provenance};

/// A component in the store. It says where to look and what was found at the time; whoever uses the component verifies
/// digests and signatures again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRecord {
    /// The reference that the component was pulled under, with the digest of its manifest.
    pub reference: OciReference,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component's bytes.
    pub component: Digest,
    /// The size of the component, in bytes.
    pub component_bytes: u64,
    /// The digests of the signatures that were found.
    #[serde(default)]
    pub signatures: Vec<Digest>,
    /// The signer, if a signature was verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified: Option<SignatureRecord>,
    /// The time of the pull.
    pub pulled_at: Timestamp,
}

/// A verified signature, as it is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignatureRecord {
    /// The key.
    pub key: KeyId,
    /// The provenance that the signer states.
    pub provenance: Provenance,
}

impl StoreRecord {
    /// Returns the digests of all blobs that belong to the component.
    pub fn blobs(&self) -> impl Iterator<Item = Digest> + '_ {
        [self.manifest, self.component].into_iter().chain(self.signatures.iter().copied())
    }

    /// Returns the name of the record's file: one component may have been pulled under several names, and a signature is
    /// about one of them.
    pub(super) fn file_name(name: &str, manifest: &Digest) -> String {
        format!("{}-{}.json", manifest.hex(), Digest::of(name.as_bytes()).hex().get(..16).unwrap_or_default())
    }
}
