//! The HTTP client: retries with backoff, and redirects that are followed by rule.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fumehood_core::log::RetriedRequest;
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_transport::{Addresses, Body, Response, ResponseLimits, Roots, TransportError};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Method, StatusCode};
use url::Url;

use super::address::{is_same_site, is_written_as_private};
use super::config::{HttpConfig, HttpLimits, Scheme};
use crate::error::RegistryError;
use crate::reference::is_loopback;

/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 3;
/// Maximum size of an error's body that is read for its message, in bytes.
const MAX_MESSAGE_BYTES: u64 = 64 << 10;
/// Maximum length of a registry's message that is repeated, in bytes.
const MAX_EXCERPT_BYTES: usize = 300;
/// Number of connections that are kept open to one host.
const MAX_IDLE_CONNECTIONS: usize = 8;
/// Size of the pieces of a body whose way is observed, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// The name of Docker's registry in references, and the host that answers for it.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

/// The HTTP client.
#[derive(Debug)]
pub(crate) struct Transport {
    /// For hosts that the operator named.
    named: fumehood_transport::Transport,
    /// For hosts that a registry named: public addresses only.
    foreign: fumehood_transport::Transport,
    config: HttpConfig,
}

/// A request, which can be sent several times.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Bytes>,
    /// The observer of the body's way.
    pub(crate) observer: Option<UploadObserver>,
    /// The request in words, for messages.
    pub(crate) what: String,
}

impl Request {
    /// Creates a request that reads a URL.
    pub(crate) fn get(url: Url, what: String) -> Self {
        Self { method: Method::GET, url, headers: HeaderMap::new(), body: None, observer: None, what }
    }
}

/// A function that is told the number of bytes that were sent, from the beginning whenever a request is repeated.
#[derive(Clone)]
pub struct UploadObserver(Arc<dyn Fn(u64) + Send + Sync>);

impl UploadObserver {
    /// Wraps a function.
    #[must_use]
    pub fn new(observe: impl Fn(u64) + Send + Sync + 'static) -> Self {
        Self(Arc::new(observe))
    }

    /// Returns a body that tells the observer how much of it was taken.
    fn watch(&self, bytes: Bytes) -> Body {
        let observer = self.clone();
        let total = bytes.len();
        let pieces = (0..total).step_by(PIECE_BYTES).map(move |start| {
            let end = (start + PIECE_BYTES).min(total);
            (observer.0)(end as u64);
            Ok::<_, std::convert::Infallible>(bytes.slice(start..end))
        });
        Body::wrap_stream(futures_util::stream::iter(pieces))
    }
}

impl fmt::Debug for UploadObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UploadObserver(…)")
    }
}

/// The rule about redirects of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// They are refused.
    Direct,
    /// They are followed, also to other hosts, which get no credentials.
    Redirected,
    /// They are refused, and a name has to have a public address: a registry named the host.
    Foreign,
}

/// An authorization service that a registry names: whether it gets the registry's password, and how it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServiceAccess {
    pub(crate) gets_password: bool,
    pub(crate) access: Access,
}

fn build_client(
    config: &HttpConfig,
    proxy: Option<&Url>,
    addresses: Addresses,
) -> Result<fumehood_transport::Transport, RegistryError> {
    let mut client = fumehood_transport::Transport::builder()
        .roots(Roots::SystemAnd(config.extra_roots.clone()))
        .addresses(addresses)
        .connect_timeout(config.limits.connect)
        .max_idle_connections(MAX_IDLE_CONNECTIONS);
    if let Some(proxy) = proxy {
        client = client.proxy(proxy.clone());
    }
    client.build().map_err(|error| match error {
        TransportError::Setup(why) => RegistryError::Setup(why),
        error => RegistryError::Setup(error.to_string()),
    })
}

impl Transport {
    pub(crate) fn new(config: HttpConfig) -> Result<Self, RegistryError> {
        let proxy = config.proxy.as_deref().map(|proxy| {
            let url = Url::parse(proxy).ok().filter(|url| url.scheme() == "http" && url.host().is_some());
            let bad = "invalid proxy URL; expected http://HOST:PORT";
            url.ok_or_else(|| RegistryError::Setup(bad.to_owned()))
        });
        let proxy = proxy.transpose()?;
        let named = build_client(&config, proxy.as_ref(), Addresses::Any)?;
        let foreign = build_client(&config, proxy.as_ref(), Addresses::Public)?;
        Ok(Self { named, foreign, config })
    }

    pub(crate) fn limits(&self) -> &HttpLimits {
        &self.config.limits
    }

    /// Returns the address of a host that the operator named.
    pub(crate) fn base(&self, host: &str) -> Result<Url, RegistryError> {
        let bad = |_| RegistryError::Setup(format!("invalid host `{host}`; expected HOST[:PORT]"));
        let host = if host == DOCKER_HUB.0 { DOCKER_HUB.1 } else { host };
        let plain = Url::parse(&format!("http://{host}/")).map_err(bad)?;
        let scheme = self.config.schemes.get(host).copied();
        match scheme.unwrap_or(if is_loopback(&plain) { Scheme::Http } else { Scheme::Https }) {
            Scheme::Http => Ok(plain),
            Scheme::Https => Url::parse(&format!("https://{host}/")).map_err(bad),
        }
    }

    /// Returns whether a host may be asked over plain HTTP.
    pub(crate) fn allows_plain(&self, url: &Url) -> bool {
        let host = authority(url);
        self.config.schemes.get(&host).map_or_else(|| is_loopback(url), |scheme| *scheme == Scheme::Http)
    }

    /// Decides on the authorization service that a registry names. It gets the password of the registry if it is the registry
    /// itself, or a host of the same site, or one that the operator named. Others may be asked without one. No service has an
    /// address of this machine or network, unless it is the registry or was named.
    ///
    /// # Errors
    /// If it must not be asked: the reason.
    pub(crate) fn service_access(&self, registry: &str, service: &Url) -> Result<ServiceAccess, &'static str> {
        let own = self.base(registry).map_err(|_| "the registry has an invalid address")?;
        let is_own = own.host() == service.host() && own.port_or_known_default() == service.port_or_known_default();
        let is_named = self.config.token_hosts.contains(&authority(service));
        let may_be_plain = (is_own || is_named) && self.allows_plain(service);
        if service.scheme() != "https" && !(service.scheme() == "http" && may_be_plain) {
            return Err("it is not encrypted");
        }
        if is_own || is_named {
            return Ok(ServiceAccess { gets_password: true, access: Access::Direct });
        }
        if is_written_as_private(service) {
            return Err("it is an address of this machine or network; if you trust it, add it to `token_hosts`");
        }
        Ok(ServiceAccess { gets_password: is_same_site(&own, service), access: Access::Foreign })
    }

    /// Sends a request, again if that may help, and follows redirects if the rule allows it. `authorization` goes to the
    /// origin of the request only.
    ///
    /// # Errors
    /// If there is no answer. Any status other than a redirect is an answer.
    pub(crate) async fn send(
        &self,
        request: &Request,
        authorization: Option<&str>,
        access: Access,
    ) -> Result<Response, RegistryError> {
        let origin = request.url.origin();
        let mut current = request.clone();
        for _ in 0..=MAX_REDIRECTS {
            let is_origin = current.url.origin() == origin;
            let is_named = is_origin && access != Access::Foreign;
            let response = self.send_with_retries(&current, authorization.filter(|_| is_origin), is_named).await?;
            if !response.status().is_redirection() || response.status() == StatusCode::NOT_MODIFIED {
                return Ok(response);
            }
            current.url = self.redirect_target(&current, &response, &origin, access)?;
        }
        Err(redirect_error(request, &current.url, "it redirects too often"))
    }

    async fn send_with_retries(
        &self,
        request: &Request,
        authorization: Option<&str>,
        is_named: bool,
    ) -> Result<Response, RegistryError> {
        let limits = &self.config.limits;
        let mut failures = 0;
        loop {
            let (error, reason, requested) = match self.send_once(request, authorization, is_named).await {
                Ok(response) if !is_transient(response.status()) => return Ok(response),
                Ok(response) => {
                    let requested = retry_after(response.headers());
                    if failures >= limits.retries {
                        return Ok(response);
                    }
                    (None, response.status().to_string(), requested)
                }
                Err(error) => {
                    let reason = error.to_string();
                    (Some(error), reason, None)
                }
            };
            failures += 1;
            if let Some(error) = error
                && failures > limits.retries
            {
                return Err(error);
            }
            let retry_in = self.delay(failures, requested);
            RetriedRequest { failures, reason, retry_in }.emit_registry(&authority(&request.url));
            tokio::time::sleep(retry_in).await;
        }
    }

    /// Waits before a further attempt, after `failures` failed ones.
    pub(crate) async fn wait(&self, failures: u32, requested: Option<Duration>) {
        tokio::time::sleep(self.delay(failures, requested)).await;
    }

    /// Returns the time to wait before a further attempt.
    fn delay(&self, failures: u32, requested: Option<Duration>) -> Duration {
        let limits = &self.config.limits;
        let doubled = limits.retry_delay.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
        // Up to a quarter less, so that many clients do not come back at once.
        let jitter = u32::try_from(getrandom::u64().unwrap_or_default() % 256).unwrap_or(0);
        let delay = requested.unwrap_or(doubled - doubled / 4 * jitter / 256);
        delay.min(limits.max_retry_delay)
    }

    async fn send_once(
        &self,
        request: &Request,
        authorization: Option<&str>,
        is_named: bool,
    ) -> Result<Response, RegistryError> {
        let is_named = is_named || self.config.redirect_hosts.contains(&authority(&request.url));
        let client = if is_named { &self.named } else { &self.foreign };
        let mut outgoing = fumehood_transport::Request::new(request.method.clone(), request.url.clone());
        outgoing.headers = request.headers.clone();
        if let Some(authorization) = authorization.and_then(|text| HeaderValue::from_str(text).ok()) {
            outgoing = outgoing.header(AUTHORIZATION, authorization);
        }
        outgoing = match (&request.body, &request.observer) {
            // The size of a stream is unknown, and registries want to be told it.
            (Some(body), Some(observer)) => {
                outgoing.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
                outgoing.body(observer.watch(body.clone()))
            }
            (Some(body), None) => outgoing.body(body.clone()),
            (None, _) => outgoing,
        };
        // An upload takes its time; its answer is waited for after that.
        let limits = &self.config.limits;
        let upload = request.body.as_ref().map_or(0, Bytes::len) as u64 / limits.min_bytes_per_second.max(1);
        let bounds = ResponseLimits {
            head: limits.response + Duration::from_secs(upload),
            idle: limits.idle,
            // Components are as large as their manifests say, and come at the minimum speed.
            total: None,
            max_bytes: u64::MAX,
            min_bytes_per_second: limits.min_bytes_per_second,
            window: limits.window,
        };
        let host = authority(&request.url);
        let what = request.what.clone();
        client.send(outgoing, bounds).await.map_err(|error| match error {
            TransportError::HeadTimeout(timeout) => RegistryError::Timeout { host, what, timeout },
            TransportError::Coded(_) => RegistryError::Malformed { host, what, reason: error.to_string() },
            error => {
                let reason = printable(truncate_str(&error.to_string(), MAX_EXCERPT_BYTES)).into_owned();
                RegistryError::Unreachable { host, reason }
            }
        })
    }

    fn redirect_target(
        &self,
        request: &Request,
        response: &Response,
        origin: &url::Origin,
        access: Access,
    ) -> Result<Url, RegistryError> {
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
        let target = location.and_then(|location| request.url.join(location).ok());
        let Some(target) = target else {
            return Err(redirect_error(request, &request.url, "it names no target"));
        };
        let refuse = |reason| Err(redirect_error(request, &target, reason));
        if target.origin() == *origin {
            return Ok(target);
        }
        if access != Access::Redirected {
            return refuse("only downloads of components may be redirected to other hosts");
        }
        if self.config.redirect_hosts.contains(&authority(&target)) {
            return Ok(target);
        }
        if target.scheme() != "https" {
            return refuse("it is not encrypted");
        }
        if is_written_as_private(&target) {
            return refuse("it is an address of this machine or network");
        }
        Ok(target)
    }

    /// Converts an answer that is not a success into the error that it means.
    pub(crate) async fn refusal(&self, request: &Request, response: Response) -> RegistryError {
        let host = authority(&request.url);
        let what = request.what.clone();
        let status = response.status();
        if status == StatusCode::NOT_FOUND {
            return RegistryError::NotFound { host, what };
        }
        let body = read_bounded(response, &host, &what, MAX_MESSAGE_BYTES).await;
        let message = body.map(|body| message(&body)).unwrap_or_default();
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let reason = if message.is_empty() { status.to_string() } else { message };
                RegistryError::Denied { host, what, reason }
            }
            _ => RegistryError::Status { host, what, status: status.as_u16(), message },
        }
    }
}

/// Returns host and port of a URL, as references write them.
pub(crate) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns the message of an error's body: that of the specification's envelope, or the beginning of the text.
fn message(body: &[u8]) -> String {
    let envelope: Option<oci_client::errors::OciEnvelope> = serde_json::from_slice(body).ok();
    let first = envelope.and_then(|envelope| envelope.errors.into_iter().next());
    let text = match first {
        Some(error) => error.message,
        None => String::from_utf8_lossy(body).into_owned(),
    };
    printable(truncate_str(text.trim(), MAX_EXCERPT_BYTES)).into_owned()
}

fn redirect_error(request: &Request, target: &Url, reason: &'static str) -> RegistryError {
    let target = format!("{}://{}", target.scheme(), authority(target));
    RegistryError::Redirect { host: authority(&request.url), what: request.what.clone(), target, reason }
}

fn is_transient(status: StatusCode) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
        || (status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED)
}

/// Parses `retry-after`, in seconds or as a date (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(SystemTime::now()).unwrap_or_default())
}

/// Converts a failure to read an answer into the error about the request.
pub(crate) fn read_error(error: TransportError, host: &str, what: &str, received: u64, expected: u64) -> RegistryError {
    let host = host.to_owned();
    let what = what.to_owned();
    match error {
        TransportError::Idle(timeout) | TransportError::Late(timeout) => RegistryError::Timeout { host, what, timeout },
        TransportError::Slow(minimum) => RegistryError::Slow { host, what, minimum },
        TransportError::TooLarge(maximum) => RegistryError::TooLarge { host, what, maximum },
        TransportError::Broken => RegistryError::Truncated { host, what, received, expected },
        error => RegistryError::Malformed { host, what, reason: error.to_string() },
    }
}

/// Reads an answer of at most `max_bytes` into memory.
pub(crate) async fn read_bounded(
    response: Response,
    host: &str,
    what: &str,
    max_bytes: u64,
) -> Result<Vec<u8>, RegistryError> {
    let announced = response.content_length().unwrap_or_default();
    let mut response = response.at_most(max_bytes);
    let mut bytes = Vec::new();
    loop {
        let received = bytes.len() as u64;
        match response
            .chunk()
            .await
            .map_err(|error| read_error(error, host, what, received, announced.max(received)))?
        {
            None => return Ok(bytes),
            Some(chunk) => bytes.extend_from_slice(&chunk),
        }
    }
}
