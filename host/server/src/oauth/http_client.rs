//! The HTTP client of OAuth: no redirects, no proxy, bounded time and size, and only public addresses beside configured hosts.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::policy::permission::http::check_public;
use fumehood_transport::{Addresses, ResponseLimits, Roots, Transport, TransportError};
use http::{Request, Response};
use url::{Host, Url};

/// Maximum time of one request, with its body.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the body of a response, in bytes.
const MAX_BODY_BYTES: u64 = 512 << 10;

/// A client for the requests of OAuth.
///
/// - Hosts that the operator named are connected to wherever they are. All others must have public addresses.
/// - `http` is for loopback addresses, and for these only if the operator named one of them.
/// - Redirects are returned as they are, and proxies of the environment are not used.
/// - A request takes ten seconds at most, and a response has at most 512 KiB, or 64 KiB if it is no success.
/// - Responses with a content coding are refused.
#[derive(Debug, Clone)]
pub struct HttpClient {
    configured: Transport,
    public: Transport,
    /// Hosts and ports of the URLs that the operator named.
    hosts: Arc<[(String, u16)]>,
    allows_loopback: bool,
}

/// Errors of requests. None of them contains more of a URL than its origin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A URL that must not be requested.
    #[error("{origin} must not be contacted: {why}")]
    Prohibited {
        /// Scheme, host and port of the URL.
        origin: String,
        /// The reason.
        why: String,
    },
    /// The HTTP client could not be created.
    #[error("cannot set up the HTTP client")]
    Setup(#[source] TransportError),
    /// The request failed on its way, or took too long.
    #[error("{origin} does not answer: {why}")]
    Failed {
        /// Scheme, host and port of the URL.
        origin: String,
        /// The innermost cause.
        why: String,
    },
    /// The body of the response is too large.
    #[error("{0} answered with more than {MAX_BODY_BYTES} bytes")]
    TooLarge(String),
}

impl HttpClient {
    /// Creates a client. `configured` are the URLs that the operator named.
    ///
    /// # Errors
    /// If the root certificates cannot be read.
    pub fn new(configured: &[&Url]) -> Result<Self, RequestError> {
        let encrypted = configured.iter().any(|url| url.scheme() == "https");
        let host = |url: &&Url| Some((url.host_str()?.to_owned(), url.port_or_known_default()?));
        Ok(Self {
            configured: build(encrypted, Addresses::Any).map_err(RequestError::Setup)?,
            public: build(encrypted, Addresses::Public).map_err(RequestError::Setup)?,
            hosts: configured.iter().filter_map(host).collect(),
            allows_loopback: configured.iter().any(|url| is_loopback(url)),
        })
    }

    /// Checks whether a URL may be requested, as far as its text tells. Names are resolved when they are.
    ///
    /// # Errors
    /// If it may not.
    pub fn check(&self, url: &Url) -> Result<(), RequestError> {
        self.client_for(url).map(drop)
    }

    fn client_for(&self, url: &Url) -> Result<&Transport, RequestError> {
        let prohibited = |why: String| Err(RequestError::Prohibited { origin: origin_of(url), why });
        let is_local = is_loopback(url) && self.allows_loopback;
        match url.scheme() {
            "https" => {}
            "http" if is_local => {}
            _ => return prohibited("it is not https".to_owned()),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return prohibited("it contains a user or a password".to_owned());
        }
        let is_configured = self
            .hosts
            .iter()
            .any(|(host, port)| url.host_str() == Some(host) && url.port_or_known_default() == Some(*port));
        if is_configured || is_local {
            return Ok(&self.configured);
        }
        let address = match url.host() {
            Some(Host::Ipv4(address)) => Some(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => Some(IpAddr::V6(address)),
            _ => None,
        };
        match address.map(check_public) {
            Some(Err(what)) => prohibited(format!("it is {what}, which is not configured")),
            _ => Ok(&self.public),
        }
    }

    /// Sends a request and reads the whole response, whatever its status.
    ///
    /// # Errors
    /// If the URL must not be requested, the server cannot be reached in time, or its response is too large.
    pub async fn execute(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, RequestError> {
        let invalid = |_| RequestError::Prohibited { origin: "the URL".to_owned(), why: "it is not valid".to_owned() };
        let url = Url::parse(&request.uri().to_string()).map_err(invalid)?;
        let client = self.client_for(&url)?;
        let origin = origin_of(&url);
        let failed = |error: TransportError| match error {
            TransportError::TooLarge(_) => RequestError::TooLarge(origin.clone()),
            error => RequestError::Failed { origin: origin.clone(), why: error.to_string() },
        };
        let (head, body) = request.into_parts();
        let mut forwarded = fumehood_transport::Request::new(head.method, url).body(body);
        forwarded.headers = head.headers;
        let limits = ResponseLimits::within(TIMEOUT, MAX_BODY_BYTES);
        let mut response = client.send(forwarded, limits).await.map_err(failed)?;
        let status = response.status();
        let headers = response.take_headers();
        let mut answer = Response::new(response.bytes().await.map_err(failed)?);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

fn build(encrypted: bool, addresses: Addresses) -> Result<Transport, TransportError> {
    let builder = Transport::builder().roots(Roots::if_encrypted(encrypted)).addresses(addresses);
    builder.connect_timeout(CONNECT_TIMEOUT).build()
}

/// Returns whether a URL names a loopback address.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn origin_of(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(configured: &[&str]) -> HttpClient {
        let urls: Vec<Url> = configured.iter().map(|url| Url::parse(url).unwrap()).collect();
        HttpClient::new(&urls.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn asks_public_hosts_and_configured_ones() {
        let local = client(&["http://127.0.0.1:4000/issuer"]);
        for url in
            ["http://127.0.0.1:4000/jwks", "http://127.0.0.1:4001/jwks", "http://localhost/x", "https://8.8.8.8/x"]
        {
            check_url(&local, url, true);
        }
        for url in
            ["http://10.0.0.1/", "https://10.0.0.1/", "http://auth.example.com/", "https://169.254.169.254/latest"]
        {
            check_url(&local, url, false);
        }
        check_url(&local, "http://user:password@127.0.0.1:4000/jwks", false);
        // A private host that was named may be asked, its neighbours may not.
        let hosts = [("10.0.0.1".to_owned(), 443)];
        let inner = HttpClient { hosts: hosts.into(), allows_loopback: false, ..local };
        check_url(&inner, "https://10.0.0.1/jwks", true);
        for url in [
            "https://10.0.0.1:8443/",
            "https://10.0.0.2/",
            "http://10.0.0.1/",
            "http://127.0.0.1/",
            "https://127.0.0.1/",
        ] {
            check_url(&inner, url, false);
        }
    }

    fn check_url(client: &HttpClient, url: &str, expected: bool) {
        assert_eq!(client.check(&Url::parse(url).unwrap()).is_ok(), expected, "{url}");
    }

    #[tokio::test]
    async fn rejects_names_with_addresses_that_are_not_public() {
        let client = HttpClient { hosts: [].into(), allows_loopback: false, ..client(&["http://127.0.0.1:1/"]) };
        let request = Request::get("https://localhost/jwks").body(Vec::new()).unwrap();
        let error = client.execute(request).await.unwrap_err().to_string();
        assert!(error.contains("loopback address, which is not configured"), "{error}");
    }
}
