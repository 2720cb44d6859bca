//! How requests leave this machine: names become addresses, and certificates are checked. Whether they may is decided
//! elsewhere.

mod resolver;
mod tls;

use std::fmt;
use std::sync::Arc;

pub use resolver::{Resolver, SystemResolver};
pub(crate) use tls::Tls;
pub use tls::TrustError;

/// The network as the sandbox uses it. Clones are the same.
#[derive(Clone)]
pub struct Network {
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) tls: Arc<Tls>,
}

impl Default for Network {
    /// Names are looked up as this machine does, and certificates are trusted that it trusts.
    fn default() -> Self {
        Self { resolver: Arc::new(SystemResolver::default()), tls: Arc::new(Tls::of_the_system()) }
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

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}
