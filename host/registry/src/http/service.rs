//! Authorization services that a registry names: which of them are asked, and which of them get its password.

use url::Url;

use super::address::{is_same_site, is_written_as_private};
use super::transport::{Access, Transport, authority};

/// An authorization service that a registry names: whether it gets the registry's password, and how it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServiceAccess {
    pub(crate) gets_password: bool,
    pub(crate) access: Access,
}

impl Transport {
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
}
