//! The client: connections, addresses, and the way to the head of a response.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::policy::permission::http::check_public;
use http::header::{ACCEPT_ENCODING, HeaderValue};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::Instant;
use url::{Host, Url};

use crate::error::{TransportError, root_cause};
use crate::request::Request;
use crate::response::{Response, ResponseLimits};
use crate::tls::Roots;

/// Default maximum time to establish a connection.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of fields in the head of a response.
const MAX_FIELDS: usize = 100;

/// The addresses that may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Addresses {
    /// All, for hosts that the operator named.
    #[default]
    Any,
    /// Public ones, for hosts that a peer named. A name that has any other address is refused.
    Public,
}

/// A client for requests of the host, which reuses its connections. Cheap to clone.
#[derive(Clone)]
pub struct Transport {
    client: reqwest::Client,
    addresses: Addresses,
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// A builder of a [`Transport`].
#[derive(Debug, Clone)]
pub struct TransportBuilder {
    roots: Roots,
    addresses: Addresses,
    connect_timeout: Duration,
    max_idle_connections: usize,
    proxy: Option<Url>,
}

impl TransportBuilder {
    /// Sets the root certificates.
    #[must_use]
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = roots;
        self
    }

    /// Sets the addresses that may be connected to. Default: all.
    #[must_use]
    pub fn addresses(mut self, addresses: Addresses) -> Self {
        self.addresses = addresses;
        self
    }

    /// Sets the maximum time to establish a connection. Default: 10 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how many unused connections to a host are kept. Default: none.
    #[must_use]
    pub fn max_idle_connections(mut self, max: usize) -> Self {
        self.max_idle_connections = max;
        self
    }

    /// Sends all requests through an HTTP proxy.
    #[must_use]
    pub fn proxy(mut self, url: Url) -> Self {
        self.proxy = Some(url);
        self
    }

    /// Creates the client.
    ///
    /// # Errors
    /// If the root certificates cannot be read, or the proxy cannot be used.
    pub fn build(self) -> Result<Transport, TransportError> {
        let tls = self.roots.config().map_err(|error| TransportError::Setup(error.to_string()))?;
        let mut client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .http1_only()
            .http1_max_headers(MAX_FIELDS)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(self.connect_timeout)
            .tcp_nodelay(true)
            .pool_max_idle_per_host(self.max_idle_connections)
            .pool_idle_timeout(Duration::from_secs(30))
            .user_agent(concat!("fumehood/", env!("CARGO_PKG_VERSION")));
        if let Some(proxy) = self.proxy {
            client =
                client.proxy(reqwest::Proxy::all(proxy).map_err(|error| TransportError::Setup(root_cause(&error)))?);
        }
        if self.addresses == Addresses::Public {
            client = client.dns_resolver(Arc::new(PublicResolver));
        }
        let client = client.build().map_err(|error| TransportError::Setup(root_cause(&error)))?;
        Ok(Transport { client, addresses: self.addresses })
    }
}

impl Transport {
    /// Returns a builder with the default settings.
    #[must_use]
    pub fn builder() -> TransportBuilder {
        TransportBuilder {
            roots: Roots::default(),
            addresses: Addresses::default(),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            max_idle_connections: 0,
            proxy: None,
        }
    }

    /// Sends a request, and returns once the head of the response is there.
    ///
    /// # Errors
    /// If no response begins in time, or it has a content coding. Any status is a response.
    pub async fn send(&self, request: Request, limits: ResponseLimits) -> Result<Response, TransportError> {
        if self.addresses == Addresses::Public {
            check_host(&request.url)?;
        }
        let started = Instant::now();
        let Request { method, url, mut headers, body } = request;
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut builder = self.client.request(method, url.clone()).headers(headers);
        if let Some(body) = body {
            builder = builder.body(body);
        }
        let patience = limits.total.map_or(limits.head, |total| total.min(limits.head));
        let sent = tokio::time::timeout(patience, builder.send()).await;
        let response = sent.map_err(|_| TransportError::HeadTimeout(patience))?.map_err(|error| {
            if error.is_timeout() {
                TransportError::ConnectTimeout
            } else if error.is_connect() {
                TransportError::Unreachable(root_cause(&error))
            } else {
                TransportError::NoResponse(root_cause(&error))
            }
        })?;
        Response::new(response, url, limits, started)
    }
}

/// Checks a host that is written as an address, which no resolver sees.
fn check_host(url: &Url) -> Result<(), TransportError> {
    let address = match url.host() {
        Some(Host::Ipv4(address)) => IpAddr::V4(address),
        Some(Host::Ipv6(address)) => IpAddr::V6(address),
        _ => return Ok(()),
    };
    check_public(address).map_err(|what| TransportError::Unreachable(format!("it is {what}, which is not configured")))
}

/// The system's resolver, without names that have an address that is not public.
struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            for address in &found {
                // One such address is enough: nobody can say which of them would be used.
                check_public(address.ip()).map_err(|what| format!("it has {what}, which is not configured"))?;
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
