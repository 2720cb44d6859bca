//! Publishing: the component, its signature and its inventory, and the tag at last.

use std::collections::BTreeMap;

use bytes::Bytes;
use fumehood_core::digest::Digest;

use crate::artifact::{Artifact, ArtifactError};
use crate::client::RegistryClient;
use crate::error::RegistryError;
use crate::metadata::{self, SBOM_MEDIA_TYPE};
use crate::reference::OciReference;
use crate::signature::{BUNDLE_MEDIA_TYPE, Claim, Provenance, SignatureError, SigningKey, sign};

/// Annotation that says what a bundle contains (Sigstore's specification of bundles in registries).
const CONTENT_ANNOTATION: &str = "dev.sigstore.bundle.content";
/// Annotation with the type of a statement's predicate.
const PREDICATE_ANNOTATION: &str = "dev.sigstore.bundle.predicateType";

/// Everything that a publication consists of. Making one sends nothing, so that it can be shown first.
#[derive(Debug, Clone)]
pub struct Publication {
    reference: OciReference,
    artifact: Artifact,
    bundle: Option<Bytes>,
    sbom: Option<Bytes>,
}

/// The digests of a publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// The reference, with the digest of the manifest.
    pub reference: OciReference,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component's bytes.
    pub component: Digest,
    /// The digest of the signature's manifest, if there is one.
    pub signature: Option<Digest>,
    /// The digest of the inventory's manifest, if there is one.
    pub sbom: Option<Digest>,
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
        "{reference} names another component: this one has the manifest {found}; leave the digest out, or give a tag"
    )]
    OtherDigest {
        /// The reference.
        reference: Box<OciReference>,
        /// The digest of this component's manifest.
        found: Digest,
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
        Ok(Self { reference, artifact, bundle: None, sbom })
    }

    /// Signs the component.
    ///
    /// # Errors
    /// If the system gives no randomness.
    pub fn sign(mut self, key: &SigningKey, provenance: Provenance) -> Result<Self, PublishError> {
        let (manifest, component) = (self.artifact.digest(), self.artifact.component_digest());
        let claim = Claim::new(&self.reference, manifest, component, provenance);
        self.bundle = Some(Bytes::from(sign(key, &claim)?));
        Ok(self)
    }

    /// Returns the artifact.
    #[must_use]
    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// Returns the bundle with the signature.
    #[must_use]
    pub fn bundle(&self) -> Option<&Bytes> {
        self.bundle.as_ref()
    }

    /// Returns the inventory.
    #[must_use]
    pub fn sbom(&self) -> Option<&Bytes> {
        self.sbom.as_ref()
    }

    /// Publishes everything. The tag comes last: until then, nobody who asks for it sees a part of the publication.
    ///
    /// # Errors
    /// If the registry does not take it.
    pub async fn publish(&self, client: &RegistryClient) -> Result<Published, PublishError> {
        let pushed = client.push(&self.reference, &self.artifact).await?;
        let subject = self.artifact.manifest();
        let mut published = Published {
            reference: pushed.reference,
            manifest: pushed.manifest,
            component: pushed.component,
            signature: None,
            sbom: None,
        };
        if let Some(sbom) = &self.sbom {
            let attached = client.attach(&self.reference, subject, SBOM_MEDIA_TYPE, sbom.clone(), BTreeMap::new());
            published.sbom = Some(attached.await?);
        }
        if let Some(bundle) = &self.bundle {
            let annotations = BTreeMap::from([
                (CONTENT_ANNOTATION.to_owned(), "dsse-envelope".to_owned()),
                (PREDICATE_ANNOTATION.to_owned(), crate::signature::PROVENANCE_TYPE.to_owned()),
            ]);
            let attached = client.attach(&self.reference, subject, BUNDLE_MEDIA_TYPE, bundle.clone(), annotations);
            published.signature = Some(attached.await?);
        }
        client.tag(&self.reference, &self.artifact).await?;
        Ok(published)
    }
}
