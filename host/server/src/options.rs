//! The options of a listener, and the errors of creating one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::token_verifier::TokenVerifier;
use fumehood_layers::Access;

/// The address, access rules and limits of a listener.
///
/// ```
/// use std::time::Duration;
///
/// use fumehood_server::{Access, HttpOptions, Tenant, Token, TokenError};
///
/// let tenant = Tenant::new("acme", &Token::generate()?);
/// let options = HttpOptions {
///     // The name that a proxy in front of the server passes on.
///     hosts: vec!["tools.example.com".to_owned()],
///     drain: Duration::from_secs(10),
///     ..HttpOptions::new(([0, 0, 0, 0], 8080).into(), Access::Tenants(vec![tenant]))
/// };
/// assert_eq!(options.body_bytes, 4 << 20);
/// # Ok::<(), TokenError>(())
/// ```
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The address to listen at. Port 0 selects any free one.
    pub address: SocketAddr,
    /// The clients that may call.
    pub access: Access,
    /// The verifier of access tokens that an authorization server issued, beside the tokens of tenants.
    pub verifier: Option<Arc<dyn TokenVerifier>>,
    /// Accepted `Host` headers besides the address: `name:port`, or `name` for the default port.
    pub hosts: Vec<String>,
    /// Accepted `Origin` headers besides the address: `https://app.example`.
    pub origins: Vec<String>,
    /// Maximum number of connections with an admitted request. For one more, the one that has stalled the longest is
    /// dropped: idle, in the middle of a body, or not taking a response. If none has stalled, the new request is
    /// rejected.
    pub connections: usize,
    /// Maximum number of connections without an admitted request. For one more, the oldest is dropped. None ever waits
    /// to be accepted. All connections together take at most half of the files that the process may open, whatever the
    /// two limits say.
    pub unauthenticated_connections: usize,
    /// Maximum number of concurrent requests of one tenant; more are rejected.
    pub requests: usize,
    /// Maximum memory of the messages of one tenant while they are handled, with what they are parsed into, in
    /// bytes. More wait, for ten seconds at most. Messages of up to 64 KiB are not counted. At least two of the largest
    /// messages fit.
    pub in_flight_bytes: usize,
    /// Maximum size of the body of a request, in bytes.
    pub body_bytes: usize,
    /// Maximum time in which running requests may end after a stop. Until then new ones are rejected.
    pub drain: Duration,
}

impl HttpOptions {
    /// Returns options for this address and these clients:
    ///
    /// - 256 connections with an admitted request, and 128 without
    /// - 256 requests of one tenant
    /// - 64 MiB of messages of one tenant, each of at most 4 MiB
    /// - no time for running requests after a stop
    #[must_use]
    pub fn new(address: SocketAddr, access: Access) -> Self {
        Self {
            address,
            access,
            verifier: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            connections: 256,
            unauthenticated_connections: 128,
            requests: 256,
            in_flight_bytes: 64 << 20,
            body_bytes: 4 << 20,
            drain: Duration::ZERO,
        }
    }
}

/// Errors returned by [`Listener::bind`](crate::Listener::bind).
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// An address that other machines can reach, without tokens.
    #[error("{0} is reachable from other machines, which requires a token; set one, or listen on 127.0.0.1")]
    OpenToAll(SocketAddr),
    /// No tenant with a token, and none that is known by access tokens.
    #[error("no client could call, because there is no token")]
    Nobody,
    /// Two tenants that cannot be told apart.
    #[error("the tenant `{tenant}` has the same {what} as another tenant; give each tenant a different one")]
    Same {
        /// The property that both have: `name`, `actor`, `token` or `claim`.
        what: &'static str,
        /// The second of them.
        tenant: String,
    },
    /// Access tokens for a listener that every program on this machine may call.
    #[error("access tokens have no effect on a server without tokens; add tenants for them")]
    Unverified,
    /// Tenants for a listener that every program on this machine may call.
    #[error("this server was started without tokens, so it has no tenants; restart it with tokens")]
    Open,
    /// The address is in use, or not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
}
