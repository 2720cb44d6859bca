//! The client of OCI registries (OCI distribution specification 1.1).
//!
//! Manifests have the types of `oci-client`. Requests are made here, because a registry is not trusted: that crate reads
//! manifests and errors of any size into memory, follows redirects to any host, takes proxies from the environment, and
//! cannot be told what to do about a slow answer.

mod auth;
mod pull;
mod push;
mod referrers;
mod tags;

use std::collections::BTreeMap;
use std::sync::Mutex;

use bytes::Bytes;
use fumehood_core::digest::Digest;
use fumehood_transport::Response;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, StatusCode};

pub use pull::{Progress, ResolvedComponent};
pub use push::PushReport;
pub use referrers::{MAX_REFERRERS, Referrer};

use crate::artifact::{INDEX_MEDIA_TYPE, MANIFEST_MEDIA_TYPE, MAX_MANIFEST_BYTES};
use crate::credentials::CredentialSource;
use crate::error::RegistryError;
use crate::http::{Access, HttpConfig, Request, Transport, read_bounded};
use crate::reference::OciReference;
use auth::Tokens;

/// The header with the digest of a manifest or blob.
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// A client of OCI registries.
#[derive(Debug)]
pub struct RegistryClient {
    transport: Transport,
    credentials: CredentialSource,
    mirrors: BTreeMap<String, Vec<String>>,
    tokens: Mutex<Tokens>,
}

/// Settings of a [`RegistryClient`].
#[derive(Debug, Default)]
pub struct RegistryClientBuilder {
    http: HttpConfig,
    credentials: CredentialSource,
    mirrors: BTreeMap<String, Vec<String>>,
}

/// A repository at the host that is asked: the registry itself, or a mirror of it.
#[derive(Debug, Clone)]
struct Place {
    host: String,
    repository: String,
}

/// The right that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Right {
    Pull,
    Push,
}

/// A manifest as it was received.
#[derive(Debug)]
struct RawManifest {
    bytes: Vec<u8>,
    digest: Digest,
    media_type: Option<String>,
}

impl RegistryClientBuilder {
    /// Sets the HTTP client's settings.
    #[must_use]
    pub fn http(mut self, http: HttpConfig) -> Self {
        self.http = http;
        self
    }

    /// Sets the places where credentials are looked for. By default there are none.
    #[must_use]
    pub fn credentials(mut self, credentials: CredentialSource) -> Self {
        self.credentials = credentials;
        self
    }

    /// Adds a mirror (`HOST[:PORT]`) that is asked before a registry when something is pulled. Names and signatures stay
    /// those of the registry.
    #[must_use]
    pub fn mirror(mut self, registry: impl Into<String>, mirror: impl Into<String>) -> Self {
        self.mirrors.entry(registry.into().to_ascii_lowercase()).or_default().push(mirror.into());
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    /// If a setting is malformed.
    pub fn build(self) -> Result<RegistryClient, RegistryError> {
        let Self { http, credentials, mirrors } = self;
        Ok(RegistryClient { transport: Transport::new(http)?, credentials, mirrors, tokens: Mutex::default() })
    }
}

impl RegistryClient {
    /// Returns the settings of a new client.
    #[must_use]
    pub fn builder() -> RegistryClientBuilder {
        RegistryClientBuilder::default()
    }

    /// Returns the places to pull a reference from, mirrors first.
    fn places(&self, reference: &OciReference) -> Vec<Place> {
        let mirrors = self.mirrors.get(reference.host()).into_iter().flatten().cloned();
        let hosts = mirrors.chain([reference.host().to_owned()]);
        hosts.map(|host| Place { host, repository: reference.repository().to_owned() }).collect()
    }

    /// Returns whether other places are asked before the registry of a reference.
    pub(crate) fn has_mirrors(&self, reference: &OciReference) -> bool {
        self.mirrors.get(reference.host()).is_some_and(|mirrors| !mirrors.is_empty())
    }

    fn origin(reference: &OciReference) -> Place {
        Place { host: reference.host().to_owned(), repository: reference.repository().to_owned() }
    }

    /// Creates a request for a path below the repository.
    fn request(&self, place: &Place, method: Method, path: &str, what: String) -> Result<Request, RegistryError> {
        let base = self.transport.base(&place.host)?;
        let url = base.join(&format!("v2/{}/{path}", place.repository));
        let url = url.map_err(|error| RegistryError::Setup(error.to_string()))?;
        Ok(Request { method, ..Request::get(url, what) })
    }

    /// Reads a manifest. If `expected` is given, it must have this digest.
    async fn manifest(
        &self,
        place: &Place,
        version: &str,
        expected: Option<&Digest>,
    ) -> Result<RawManifest, RegistryError> {
        let what = format!("the manifest {}/{}:{version}", place.host, place.repository);
        let mut request = self.request(place, Method::GET, &format!("manifests/{version}"), what.clone())?;
        for media_type in [MANIFEST_MEDIA_TYPE, INDEX_MEDIA_TYPE] {
            request.headers.append(ACCEPT, HeaderValue::from_static(media_type));
        }
        let response = self.send(place, Right::Pull, &request, Access::Direct).await?;
        if response.status() != StatusCode::OK {
            return Err(self.transport.refusal(&request, response).await);
        }
        let media_type = header_value(&response, CONTENT_TYPE);
        let stated = header_value(&response, CONTENT_DIGEST).and_then(|text| text.parse().ok());
        let bytes = read_bounded(response, &place.host, &what, MAX_MANIFEST_BYTES).await?;
        let digest = Digest::of(&bytes);
        if let Some(wanted) = expected.copied().or(stated).filter(|wanted| *wanted != digest) {
            return Err(RegistryError::Digest { host: place.host.clone(), what, expected: wanted, found: digest });
        }
        let known = [MANIFEST_MEDIA_TYPE, INDEX_MEDIA_TYPE];
        if let Some(other) = media_type.as_deref().filter(|media_type| !known.contains(media_type)) {
            let reason = format!("it is `{}`, not an OCI manifest", excerpt(other));
            return Err(RegistryError::Malformed { host: place.host.clone(), what, reason });
        }
        Ok(RawManifest { bytes, digest, media_type })
    }

    /// Reads a small blob into memory and checks its digest.
    async fn small_blob(&self, place: &Place, digest: &Digest, max_bytes: u64) -> Result<Vec<u8>, RegistryError> {
        let what = format!("the blob {digest}");
        let request = self.request(place, Method::GET, &format!("blobs/{digest}"), what.clone())?;
        let response = self.send(place, Right::Pull, &request, Access::Redirected).await?;
        if response.status() != StatusCode::OK {
            return Err(self.transport.refusal(&request, response).await);
        }
        let bytes = read_bounded(response, &place.host, &what, max_bytes).await?;
        let found = Digest::of(&bytes);
        if found == *digest {
            Ok(bytes)
        } else {
            Err(RegistryError::Digest { host: place.host.clone(), what, expected: *digest, found })
        }
    }

    /// Sends a request with the credentials that the registry asks for.
    async fn send(
        &self,
        place: &Place,
        right: Right,
        request: &Request,
        access: Access,
    ) -> Result<Response, RegistryError> {
        let known = self.tokens.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(place, right);
        let response = self.transport.send(request, known.as_ref().map(|header| header.as_str()), access).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        match self.authorize(place, right, &response).await? {
            Some(authorization) => self.transport.send(request, Some(&authorization), access).await,
            None => Ok(response),
        }
    }
}

/// Returns the value of a header, without its parameters.
fn header_value(response: &Response, name: HeaderName) -> Option<String> {
    let value = response.headers().get(name).and_then(|value| value.to_str().ok());
    value.map(|value| value.split(';').next().unwrap_or_default().trim().to_owned())
}

/// Returns a request with a body.
fn with_body(mut request: Request, media_type: &'static str, body: Bytes) -> Request {
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    request.body = Some(body);
    request
}

/// Returns the beginning of a text that a registry wrote.
fn excerpt(text: &str) -> String {
    fumehood_core::text::sanitize::printable(fumehood_core::text::sanitize::truncate_str(text, 100)).into_owned()
}
