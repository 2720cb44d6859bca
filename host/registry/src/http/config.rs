//! Settings of the HTTP client.

use std::collections::BTreeMap;
use std::time::Duration;

/// Default maximum time to connect, in milliseconds.
const DEFAULT_CONNECT_MS: u64 = 10_000;
/// Default maximum time until the headers of an answer are there, in milliseconds.
const DEFAULT_RESPONSE_MS: u64 = 30_000;
/// Default maximum time between two pieces of an answer, in milliseconds.
const DEFAULT_IDLE_MS: u64 = 20_000;
/// Default minimum speed of an answer, in bytes a second, measured over [`DEFAULT_WINDOW_MS`].
const DEFAULT_MIN_SPEED_BYTES: u64 = 4 << 10;
/// Default time over which the speed is measured, in milliseconds.
const DEFAULT_WINDOW_MS: u64 = 10_000;
/// Default number of further attempts after a failed one.
const DEFAULT_RETRIES: u32 = 3;
/// Default delay before the first further attempt, in milliseconds. It doubles with each.
const DEFAULT_RETRY_DELAY_MS: u64 = 250;
/// Default maximum delay between two attempts, in milliseconds, also of those that a registry asks for.
const DEFAULT_MAX_RETRY_DELAY_MS: u64 = 10_000;

/// The scheme of requests to a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// Encrypted.
    Https,
    /// Not encrypted.
    Http,
}

/// Limits of requests in time, and retries.
#[derive(Debug, Clone)]
pub struct HttpLimits {
    /// Maximum time to connect.
    pub connect: Duration,
    /// Maximum time until the headers of an answer are there.
    pub response: Duration,
    /// Maximum time between two pieces of an answer.
    pub idle: Duration,
    /// Minimum speed of an answer, in bytes a second.
    pub min_bytes_per_second: u64,
    /// The time over which the speed is measured.
    pub window: Duration,
    /// Number of further attempts after a failed one.
    pub retries: u32,
    /// Delay before the first further attempt. It doubles with each.
    pub retry_delay: Duration,
    /// Maximum delay between two attempts.
    pub max_retry_delay: Duration,
}

/// Settings of the HTTP client. By default it trusts the system's root certificates, encrypts everything that leaves this
/// machine, and uses no proxy, whatever the environment says.
#[derive(Debug, Clone, Default)]
pub struct HttpConfig {
    pub(super) limits: HttpLimits,
    pub(super) schemes: BTreeMap<String, Scheme>,
    pub(super) extra_roots: Vec<Vec<u8>>,
    pub(super) proxy: Option<String>,
    pub(super) redirect_hosts: Vec<String>,
    pub(super) token_hosts: Vec<String>,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(DEFAULT_CONNECT_MS),
            response: Duration::from_millis(DEFAULT_RESPONSE_MS),
            idle: Duration::from_millis(DEFAULT_IDLE_MS),
            min_bytes_per_second: DEFAULT_MIN_SPEED_BYTES,
            window: Duration::from_millis(DEFAULT_WINDOW_MS),
            retries: DEFAULT_RETRIES,
            retry_delay: Duration::from_millis(DEFAULT_RETRY_DELAY_MS),
            max_retry_delay: Duration::from_millis(DEFAULT_MAX_RETRY_DELAY_MS),
        }
    }
}

impl HttpConfig {
    /// Creates the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limits.
    #[must_use]
    pub fn limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the scheme of a host (`HOST[:PORT]`). Without it, hosts of this machine are asked over plain HTTP, and all others
    /// over HTTPS.
    #[must_use]
    pub fn scheme(mut self, host: impl Into<String>, scheme: Scheme) -> Self {
        self.schemes.insert(host.into().to_ascii_lowercase(), scheme);
        self
    }

    /// Adds root certificates in PEM to those of the system.
    #[must_use]
    pub fn extra_roots(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.extra_roots.push(pem.into());
        self
    }

    /// Sets the proxy for all requests, `http://HOST:PORT`.
    #[must_use]
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// Adds a host (`HOST[:PORT]`) that registries may redirect downloads to, although it has a private address or no
    /// encryption. It never receives credentials.
    #[must_use]
    pub fn redirect_host(mut self, host: impl Into<String>) -> Self {
        self.redirect_hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Adds a host (`HOST[:PORT]`) of an authorization service that registries may name although it is elsewhere, or has a
    /// private address. It receives the credentials of these registries.
    #[must_use]
    pub fn token_host(mut self, host: impl Into<String>) -> Self {
        self.token_hosts.push(host.into().to_ascii_lowercase());
        self
    }
}
