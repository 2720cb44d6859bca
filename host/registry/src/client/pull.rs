//! Pulling: a tag becomes a digest, and the bytes of a digest go to the store as they arrive.

use std::collections::BTreeMap;

use fumehood_core::digest::Digest;
use fumehood_core::text::untrusted::PrintableText;
use fumehood_transport::Response;
use http::header::{CONTENT_RANGE, HeaderValue, RANGE};
use http::{Method, StatusCode};
use url::Url;

use super::{Place, RegistryClient, Right, excerpt};
use crate::artifact::{INDEX_MEDIA_TYPE, describe, find_component};
use crate::error::RegistryError;
use crate::http::{Access, Request, read_bounded, read_error};
use crate::reference::{OciReference, UrlReference};
use crate::store::{PendingBlob, Store};

/// A component of a registry whose manifest is known.
#[derive(Debug, Clone)]
pub struct ResolvedComponent {
    /// The reference, with the digest of the manifest.
    pub reference: OciReference,
    /// The digest of the manifest.
    pub manifest: Digest,
    /// The digest of the component's bytes, as the manifest states it.
    pub component: Digest,
    /// The size of the component in bytes, as the manifest states it.
    pub component_bytes: u64,
    /// The annotations, which the publisher wrote.
    pub annotations: BTreeMap<PrintableText, PrintableText>,
    pub(crate) manifest_bytes: Vec<u8>,
}

/// The state of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Number of bytes that arrived.
    pub received: u64,
    /// Number of bytes in all.
    pub total: u64,
}

/// Something to be downloaded.
struct Download<'a> {
    request: Request,
    /// The repository, unless it is a plain URL.
    place: Option<&'a Place>,
    host: String,
    digest: Digest,
    /// The exact size, if it is known.
    size: Option<u64>,
    max_bytes: u64,
}

impl RegistryClient {
    /// Reads the manifest of a reference, from a mirror if there is one.
    ///
    /// # Errors
    /// If no place answers, or the manifest is not that of a component.
    pub async fn resolve(&self, reference: &OciReference) -> Result<ResolvedComponent, RegistryError> {
        let mut last = None;
        for place in self.places(reference) {
            match self.resolve_at(&place, reference).await {
                Ok(resolved) => return Ok(resolved),
                Err(error) if error.is_of_the_place() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| RegistryError::Setup("no registry or mirror to pull from".to_owned())))
    }

    /// Reads the manifest of a reference from the registry itself, and no mirror.
    ///
    /// # Errors
    /// Like [`Self::resolve`].
    pub(crate) async fn resolve_own(&self, reference: &OciReference) -> Result<ResolvedComponent, RegistryError> {
        self.resolve_at(&Self::origin(reference), reference).await
    }

    /// Returns the digest of whatever a reference names at the registry itself.
    pub(crate) async fn own_digest(&self, reference: &OciReference) -> Result<Digest, RegistryError> {
        Ok(self.manifest(&Self::origin(reference), &reference.version(), reference.digest()).await?.digest)
    }

    async fn resolve_at(&self, place: &Place, reference: &OciReference) -> Result<ResolvedComponent, RegistryError> {
        let raw = self.manifest(place, &reference.version(), reference.digest()).await?;
        let not_a_component = |reason: String| RegistryError::NotAComponent { what: reference.to_string(), reason };
        let raw = if raw.media_type.as_deref() == Some(INDEX_MEDIA_TYPE) {
            let manifest = find_component(&raw.bytes).map_err(not_a_component)?;
            if reference.digest().is_some() {
                // What is pinned is the manifest of the component, which another index may have, too.
                return Err(not_a_component(format!("it is an index; name the component in it, `@{manifest}`")));
            }
            self.manifest(place, &manifest.to_string(), Some(&manifest)).await?
        } else {
            raw
        };
        let described = describe(&raw.bytes).map_err(not_a_component)?;
        Ok(ResolvedComponent {
            reference: reference.with_digest(raw.digest),
            manifest: raw.digest,
            component: described.component,
            component_bytes: described.component_bytes,
            annotations: described.annotations,
            manifest_bytes: raw.bytes,
        })
    }

    /// Downloads the component of a manifest to the store, unless it is there. The bytes are checked as they arrive; whatever
    /// goes wrong leaves nothing.
    ///
    /// # Errors
    /// If no place sends the bytes.
    pub async fn download(
        &self,
        resolved: &ResolvedComponent,
        store: &Store,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), RegistryError> {
        if store.blob(&resolved.component, resolved.component_bytes).is_ok_and(|blob| blob.is_some()) {
            return Ok(());
        }
        let mut last = None;
        for place in self.places(&resolved.reference) {
            let what = format!("the component {}", resolved.component);
            let request = self.request(&place, Method::GET, &format!("blobs/{}", resolved.component), what)?;
            let download = Download {
                request,
                host: place.host.clone(),
                place: Some(&place),
                digest: resolved.component,
                size: Some(resolved.component_bytes),
                max_bytes: resolved.component_bytes,
            };
            match self.download_to(&download, store, progress).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_of_the_place() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| RegistryError::Setup("no registry or mirror to pull from".to_owned())))
    }

    /// Downloads the component at a URL to the store, unless it is there. Returns its size in bytes.
    ///
    /// # Errors
    /// If the host does not send these bytes.
    pub async fn download_url(
        &self,
        reference: &UrlReference,
        store: &Store,
        max_bytes: u64,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<u64, RegistryError> {
        if let Some(blob) = store.blob(reference.digest(), max_bytes)? {
            return Ok(blob.len() as u64);
        }
        let url = reference.url().clone();
        let host = url.host_str().unwrap_or_default().to_owned();
        let what = format!("the component {}", reference.url());
        let request = Request::get(url, what);
        let digest = *reference.digest();
        let download = Download { request, place: None, host, digest, size: None, max_bytes };
        self.download_to(&download, store, progress).await
    }

    /// Reads a small file at a URL, such as an index, without credentials.
    ///
    /// # Errors
    /// If the URL is neither HTTPS nor of this machine, or its host does not send at most `max_bytes`.
    pub async fn read_url(&self, url: &str, max_bytes: u64) -> Result<Vec<u8>, RegistryError> {
        let refuse = |reason: String| RegistryError::Url { url: excerpt(url), reason };
        let parsed = Url::parse(url).map_err(|error| refuse(error.to_string()))?;
        if parsed.scheme() != "https" && !(parsed.scheme() == "http" && self.transport.allows_plain(&parsed)) {
            return Err(refuse("it is not encrypted".to_owned()));
        }
        let url = parsed;
        let host = url.host_str().unwrap_or_default().to_owned();
        let what = format!("the file {}", excerpt(url.path()));
        let request = Request::get(url, what.clone());
        let response = self.transport.send(&request, None, Access::Redirected).await?;
        if response.status() != StatusCode::OK {
            return Err(self.transport.refusal(&request, response).await);
        }
        read_bounded(response, &host, &what, max_bytes).await
    }

    async fn download_to(
        &self,
        download: &Download<'_>,
        store: &Store,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<u64, RegistryError> {
        let mut blob = store.begin()?;
        let mut failures = 0;
        loop {
            let before = blob.bytes();
            match self.receive(download, &mut blob, progress).await {
                Ok(()) => break,
                Err(error @ (RegistryError::Truncated { .. } | RegistryError::Unreachable { .. })) => {
                    // What arrived is kept: the next attempt asks for the rest.
                    failures = if blob.bytes() > before { 1.max(failures) } else { failures } + 1;
                    if failures > self.transport.limits().retries + 1 {
                        return Err(error);
                    }
                    self.transport.wait(failures, None).await;
                }
                Err(error) => return Err(error),
            }
        }
        let found = blob.digest();
        if found != download.digest {
            let host = download.host.clone();
            let what = download.request.what.clone();
            return Err(RegistryError::Digest { host, what, expected: download.digest, found });
        }
        let bytes = blob.bytes();
        let store = store.clone();
        let digest = download.digest;
        let committed = tokio::task::spawn_blocking(move || store.commit(blob, &digest)).await;
        committed.map_err(|error| RegistryError::Setup(error.to_string()))??;
        Ok(bytes)
    }

    /// Receives what is missing of a blob.
    async fn receive(
        &self,
        download: &Download<'_>,
        blob: &mut PendingBlob,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<(), RegistryError> {
        let host = download.host.as_str();
        let what = download.request.what.as_str();
        let mut request = download.request.clone();
        if blob.bytes() > 0 {
            let range = HeaderValue::from_str(&format!("bytes={}-", blob.bytes()));
            request.headers.insert(RANGE, range.map_err(|error| RegistryError::Setup(error.to_string()))?);
        }
        let mut response = match download.place {
            Some(place) => self.send(place, Right::Pull, &request, Access::Redirected).await?,
            None => self.transport.send(&request, None, Access::Redirected).await?,
        };
        match response.status() {
            StatusCode::PARTIAL_CONTENT if blob.bytes() > 0 && continues_at(&response, blob.bytes()) => {}
            // The range was not looked at: all bytes come again.
            StatusCode::OK => blob.restart()?,
            StatusCode::PARTIAL_CONTENT => {
                let reason = "it sent a different range than requested".to_owned();
                return Err(RegistryError::Malformed { host: host.to_owned(), what: what.to_owned(), reason });
            }
            _ => return Err(self.transport.refusal(&request, response).await),
        }
        let total = download.size.or_else(|| response.content_length().map(|rest| rest + blob.bytes()));
        let too_large =
            || RegistryError::TooLarge { host: host.to_owned(), what: what.to_owned(), maximum: download.max_bytes };
        if response.content_length().is_some_and(|rest| rest.saturating_add(blob.bytes()) > download.max_bytes) {
            return Err(too_large());
        }
        loop {
            let received = blob.bytes();
            let expected = total.unwrap_or(received);
            let chunk = response.chunk().await;
            match chunk.map_err(|error| read_error(error, host, what, received, expected))? {
                Some(chunk) if received + chunk.len() as u64 > download.max_bytes => return Err(too_large()),
                Some(chunk) => blob.write(&chunk)?,
                None if received < expected => {
                    let host = host.to_owned();
                    let what = what.to_owned();
                    return Err(RegistryError::Truncated { host, what, received, expected });
                }
                None => return Ok(()),
            }
            progress(Progress { received: blob.bytes(), total: expected });
        }
    }
}

/// Returns whether a partial answer begins at an offset (RFC 9110, section 14.4).
fn continues_at(response: &Response, offset: u64) -> bool {
    let range = response.headers().get(CONTENT_RANGE).and_then(|value| value.to_str().ok());
    range.and_then(|range| range.strip_prefix("bytes ")).is_some_and(|range| range.starts_with(&format!("{offset}-")))
}
