//! Which requests a tool may make, and the decision about one of them.

use core::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::Serialize;
use url::{Host, Url};

use super::address::is_public;
use super::parsed_request::{ParsedRequest, tried_unread};
use super::rule::HttpRule;
use super::target::{HttpTarget, Scheme};
use crate::permission::refusal::{Power, Refusal};

/// Which requests a tool may make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpGrant {
    rules: Vec<HttpRule>,
    private: Vec<IpNet>,
    limits: HttpLimits,
}

/// How much of the network one call may use. Times are also cut to what is left of the call's deadline, and to what the
/// tool itself asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct HttpLimits {
    /// Requests that go out. 32.
    pub requests: u32,
    /// Bytes sent: addresses, headers and bodies of all requests. 1 MiB.
    pub bytes_out: u64,
    /// Bytes received: headers and bodies of all responses, as they come, so compressed ones count compressed. 10 MiB.
    pub bytes_in: u64,
    /// Requests that run at once; more wait for one of these to end. 8.
    pub in_flight: u32,
    /// From looking up the name until there is a connection. 10 s.
    pub connect: Duration,
    /// From there until it is encrypted. 10 s.
    pub tls: Duration,
    /// From there until the response's headers are complete, so sending the body counts. 30 s.
    pub first_byte: Duration,
    /// From one piece of the response's body to the next. 30 s.
    pub between_bytes: Duration,
}

/// A grant that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpGrantError {
    /// It allows nothing.
    #[error("a grant of requests without a rule allows none; add a rule, or leave the grant out")]
    NoRule,
    /// A limit allows nothing.
    #[error("the limit `{0}` of requests is zero, so that none could succeed; leave it out for the default")]
    Zero(&'static str),
    /// Every address there is.
    #[error("`{0}` would allow every private address there is; name the network, such as `127.0.0.1/32`")]
    EveryAddress(IpNet),
    /// A rule that can match nothing.
    #[error("the rule `{rule}` can never match: {address} is {what}; allow it by private_addresses = [\"{}\"]", IpNet::from(*address))]
    Unreachable {
        /// Which rule.
        rule: Box<HttpRule>,
        /// The address in it.
        address: IpAddr,
        /// What the address is.
        what: String,
    },
}

/// A request that may be made, if the addresses of its host turn out to be acceptable: see [`HttpGrant::admit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    asked: ParsedRequest,
}

/// What sort of addresses a host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All of them, or some, are on the public internet.
    Public,
    /// All of them are ones that the operator named.
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
    /// The name of a limit that is zero, so that no request could succeed.
    fn zero(&self) -> Option<&'static str> {
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
    /// Requests that match one of the rules, to public addresses and to those `private` ones that are named here.
    ///
    /// # Errors
    /// If nothing could match, or everything.
    pub fn new(rules: Vec<HttpRule>, private: Vec<IpNet>, limits: HttpLimits) -> Result<Self, HttpGrantError> {
        if rules.is_empty() {
            return Err(HttpGrantError::NoRule);
        }
        if let Some(zero) = limits.zero() {
            return Err(HttpGrantError::Zero(zero));
        }
        if let Some(every) = private.iter().find(|net| net.prefix_len() == 0) {
            return Err(HttpGrantError::EveryAddress(*every));
        }
        let grant = Self { rules, private, limits };
        let literals = grant.rules.iter().filter_map(|rule| Some((rule, rule.target().address()?)));
        for (rule, address) in literals {
            if let Err(what) = is_public(address)
                && !grant.is_named(address)
            {
                return Err(HttpGrantError::Unreachable {
                    rule: Box::new(rule.clone()),
                    address,
                    what: what.to_string(),
                });
            }
        }
        Ok(grant)
    }

    /// How much of the network one call may use.
    #[must_use]
    pub const fn limits(&self) -> &HttpLimits {
        &self.limits
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[HttpRule] {
        &self.rules
    }

    /// The private addresses that the operator named.
    #[must_use]
    pub fn private(&self) -> &[IpNet] {
        &self.private
    }

    /// Decides on the addresses that the host of a request turned out to have. Every one of them must be acceptable, for
    /// whoever answers for the name may give one to be looked at and another to be used.
    ///
    /// # Errors
    /// If one is not on the public internet and was not named by the operator.
    pub fn admit(&self, permit: &Permit, addresses: &[IpAddr]) -> Result<Reach, Refusal> {
        let mut named = !addresses.is_empty();
        for address in addresses {
            let is_named = self.is_named(*address);
            named &= is_named;
            match is_public(*address) {
                Err(what) if !is_named => return Err(not_public(permit, *address, &what.to_string())),
                _ => {}
            }
        }
        Ok(if named { Reach::Named } else { Reach::Public })
    }

    fn is_named(&self, address: IpAddr) -> bool {
        let canonical = address.to_canonical();
        self.private.iter().any(|net| net.contains(&address) || net.contains(&canonical))
    }

    /// Why no rule allows it: the reason of the rule that comes closest.
    fn because(&self, asked: &ParsedRequest) -> String {
        let of_host: Vec<_> = self.rules.iter().filter(|rule| rule.target().is_host(&asked.host)).collect();
        if of_host.is_empty() {
            return "no rule of this tool is about that host".to_owned();
        }
        let here = |rule: &&&HttpRule| rule.target().matches(asked.scheme, &asked.host, asked.port, asked.url.path());
        if let Some(rule) = of_host.iter().find(here) {
            return format!("the rule for it allows only {}", rule.methods());
        }
        let same_origin =
            |rule: &&HttpRule| rule.target().scheme() == asked.scheme && rule.target().port() == asked.port;
        match of_host.iter().any(same_origin) {
            true => "no rule of this tool allows that path of the host".to_owned(),
            false => "the rules for that host name another scheme or port".to_owned(),
        }
    }
}

/// Decides on one request. `None` is a tool that was granted none.
///
/// # Errors
/// If the request is not one that a server can read in one way only, or no rule allows it.
pub fn decide(grant: Option<&HttpGrant>, method: &str, address: &str) -> Result<Permit, Refusal> {
    let asked = ParsedRequest::parse(method, address).map_err(|error| Refusal {
        power: Power::Http,
        tried: tried_unread(method, address),
        because: error.to_string(),
        allow: None,
    })?;
    let allows = |rule: &HttpRule| {
        rule.allows_method(method) && rule.target().matches(asked.scheme, &asked.host, asked.port, asked.url.path())
    };
    let because = match grant {
        Some(grant) if grant.rules.iter().any(allows) => return Ok(Permit { asked }),
        Some(grant) => grant.because(&asked),
        None => "this tool was granted no requests".to_owned(),
    };
    let allow = Some(format!("http = [\"{method} {}/**\"]", asked.origin()));
    Err(Refusal { power: Power::Http, tried: asked.tried(), because, allow })
}

fn not_public(permit: &Permit, address: IpAddr, what: &str) -> Refusal {
    let because = match permit.asked.host {
        Host::Domain(_) => format!("its host is at {address}, {what}"),
        Host::Ipv4(_) | Host::Ipv6(_) => format!("{address} is {what}"),
    };
    let allow = Some(format!("private_addresses = [\"{}\"]", IpNet::from(address)));
    Refusal { power: Power::Http, tried: permit.asked.tried(), because, allow }
}

impl Permit {
    /// The method, in upper case.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.asked.method
    }

    /// The address, as it was compared and as it has to be sent.
    #[must_use]
    pub const fn url(&self) -> &Url {
        &self.asked.url
    }

    /// The host: a name in lower case without a dot at its end, or an address.
    #[must_use]
    pub const fn host(&self) -> &Host<String> {
        &self.asked.host
    }

    /// The port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.asked.port
    }

    /// Whether the connection is encrypted.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.asked.scheme
    }

    /// `host[:port]`, for the `host` header and for people.
    #[must_use]
    pub fn authority(&self) -> String {
        let asked = &self.asked;
        match asked.port == asked.scheme.default_port() {
            true => asked.host.to_string(),
            false => format!("{}:{}", asked.host, asked.port),
        }
    }

    /// Whether the request goes there.
    #[must_use]
    pub fn is_within(&self, target: &HttpTarget) -> bool {
        let asked = &self.asked;
        target.matches(asked.scheme, &asked.host, asked.port, asked.url.path())
    }
}
