//! Pushing blobs and manifests.

use bytes::Bytes;
use fumehood_core::digest::Digest;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode};
use url::Url;

use super::{CONTENT_DIGEST, Place, RegistryClient, Right, with_body};
use crate::artifact::{Artifact, MANIFEST_MEDIA_TYPE};
use crate::error::RegistryError;
use crate::http::{Access, Request, UploadObserver};
use crate::reference::OciReference;

/// The header by which a registry says that it has an API for referrers.
const OCI_SUBJECT: HeaderName = HeaderName::from_static("oci-subject");
const BLOB_MEDIA_TYPE: &str = "application/octet-stream";

/// A published artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushReport {
    /// The reference, with the digest of the manifest.
    pub reference: OciReference,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component's bytes.
    pub component: Digest,
}

impl RegistryClient {
    /// Pushes a component under its digest. [`Self::tag`] gives it its name. The observer is told how much of the component
    /// was sent.
    ///
    /// # Errors
    /// If the registry does not take it.
    pub async fn push(
        &self,
        reference: &OciReference,
        artifact: &Artifact,
        observer: Option<&UploadObserver>,
    ) -> Result<PushReport, RegistryError> {
        let place = Self::origin(reference);
        self.push_blob(&place, artifact.component(), observer).await?;
        self.push_blob(&place, artifact.config(), None).await?;
        let digest = artifact.digest();
        self.push_manifest(&place, &digest.to_string(), MANIFEST_MEDIA_TYPE, artifact.manifest().clone()).await?;
        Ok(PushReport {
            reference: reference.with_digest(digest),
            manifest: digest,
            component: artifact.component_digest(),
        })
    }

    /// Lets the tag of a reference stand for an artifact that was pushed. It comes last, so that a tag never stands for
    /// something that is not complete.
    ///
    /// # Errors
    /// If the registry does not take it.
    pub async fn tag(&self, reference: &OciReference, artifact: &Artifact) -> Result<(), RegistryError> {
        let Some(tag) = reference.tag() else { return Ok(()) };
        let place = Self::origin(reference);
        self.push_manifest(&place, tag, MANIFEST_MEDIA_TYPE, artifact.manifest().clone()).await?;
        Ok(())
    }

    /// Pushes a blob unless it is there.
    pub(super) async fn push_blob(
        &self,
        place: &Place,
        bytes: &Bytes,
        observer: Option<&UploadObserver>,
    ) -> Result<Digest, RegistryError> {
        let digest = Digest::of(bytes);
        let what = format!("the blob {digest}");
        let head = self.request(place, Method::HEAD, &format!("blobs/{digest}"), what.clone())?;
        if self.send(place, Right::Push, &head, Access::Redirected).await?.status() == StatusCode::OK {
            return Ok(digest);
        }
        let mut begin = self.request(place, Method::POST, "blobs/uploads/", format!("the upload of {what}"))?;
        begin.headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        let response = self.send(place, Right::Push, &begin, Access::Direct).await?;
        if response.status() != StatusCode::ACCEPTED {
            return Err(self.transport.refusal(&begin, response).await);
        }
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let url = location.and_then(|location| begin.url.join(location).ok());
        let mut url = url.ok_or_else(|| malformed(place, &begin, "it names no upload URL"))?;
        self.check_upload(place, &begin, &mut url)?;
        url.query_pairs_mut().append_pair("digest", &digest.to_string());
        let put = Request { method: Method::PUT, url, ..begin.clone() };
        let mut put = with_body(put, BLOB_MEDIA_TYPE, bytes.clone());
        put.headers.remove(CONTENT_LENGTH);
        put.observer = observer.cloned();
        let response = self.send(place, Right::Push, &put, Access::Direct).await?;
        match response.status() {
            StatusCode::CREATED | StatusCode::NO_CONTENT => Ok(digest),
            _ => Err(self.transport.refusal(&put, response).await),
        }
    }

    /// Checks that an upload goes to the registry itself, as it was named: nothing else may see the credentials.
    fn check_upload(&self, place: &Place, begin: &Request, url: &mut Url) -> Result<(), RegistryError> {
        // Behind a proxy that ends TLS, some registries name themselves with the wrong scheme.
        if url.host_str() == begin.url.host_str() && url.port() == begin.url.port() && url.scheme() == "http" {
            let _ = url.set_scheme(begin.url.scheme());
        }
        if url.origin() == begin.url.origin() {
            return Ok(());
        }
        Err(RegistryError::Redirect {
            host: place.host.clone(),
            what: begin.what.clone(),
            target: format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default()),
            reason: "uploads must go to the registry itself",
        })
    }

    /// Pushes a manifest under a tag or its digest. Returns whether the registry has an API for referrers.
    pub(super) async fn push_manifest(
        &self,
        place: &Place,
        version: &str,
        media_type: &'static str,
        bytes: Bytes,
    ) -> Result<bool, RegistryError> {
        let digest = Digest::of(&bytes);
        let what = format!("the push of the manifest {}/{}:{version}", place.host, place.repository);
        let put = self.request(place, Method::PUT, &format!("manifests/{version}"), what)?;
        let put = with_body(put, media_type, bytes);
        let response = self.send(place, Right::Push, &put, Access::Direct).await?;
        if response.status() != StatusCode::CREATED {
            return Err(self.transport.refusal(&put, response).await);
        }
        let stated = response.headers().get(CONTENT_DIGEST).and_then(|value| value.to_str().ok());
        let other = stated.and_then(|stated| stated.parse().ok()).filter(|stated: &Digest| *stated != digest);
        if let Some(found) = other {
            return Err(RegistryError::Digest { host: place.host.clone(), what: put.what, expected: digest, found });
        }
        Ok(response.headers().contains_key(OCI_SUBJECT))
    }
}

fn malformed(place: &Place, request: &Request, reason: &str) -> RegistryError {
    RegistryError::Malformed { host: place.host.clone(), what: request.what.clone(), reason: reason.to_owned() }
}
