//! The keys of an issuer: where they are published (RFC 8414), when they are fetched, and how long they are used.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use fumehood_core::log;
use http::{Request, StatusCode};
use serde::Deserialize;
use tokio::sync::Mutex;
use url::Url;

use crate::oauth::http_client::{HttpClient, RequestError};
use crate::oauth::key_set::KeySet;

/// Age at which keys are fetched again.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);
/// Age up to which keys are used while they cannot be fetched again.
const MAX_STALE_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Minimum time between two fetches, whatever tokens ask for.
pub(crate) const MIN_FETCH_INTERVAL: Duration = Duration::from_secs(10);

/// Errors of fetching keys.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{0} answered with the status {1}")]
    Status(Url, StatusCode),
    #[error("cannot use the document at {0}: {1}")]
    Document(Url, &'static str),
}

/// The source of an issuer's keys, which keeps them. Cheap to clone; clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct KeySource(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The issuer, as its tokens and metadata spell it.
    issuer: String,
    issuer_url: Url,
    /// The address of the keys, if they are not where the issuer's metadata says.
    jwks: Option<Url>,
    http: HttpClient,
    interval: Duration,
    cached: RwLock<Option<CachedKeys>>,
    /// The time of the last fetch. Held while keys are fetched, so that one request does it for all that wait.
    last_fetch: Mutex<Option<Instant>>,
    /// True since the last fetch failed.
    is_failing: AtomicBool,
}

#[derive(Debug, Clone)]
struct CachedKeys {
    keys: Arc<KeySet>,
    fetched: Instant,
}

/// The part of an issuer's metadata that is needed.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

impl KeySource {
    pub(crate) fn new(
        issuer: String,
        issuer_url: Url,
        jwks: Option<Url>,
        http: HttpClient,
        interval: Duration,
    ) -> Self {
        let cached = RwLock::default();
        let last_fetch = Mutex::default();
        let is_failing = AtomicBool::default();
        Self(Arc::new(Inner { issuer, issuer_url, jwks, http, interval, cached, last_fetch, is_failing }))
    }

    /// Returns the keys, fetched again if they are old or not `enough`. `None` if they cannot be had.
    pub(crate) async fn keys(&self, enough: impl Fn(&KeySet) -> bool) -> Option<Arc<KeySet>> {
        if let Some(cached) = self.cached().filter(|cached| enough(&cached.keys)) {
            if cached.fetched.elapsed() > MAX_AGE
                && let Ok(mut last_fetch) = self.0.last_fetch.try_lock()
            {
                // In the background: what is known is good enough for this token.
                self.start_fetch(&mut last_fetch);
            }
            return Some(cached.keys);
        }
        let mut last_fetch = self.0.last_fetch.lock().await;
        // Another request may have fetched them meanwhile.
        if let Some(cached) = self.cached().filter(|cached| enough(&cached.keys)) {
            return Some(cached.keys);
        }
        if let Some(fetching) = self.start_fetch(&mut last_fetch) {
            let _panicked = fetching.await;
        }
        self.cached().map(|cached| cached.keys)
    }

    fn cached(&self) -> Option<CachedKeys> {
        let cached = self.0.cached.read().unwrap_or_else(PoisonError::into_inner).clone();
        cached.filter(|cached| cached.fetched.elapsed() < MAX_STALE_AGE)
    }

    /// Fetches the keys in a task of its own, so that a client that leaves does not stop it; `None` if they were fetched a
    /// moment ago.
    fn start_fetch(&self, last_fetch: &mut Option<Instant>) -> Option<tokio::task::JoinHandle<()>> {
        let now = Instant::now();
        if last_fetch.is_some_and(|last| now.duration_since(last) < self.0.interval) {
            return None;
        }
        *last_fetch = Some(now);
        let inner = Arc::clone(&self.0);
        Some(tokio::spawn(async move {
            match inner.fetch().await {
                Ok(keys) => {
                    let cached = CachedKeys { keys: Arc::new(keys), fetched: Instant::now() };
                    *inner.cached.write().unwrap_or_else(PoisonError::into_inner) = Some(cached);
                    if inner.is_failing.swap(false, Ordering::Relaxed) {
                        log::emit_issuer_available(&inner.issuer);
                    }
                }
                Err(error) => {
                    inner.is_failing.store(true, Ordering::Relaxed);
                    log::emit_issuer_unavailable(&inner.issuer, error_chain(&error));
                }
            }
        }))
    }
}

impl Inner {
    async fn fetch(&self) -> Result<KeySet, FetchError> {
        let url = match &self.jwks {
            Some(url) => url.clone(),
            None => self.discover().await?,
        };
        let text = self.get(&url).await?;
        KeySet::parse(&text).map_err(|why| FetchError::Document(url, why))
    }

    /// Returns the address of the keys, by the metadata of OAuth (RFC 8414) or that of OpenID Connect.
    async fn discover(&self) -> Result<Url, FetchError> {
        let [oauth, openid] = metadata_urls(&self.issuer_url);
        let (url, text) = match self.get(&oauth).await {
            Ok(text) => (oauth, text),
            Err(FetchError::Status(..)) => (openid.clone(), self.get(&openid).await?),
            Err(error) => return Err(error),
        };
        let unusable = |why| FetchError::Document(url.clone(), why);
        let metadata: Metadata =
            serde_json::from_slice(&text).map_err(|_| unusable("it is not metadata with `issuer` and `jwks_uri`"))?;
        if metadata.issuer != self.issuer {
            return Err(unusable("it belongs to another issuer"));
        }
        Url::parse(&metadata.jwks_uri).map_err(|_| unusable("its `jwks_uri` is not a URL"))
    }

    async fn get(&self, url: &Url) -> Result<Vec<u8>, FetchError> {
        let request = Request::get(url.as_str()).header(http::header::ACCEPT, "application/json").body(Vec::new());
        let request = request.map_err(|_| FetchError::Document(url.clone(), "its URL is not valid"))?;
        let response = self.http.execute(request).await?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body()),
            status => Err(FetchError::Status(url.clone(), status)),
        }
    }
}

/// Returns an error with its causes: the outermost one rarely says why a server cannot be reached.
fn error_chain(error: &FetchError) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Returns the addresses of an issuer's metadata: of OAuth, whose well-known path goes before the issuer's own, and of
/// OpenID Connect, whose goes after it.
fn metadata_urls(issuer: &Url) -> [Url; 2] {
    let path = issuer.path().trim_end_matches('/');
    [
        with_path(issuer, &format!("/.well-known/oauth-authorization-server{path}")),
        with_path(issuer, &format!("{path}/.well-known/openid-configuration")),
    ]
}

fn with_path(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserts_the_path_of_the_issuer() {
        let urls = |issuer: &str| metadata_urls(&Url::parse(issuer).unwrap()).map(String::from);
        assert_eq!(
            urls("https://auth.example.com"),
            [
                "https://auth.example.com/.well-known/oauth-authorization-server",
                "https://auth.example.com/.well-known/openid-configuration"
            ]
        );
        assert_eq!(
            urls("https://auth.example.com/realms/a/"),
            [
                "https://auth.example.com/.well-known/oauth-authorization-server/realms/a",
                "https://auth.example.com/realms/a/.well-known/openid-configuration"
            ]
        );
    }
}
