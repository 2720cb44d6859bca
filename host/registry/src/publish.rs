//! Publishing: the component, its signature and its inventory, and the tag at last.

use std::collections::BTreeMap;

use bytes::Bytes;
use fumehood_core::digest::Digest;

use crate::artifact::{Artifact, ArtifactError};
#[cfg(doc)]
use crate::client::MAX_REFERRERS;
use crate::client::RegistryClient;
use crate::error::RegistryError;
use crate::http::UploadObserver;
use crate::metadata::{self, SBOM_MEDIA_TYPE};
use crate::reference::OciReference;
use crate::signature::{
    BUNDLE_MEDIA_TYPE, Claim, MAX_BUNDLE_BYTES, Provenance, PublicKey, SignatureError, SigningKey, sign, verify,
};
use crate::version::version_of_tag;

/// Annotation that says what a bundle contains (Sigstore's specification of bundles in registries).
const CONTENT_ANNOTATION: &str = "dev.sigstore.bundle.content";
/// Annotation with the type of a statement's predicate.
const PREDICATE_ANNOTATION: &str = "dev.sigstore.bundle.predicateType";

/// Everything that a publication consists of. Making one sends nothing, so that it can be shown first.
#[derive(Debug, Clone)]
pub struct Publication {
    reference: OciReference,
    artifact: Artifact,
    signature: Option<Signature>,
    sbom: Option<Bytes>,
    /// Whether a version that is another component may be replaced.
    may_replace: bool,
}

/// The signature of a publication.
#[derive(Debug, Clone)]
struct Signature {
    claim: Claim,
    key: PublicKey,
    bundle: Bytes,
}

/// The digests of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishReport {
    /// The reference, with the digest of the manifest.
    pub reference: OciReference,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component's bytes.
    pub component: Digest,
    /// The digest of the signature's manifest, if one was added.
    pub signature: Option<Digest>,
    /// True if the registry has this signature of this key already, from an earlier publication of the same bytes. Another
    /// one would say nothing more, and of many signatures only the first [`MAX_REFERRERS`] are looked at.
    pub was_signed: bool,
    /// The digest of the inventory's manifest, if there is one.
    pub sbom: Option<Digest>,
    /// The digest of the manifest that the tag named before, if it was another component.
    pub replaced: Option<Digest>,
}

/// An error of publishing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// The component cannot be published.
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    /// The component cannot be signed.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The registry does not take it.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The reference has a digest that the component does not have.
    #[error(
        "{reference} names another component: this component has the manifest {found}; use a tag instead of the digest"
    )]
    OtherDigest {
        /// The reference.
        reference: Box<OciReference>,
        /// The digest of this component's manifest.
        found: Digest,
    },
    /// The tag is a version that was published with other bytes.
    #[error(
        "{reference} was published before as another component, {published}; publish this one as a new version, or \
         replace it for everybody with `--replace`"
    )]
    OtherComponent {
        /// The reference.
        reference: Box<OciReference>,
        /// The digest of the manifest that the tag names.
        published: Digest,
    },
}

impl Publication {
    /// Prepares a component for publication, with the annotations of its own metadata and those in `annotations`, and with
    /// its inventory if it has one.
    ///
    /// # Errors
    /// If the bytes are not a component, or the reference has another digest.
    pub fn new(
        reference: OciReference,
        component: impl Into<Bytes>,
        annotations: BTreeMap<String, String>,
    ) -> Result<Self, PublishError> {
        let component = component.into();
        let mut all = metadata::annotations(&component)?;
        all.extend(annotations);
        let sbom = metadata::inventory(&component)?.map(Bytes::from);
        let artifact = Artifact::new(component, all)?;
        let found = artifact.digest();
        if reference.digest().is_some_and(|digest| *digest != found) {
            return Err(PublishError::OtherDigest { reference: Box::new(reference), found });
        }
        Ok(Self { reference, artifact, signature: None, sbom, may_replace: false })
    }

    /// Signs the component.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn sign(mut self, key: &SigningKey, provenance: Provenance) -> Result<Self, PublishError> {
        let manifest = self.artifact.digest();
        let component = self.artifact.component_digest();
        let claim = Claim::new(&self.reference, manifest, component, provenance);
        let bundle = Bytes::from(sign(key, &claim)?);
        self.signature = Some(Signature { claim, key: key.public().clone(), bundle });
        Ok(self)
    }

    /// Lets this component take the place of another one that has the same version. Without it, only tags that are no versions move,
    /// such as `latest`. See [`version_of_tag`].
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.may_replace = true;
        self
    }

    /// Returns the artifact.
    #[must_use]
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// Returns the bundle with the signature.
    #[must_use]
    pub fn bundle(&self) -> Option<&Bytes> {
        self.signature.as_ref().map(|signature| &signature.bundle)
    }

    /// Returns the statement that the signature is about, as JSON.
    #[must_use]
    pub fn statement(&self) -> Option<Vec<u8>> {
        self.signature.as_ref().and_then(|signature| signature.claim.to_json().ok())
    }

    /// Returns the inventory.
    #[must_use]
    pub fn sbom(&self) -> Option<&Bytes> {
        self.sbom.as_ref()
    }

    /// Publishes everything. The tag comes last: until then, nobody who asks for it sees a part of the publication.
    ///
    /// # Errors
    /// If the registry does not take it, or has another component of this version.
    pub async fn publish(&self, client: &RegistryClient) -> Result<PublishReport, PublishError> {
        self.send(client, None).await
    }

    /// Like [`Self::publish`], with an observer that is told how much of the component was sent.
    ///
    /// # Errors
    /// If the registry does not take it.
    pub async fn publish_with(
        &self,
        client: &RegistryClient,
        observer: &UploadObserver,
    ) -> Result<PublishReport, PublishError> {
        self.send(client, Some(observer)).await
    }

    async fn send(
        &self,
        client: &RegistryClient,
        observer: Option<&UploadObserver>,
    ) -> Result<PublishReport, PublishError> {
        let replaced = self.tagged_before(client).await;
        let is_version = self.reference.tag().and_then(version_of_tag).is_some();
        if let Some(published) = replaced.filter(|_| is_version && !self.may_replace) {
            return Err(PublishError::OtherComponent { reference: Box::new(self.reference.clone()), published });
        }
        let pushed = client.push(&self.reference, &self.artifact, observer).await?;
        let subject = self.artifact.manifest();
        let mut published = PublishReport {
            reference: pushed.reference,
            manifest: pushed.manifest,
            component: pushed.component,
            signature: None,
            was_signed: false,
            sbom: None,
            replaced,
        };
        if let Some(sbom) = &self.sbom {
            let attached = client.attach(&self.reference, subject, SBOM_MEDIA_TYPE, sbom.clone(), BTreeMap::new());
            published.sbom = Some(attached.await?);
        }
        if let Some(signature) = &self.signature {
            published.was_signed = self.is_signed(client, signature).await;
            if !published.was_signed {
                let annotations = BTreeMap::from([
                    (CONTENT_ANNOTATION.to_owned(), "dsse-envelope".to_owned()),
                    (PREDICATE_ANNOTATION.to_owned(), crate::signature::PROVENANCE_TYPE.to_owned()),
                ]);
                let bundle = signature.bundle.clone();
                let attached = client.attach(&self.reference, subject, BUNDLE_MEDIA_TYPE, bundle, annotations);
                published.signature = Some(attached.await?);
            }
        }
        client.tag(&self.reference, &self.artifact).await?;
        Ok(published)
    }

    /// Returns the digest of the other manifest that the tag names now.
    async fn tagged_before(&self, client: &RegistryClient) -> Option<Digest> {
        if self.reference.digest().is_some() {
            return None;
        }
        // Most tags are new. What else goes wrong here does not matter to the publication.
        let before = client.own_digest(&self.reference).await.ok()?;
        (before != self.artifact.digest()).then_some(before)
    }

    /// Returns whether the registry has a signature of this key that claims the same, but for the time.
    async fn is_signed(&self, client: &RegistryClient, signature: &Signature) -> bool {
        let Signature { claim, key, .. } = signature;
        let max_bytes = MAX_BUNDLE_BYTES as u64;
        let bundles =
            client.own_referrer_contents(&self.reference, &claim.manifest, BUNDLE_MEDIA_TYPE, max_bytes).await;
        bundles.iter().any(|bundle| {
            let bundle = std::slice::from_ref(bundle);
            let trusted = std::slice::from_ref(key);
            let verified = verify(&claim.name, &claim.manifest, &claim.component, bundle, trusted);
            verified.is_ok_and(|mut verified| {
                verified.claim.provenance.signed_at.clone_from(&claim.provenance.signed_at);
                verified.claim == *claim
            })
        })
    }
}
