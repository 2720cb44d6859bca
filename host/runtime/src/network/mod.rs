//! Name resolution and certificate verification for requests of tools. Whether a request is allowed is decided
//! elsewhere.

mod proxy;
mod proxy_listener;
mod resolver;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::sync::Arc;

pub use proxy::{ProgramProxy, RefusalLog};
pub use proxy_listener::ProxyAddress;
pub use resolver::{Resolver, SystemResolver};
#[cfg(feature = "tls")]
pub use tls::TrustError;
#[cfg(feature = "tls")]
pub(crate) use tls::{Tls, TlsError};
use tokio::sync::Semaphore;

/// The network configuration of a sandbox. Clones share its state.
#[derive(Clone)]
pub struct Network {
    pub(crate) resolver: Arc<dyn Resolver>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Arc<Tls>,
    pub(crate) permits: Arc<Semaphore>,
    max_requests: u32,
    pub(crate) observes_lookups: bool,
}

/// Default maximum number of requests that all calls together have running.
const DEFAULT_MAX_REQUESTS: u32 = 256;

impl Default for Network {
    /// Uses the resolver and the trusted certificates of this machine.
    fn default() -> Self {
        Self {
            resolver: Arc::new(SystemResolver::default()),
            #[cfg(feature = "tls")]
            tls: Arc::new(Tls::from_system()),
            permits: semaphore(DEFAULT_MAX_REQUESTS),
            max_requests: DEFAULT_MAX_REQUESTS,
            observes_lookups: false,
        }
    }
}

impl Network {
    /// Sets the resolver of names.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, ..self }
    }

    /// Answers lookups of names that are not granted with an address to which nothing is connected. The lookup is still
    /// recorded as refused. A tool that goes on is then refused its connection, which shows the port that it wants.
    #[must_use]
    pub fn with_observed_lookups(self) -> Self {
        Self { observes_lookups: true, ..self }
    }

    /// Trusts certificates that chain to these root certificates, and no others. Each is in DER form.
    ///
    /// # Errors
    /// If one is not a certificate, or there is none.
    #[cfg(feature = "tls")]
    pub fn with_roots(self, roots: &[Vec<u8>]) -> Result<Self, TrustError> {
        Ok(Self { tls: Arc::new(Tls::from_roots(roots)?), ..self })
    }
}

impl Network {
    /// Sets the maximum number of requests that all calls together have running, from their start until their response
    /// has ended; 256 by default. A request that gets no permit within its time for connecting fails.
    #[must_use]
    pub fn with_max_requests(self, requests: u32) -> Self {
        Self { permits: semaphore(requests), max_requests: requests, ..self }
    }

    /// Returns the maximum number of requests that all calls together have running.
    #[must_use]
    pub fn max_requests(&self) -> u32 {
        self.max_requests
    }
}

fn semaphore(requests: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(usize::try_from(requests).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS)))
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}
