//! How requests leave this machine: names become addresses, and certificates are checked. Whether they may is decided
//! elsewhere.

mod resolver;
mod tls;

use std::fmt;
use std::sync::Arc;

pub use resolver::{Resolver, SystemResolver};
pub(crate) use tls::Tls;
pub use tls::TrustError;
use tokio::sync::Semaphore;

/// The network as the sandbox uses it. Clones are the same.
#[derive(Clone)]
pub struct Network {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) tls: Arc<Tls>,
    pub(crate) places: Arc<Semaphore>,
    most_requests: u32,
}

/// Requests that all calls together may have running, unless somebody says otherwise.
const MOST_REQUESTS: u32 = 256;

impl Default for Network {
    /// Names are looked up as this machine does, and certificates are trusted that it trusts.
    fn default() -> Self {
        let (resolver, tls) = (Arc::new(SystemResolver::default()), Arc::new(Tls::of_the_system()));
        Self { resolver, tls, places: places(MOST_REQUESTS), most_requests: MOST_REQUESTS }
    }
}

impl Network {
    /// Looks names up in another way.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolver>) -> Self {
        Self { resolver, ..self }
    }

    /// Trusts the certificates that these root certificates vouch for, and no others. Each is one in DER form.
    ///
    /// # Errors
    /// If one is no certificate, or there is none.
    pub fn with_roots(self, roots: &[Vec<u8>]) -> Result<Self, TrustError> {
        Ok(Self { tls: Arc::new(Tls::of_roots(roots)?), ..self })
    }
}

impl Network {
    /// How many requests all calls together may have running, from their first step until their response has ended. A
    /// request that finds no place within its time for connecting fails. 256.
    #[must_use]
    pub fn with_most_requests(self, requests: u32) -> Self {
        Self { places: places(requests), most_requests: requests, ..self }
    }

    /// See [`Network::with_most_requests`].
    #[must_use]
    pub fn most_requests(&self) -> u32 {
        self.most_requests
    }
}

fn places(requests: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(usize::try_from(requests).unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS)))
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}
