//! The grant of HTTP requests, and the decision about one request.

use core::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::Serialize;
use url::{Host, Url};

use super::address::NamedNetworks;
use super::parsed_request::{ParsedRequest, describe_unparsed};
use super::rule::HttpRule;
use super::target::{HttpTarget, Scheme};
use crate::call::{Power, Refusal};
use crate::policy::permission::GrantError;

/// The HTTP requests that a tool may make.
///
/// ```
/// use fumehood_core::policy::permission::http::{HttpGrant, HttpLimits, decide};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let rules = vec!["GET https://api.example.com/v1/**".parse()?];
/// let limits = HttpLimits { requests: 4, ..HttpLimits::default() };
/// let grant = HttpGrant::new(rules, Vec::new(), limits)?;
/// assert!(decide(Some(&grant), "GET", "https://api.example.com/v1/items?page=2").is_ok());
/// // The refusal names the rule that would allow the request.
/// let refused = decide(Some(&grant), "POST", "https://api.example.com/v1/items");
/// assert!(refused.is_err_and(|refusal| refusal.allow.is_some()));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGrant {
    rules: Vec<HttpRule>,
    private: NamedNetworks,
    limits: HttpLimits,
}

/// Limits on the network use of one call.
///
/// Times are also limited by the rest of the call's deadline, and by the timeouts that the tool itself requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct HttpLimits {
    /// Maximum number of requests. Default: 32.
    pub requests: u32,
    /// Maximum bytes sent: URLs, headers and bodies of all requests. Default: 1 MiB.
    pub bytes_out: u64,
    /// Maximum bytes received: headers and bodies of all responses, in their compressed size. Default: 10 MiB.
    pub bytes_in: u64,
    /// Maximum number of concurrent requests; further ones wait. Default: 8.
    pub in_flight: u32,
    /// Timeout from the lookup of the name until the connection is established. Default: 10 s.
    pub connect: Duration,
    /// Timeout of the TLS handshake after that. Default: 10 s.
    pub tls: Duration,
    /// Timeout after that until the response's headers are complete, including sending the body. Default: 30 s.
    pub first_byte: Duration,
    /// Timeout between two pieces of the response's body. Default: 30 s.
    pub between_bytes: Duration,
}

/// A request that a rule allows. The addresses of its host must still pass [`HttpGrant::admit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    request: ParsedRequest,
}

/// The class of a host's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// At least one address is on the public internet.
    Public,
    /// The operator named all addresses.
    Named,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            requests: 32,
            bytes_out: 1 << 20,
            bytes_in: 10 << 20,
            in_flight: 8,
            connect: Duration::from_secs(10),
            tls: Duration::from_secs(10),
            first_byte: Duration::from_secs(30),
            between_bytes: Duration::from_secs(30),
        }
    }
}

impl HttpLimits {
    /// Returns the name of a limit that is zero, so that no request could succeed.
    fn find_zero(&self) -> Option<&'static str> {
        let limits = [
            ("requests", self.requests == 0),
            ("bytes_out", self.bytes_out == 0),
            ("bytes_in", self.bytes_in == 0),
            ("in_flight", self.in_flight == 0),
            ("connect", self.connect.is_zero()),
            ("tls", self.tls.is_zero()),
            ("first_byte", self.first_byte.is_zero()),
            ("between_bytes", self.between_bytes.is_zero()),
        ];
        limits.into_iter().find_map(|(name, zero)| zero.then_some(name))
    }
}

impl HttpGrant {
    /// Creates a grant of requests that match one of the rules, to public addresses and to those in `private`.
    ///
    /// # Errors
    /// If there are no rules, a limit is zero, a private network contains every address, or a rule can never match.
    pub fn new(rules: Vec<HttpRule>, private: Vec<IpNet>, limits: HttpLimits) -> Result<Self, GrantError> {
        if rules.is_empty() {
            let message = "a grant of requests needs at least one rule; add a rule, or leave the grant out";
            return Err(GrantError::new(message));
        }
        if let Some(zero) = limits.find_zero() {
            return Err(GrantError::new(format!(
                "the limit `{zero}` of requests is zero, so no request could succeed; leave it out for the default"
            )));
        }
        let grant = Self { rules, private: NamedNetworks::new(private)?, limits };
        for (rule, address) in grant.rules.iter().filter_map(|rule| Some((rule, rule.target().address()?))) {
            grant.private.check_rule(rule, address)?;
        }
        Ok(grant)
    }

    /// Returns the limits on the network use of one call.
    #[must_use]
    pub const fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    /// Returns whether a rule allows requests to `https` addresses.
    #[must_use]
    pub fn allows_https(&self) -> bool {
        self.rules.iter().any(|rule| rule.target().scheme() == Scheme::Https)
    }

    /// Returns the rules.
    #[must_use]
    pub fn rules(&self) -> &[HttpRule] {
        &self.rules
    }

    /// Returns the private networks that the operator named.
    #[must_use]
    pub fn private(&self) -> &[IpNet] {
        self.private.as_slice()
    }

    /// Checks the resolved addresses of a request's host. All of them must be allowed, because a name server could
    /// return one address for the check and another one for the connection.
    ///
    /// # Errors
    /// If one is not on the public internet and was not named by the operator.
    pub fn admit(&self, permit: &Permit, addresses: &[IpAddr]) -> Result<Reach, Refusal> {
        let mut named = !addresses.is_empty();
        for address in addresses {
            named &= self.private.contains(*address);
            self.private.check(*address).map_err(|what| refuse_address(permit, *address, &what.to_string()))?;
        }
        Ok(if named { Reach::Named } else { Reach::Public })
    }

    /// Explains why no rule allows a request, by the rule that comes closest.
    fn explain(&self, request: &ParsedRequest) -> String {
        let of_host: Vec<_> = self.rules.iter().filter(|rule| rule.target().is_host(&request.host)).collect();
        if of_host.is_empty() {
            return "no rule of this tool allows that host".to_owned();
        }
        let matches =
            |rule: &&&HttpRule| rule.target().matches(request.scheme, &request.host, request.port, request.url.path());
        if let Some(rule) = of_host.iter().find(matches) {
            return format!("its rule allows only {}", rule.methods());
        }
        let same_origin =
            |rule: &&HttpRule| rule.target().scheme() == request.scheme && rule.target().port() == request.port;
        if of_host.iter().any(same_origin) {
            "no rule of this tool allows that path of the host".to_owned()
        } else {
            "the rules for that host name another scheme or port".to_owned()
        }
    }
}

/// Decides whether a request is allowed. A `grant` of `None` allows none.
///
/// # Errors
/// If the request is invalid or ambiguous, or no rule allows it.
pub fn decide(grant: Option<&HttpGrant>, method: &str, address: &str) -> Result<Permit, Refusal> {
    let request = ParsedRequest::parse(method, address).map_err(|error| Refusal {
        power: Power::Http,
        tried: describe_unparsed(method, address),
        because: error.to_string(),
        allow: None,
    })?;
    let allows = |rule: &HttpRule| {
        rule.allows_method(method)
            && rule.target().matches(request.scheme, &request.host, request.port, request.url.path())
    };
    let because = match grant {
        Some(grant) if grant.rules.iter().any(allows) => return Ok(Permit { request }),
        Some(grant) => grant.explain(&request),
        None => "this tool was granted no requests".to_owned(),
    };
    let allow = Some(format!("http = [\"{method} {}/**\"]", request.origin()));
    Err(Refusal { power: Power::Http, tried: request.describe(), because, allow })
}

fn refuse_address(permit: &Permit, address: IpAddr, what: &str) -> Refusal {
    let because = match permit.request.host {
        Host::Domain(_) => format!("its host is at {address}, {what}"),
        Host::Ipv4(_) | Host::Ipv6(_) => format!("{address} is {what}"),
    };
    let allow = Some(format!("private_addresses = [\"{}\"]", IpNet::from(address)));
    Refusal { power: Power::Http, tried: permit.request.describe(), because, allow }
}

impl Permit {
    /// Returns the method, in upper case.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.request.method
    }

    /// Returns the URL, as it was compared with the rules and as it must be sent.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.request.url
    }

    /// Returns the host: a name in lower case without a trailing dot, or an address.
    #[must_use]
    pub const fn host(&self) -> &Host<String> {
        &self.request.host
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.request.port
    }

    /// Returns the scheme.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.request.scheme
    }

    /// Returns `host[:port]`, for the `host` header and for display.
    #[must_use]
    pub fn authority(&self) -> String {
        let request = &self.request;
        if request.port == request.scheme.default_port() {
            request.host.to_string()
        } else {
            format!("{}:{}", request.host, request.port)
        }
    }

    /// Returns whether the request is within a target.
    #[must_use]
    pub fn is_within(&self, target: &HttpTarget) -> bool {
        let request = &self.request;
        target.matches(request.scheme, &request.host, request.port, request.url.path())
    }
}
