//! Referrers: signatures and inventories beside a component, through the API for them or the tag that stands in for it.

use std::collections::BTreeMap;

use bytes::Bytes;
use fumehood_core::digest::Digest;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Method, StatusCode};
use oci_client::manifest::{ImageIndexEntry, OciImageIndex, OciImageManifest};

use super::{Place, RegistryClient, Right, excerpt};
use crate::artifact::{
    EMPTY_CONFIG, INDEX_MEDIA_TYPE, MANIFEST_MEDIA_TYPE, MAX_MANIFEST_BYTES, descriptor, referrer_manifest,
};
use crate::error::RegistryError;
use crate::http::{Access, read_bounded};
use crate::reference::OciReference;

/// Maximum number of referrers of one type that are looked at.
pub const MAX_REFERRERS: usize = 16;
/// Number of attempts to add an entry to the index under the fallback tag while others do so, too.
const FALLBACK_ATTEMPTS: usize = 5;

/// Something that refers to a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referrer {
    /// The digest of its own manifest.
    pub manifest: Digest,
    /// Its type.
    pub artifact_type: String,
}

impl RegistryClient {
    /// Lists the referrers of a manifest that have a type, at most [`MAX_REFERRERS`].
    ///
    /// # Errors
    /// If no place answers.
    pub async fn referrers(
        &self,
        reference: &OciReference,
        subject: &Digest,
        artifact_type: &str,
    ) -> Result<Vec<Referrer>, RegistryError> {
        let found = self.referrers_somewhere(reference, subject, artifact_type).await?;
        Ok(found.map_or_else(Vec::new, |(_, found)| found))
    }

    /// Reads the contents of the referrers of a manifest that have a type, such as its signatures. Those that are larger than
    /// `max_bytes` or cannot be read are left out: whoever may push can add any number of them.
    ///
    /// # Errors
    /// If no place answers.
    pub async fn referrer_contents(
        &self,
        reference: &OciReference,
        subject: &Digest,
        artifact_type: &str,
        max_bytes: u64,
    ) -> Result<Vec<Vec<u8>>, RegistryError> {
        let Some((place, found)) = self.referrers_somewhere(reference, subject, artifact_type).await? else {
            return Ok(Vec::new());
        };
        let mut contents = Vec::new();
        let mut last = None;
        for referrer in found {
            match self.referrer_content(&place, subject, &referrer, max_bytes).await {
                Ok(content) => contents.push(content),
                Err(error) => last = Some(error),
            }
        }
        match last {
            // If there is none that can be read, the reason matters.
            Some(error) if contents.is_empty() => Err(error),
            _ => Ok(contents),
        }
    }

    /// Like [`Self::referrer_contents`], from the registry itself and no mirror, with what can be read.
    pub(crate) async fn own_referrer_contents(
        &self,
        reference: &OciReference,
        subject: &Digest,
        artifact_type: &str,
        max_bytes: u64,
    ) -> Vec<Vec<u8>> {
        let place = Self::origin(reference);
        let mut contents = Vec::new();
        for referrer in self.referrers_at(&place, subject, artifact_type).await.unwrap_or_default() {
            contents.extend(self.referrer_content(&place, subject, &referrer, max_bytes).await.ok());
        }
        contents
    }

    /// Pushes something that refers to a manifest. Returns the digest of its own manifest.
    ///
    /// # Errors
    /// If the registry does not take it.
    pub async fn attach(
        &self,
        reference: &OciReference,
        subject: &Bytes,
        artifact_type: &str,
        content: Bytes,
        annotations: BTreeMap<String, String>,
    ) -> Result<Digest, RegistryError> {
        let place = Self::origin(reference);
        self.push_blob(&place, &content, None).await?;
        self.push_blob(&place, &Bytes::from_static(EMPTY_CONFIG), None).await?;
        let subject_digest = Digest::of(subject);
        let subject = descriptor(MANIFEST_MEDIA_TYPE, &subject_digest, subject.len());
        let manifest = referrer_manifest(&subject, artifact_type, &content, annotations.clone());
        let manifest = Bytes::from(manifest.map_err(RegistryError::Setup)?);
        let digest = Digest::of(&manifest);
        let size = manifest.len();
        let has_api = self.push_manifest(&place, &digest.to_string(), MANIFEST_MEDIA_TYPE, manifest).await?;
        if !has_api {
            let entry = ImageIndexEntry {
                media_type: MANIFEST_MEDIA_TYPE.to_owned(),
                digest: digest.to_string(),
                size: i64::try_from(size).unwrap_or(i64::MAX),
                platform: None,
                annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
                artifact_type: Some(artifact_type.to_owned()),
            };
            self.add_to_fallback(&place, &subject_digest, &entry).await?;
        }
        Ok(digest)
    }

    /// Adds an entry to the index that stands in for the API. Two publishers may do so at once, and the index has no lock: it
    /// is read again until the entry is in it.
    async fn add_to_fallback(
        &self,
        place: &Place,
        subject: &Digest,
        entry: &ImageIndexEntry,
    ) -> Result<(), RegistryError> {
        let tag = fallback_tag(subject);
        for _ in 0..FALLBACK_ATTEMPTS {
            let mut index = self.fallback_index(place, subject).await?.unwrap_or_else(empty_index);
            if index.manifests.iter().any(|other| other.digest == entry.digest) {
                return Ok(());
            }
            index.manifests.push(entry.clone());
            let bytes = serde_json::to_vec(&index).map_err(|error| RegistryError::Setup(error.to_string()))?;
            self.push_manifest(place, &tag, INDEX_MEDIA_TYPE, bytes.into()).await?;
        }
        let index = self.fallback_index(place, subject).await?.unwrap_or_else(empty_index);
        if index.manifests.iter().any(|other| other.digest == entry.digest) {
            return Ok(());
        }
        let reason = format!("others change the tag {tag} at the same time; publish again");
        Err(RegistryError::Malformed { host: place.host.clone(), what: "the list of referrers".to_owned(), reason })
    }

    /// Returns the first place that has referrers of a type, and these; `None` if none has any.
    async fn referrers_somewhere(
        &self,
        reference: &OciReference,
        subject: &Digest,
        artifact_type: &str,
    ) -> Result<Option<(Place, Vec<Referrer>)>, RegistryError> {
        let mut last = None;
        for place in self.places(reference) {
            match self.referrers_at(&place, subject, artifact_type).await {
                // A mirror may lack them.
                Ok(found) if found.is_empty() => last = None,
                Ok(found) => return Ok(Some((place, found))),
                Err(error) if error.is_of_the_place() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        last.map_or(Ok(None), Err)
    }

    async fn referrers_at(
        &self,
        place: &Place,
        subject: &Digest,
        artifact_type: &str,
    ) -> Result<Vec<Referrer>, RegistryError> {
        let index = match self.referrers_api(place, subject, artifact_type).await? {
            Some(index) => Some(index),
            None => self.fallback_index(place, subject).await?,
        };
        let entries = index.map(|index| index.manifests).unwrap_or_default().into_iter();
        let matching = entries.filter(|entry| entry.artifact_type.as_deref() == Some(artifact_type));
        let found = matching.filter_map(|entry| {
            Some(Referrer { manifest: entry.digest.parse().ok()?, artifact_type: entry.artifact_type? })
        });
        Ok(found.take(MAX_REFERRERS).collect())
    }

    /// Asks the API for referrers. Returns `None` if the registry has none.
    async fn referrers_api(
        &self,
        place: &Place,
        subject: &Digest,
        artifact_type: &str,
    ) -> Result<Option<OciImageIndex>, RegistryError> {
        let what = format!("the referrers of {subject}");
        let mut request = self.request(place, Method::GET, &format!("referrers/{subject}"), what.clone())?;
        request.url.query_pairs_mut().append_pair("artifactType", artifact_type);
        request.headers.insert(ACCEPT, HeaderValue::from_static(INDEX_MEDIA_TYPE));
        let response = self.send(place, Right::Pull, &request, Access::Direct).await?;
        if matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
            return Ok(None);
        }
        if response.status() != StatusCode::OK {
            return Err(self.transport.refusal(&request, response).await);
        }
        // Some registries answer unknown paths with a page.
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !media_type.starts_with(INDEX_MEDIA_TYPE) {
            return Ok(None);
        }
        let bytes = read_bounded(response, &place.host, &what, MAX_MANIFEST_BYTES).await?;
        parse_index(place, &what, &bytes).map(Some)
    }

    async fn fallback_index(&self, place: &Place, subject: &Digest) -> Result<Option<OciImageIndex>, RegistryError> {
        match self.manifest(place, &fallback_tag(subject), None).await {
            Ok(raw) => parse_index(place, &format!("the referrers of {subject}"), &raw.bytes).map(Some),
            Err(RegistryError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn referrer_content(
        &self,
        place: &Place,
        subject: &Digest,
        referrer: &Referrer,
        max_bytes: u64,
    ) -> Result<Vec<u8>, RegistryError> {
        let raw = self.manifest(place, &referrer.manifest.to_string(), Some(&referrer.manifest)).await?;
        let what = format!("the referrer {}", referrer.manifest);
        let malformed = |reason| RegistryError::Malformed { host: place.host.clone(), what: what.clone(), reason };
        let manifest: OciImageManifest =
            serde_json::from_slice(&raw.bytes).map_err(|error| malformed(excerpt(&error.to_string())))?;
        let refers = manifest.subject.as_ref().is_some_and(|named| named.digest == subject.to_string());
        let [layer] = manifest.layers.as_slice() else {
            return Err(malformed("it does not have exactly one layer".to_owned()));
        };
        if !refers {
            return Err(malformed("it refers to another manifest".to_owned()));
        }
        let digest = layer.digest.parse().map_err(|_| malformed("its layer has no digest".to_owned()))?;
        self.small_blob(place, &digest, max_bytes).await
    }
}

/// Returns the tag of the index that stands in for the API (OCI distribution specification 1.1, "Referrers tag schema").
fn fallback_tag(subject: &Digest) -> String {
    format!("sha256-{}", subject.hex())
}

fn empty_index() -> OciImageIndex {
    OciImageIndex {
        schema_version: 2,
        media_type: Some(INDEX_MEDIA_TYPE.to_owned()),
        manifests: Vec::new(),
        artifact_type: None,
        annotations: None,
    }
}

fn parse_index(place: &Place, what: &str, bytes: &[u8]) -> Result<OciImageIndex, RegistryError> {
    serde_json::from_slice(bytes).map_err(|error| RegistryError::Malformed {
        host: place.host.clone(),
        what: what.to_owned(),
        reason: excerpt(&error.to_string()),
    })
}
