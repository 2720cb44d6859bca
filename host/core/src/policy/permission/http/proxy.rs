//! The grant of an ordinary program, whose requests pass a proxy: the proxy sees all of a plain request, but only the host
//! and the port of an encrypted one.

use core::net::IpAddr;

use ipnet::IpNet;

use super::grant::{HttpGrant, HttpLimits, Permit, Reach, decide};
use super::rule::HttpRule;
use super::target::Scheme;
use crate::call::{Power, Refusal};
use crate::policy::permission::GrantError;

/// The methods that `*` stands for.
const ALL_METHODS: &str = "GET,HEAD,POST,PUT,PATCH,DELETE,OPTIONS";

/// The requests that an ordinary program may make through a proxy.
///
/// A rule is one of [`HttpRule`]. Its methods may be `*`, for all of them. The method and the path of an encrypted request
/// are hidden, so that a rule for `https` must allow all of them: `* https://api.example.com/**`.
///
/// ```
/// use fumehood_core::policy::permission::http::ProxyGrant;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let grant = ProxyGrant::new(&["* https://api.example.com/**".to_owned()], Vec::new())?;
/// assert!(grant.decide_tunnel("api.example.com:443").is_ok());
/// let refused = grant.decide_tunnel("example.com:443").unwrap_err();
/// assert_eq!(refused.allow.as_deref(), Some("http = [\"* https://example.com/**\"]"));
/// assert!(ProxyGrant::new(&["GET https://api.example.com/**".to_owned()], Vec::new()).is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyGrant {
    requests: HttpGrant,
    /// The hosts to which a program may have a connection without inspection.
    tunnels: Option<HttpGrant>,
}

impl ProxyGrant {
    /// Creates a grant of these rules, to public addresses and to those in `private`.
    ///
    /// # Errors
    /// If a rule is invalid or promises more than can be enforced, or like [`HttpGrant::new`].
    pub fn new(rules: &[String], private: Vec<IpNet>) -> Result<Self, GrantError> {
        let mut requests = Vec::new();
        let mut tunnels = Vec::new();
        for text in rules {
            let (all_methods, rule) = parse_rule(text)?;
            let is_whole_host = all_methods && whole_host(&rule) == rule.target().to_string();
            if rule.target().scheme() == Scheme::Https && !is_whole_host {
                let allowed = whole_host(&rule);
                return Err(GrantError::new(format!(
                    "invalid rule `{text}`: the method and path of an encrypted request of a program cannot be seen; \
                     write `* {allowed}` to allow all of them"
                )));
            }
            if is_whole_host {
                tunnels.push(rule.clone());
            }
            requests.push(rule);
        }
        let grant = |rules| HttpGrant::new(rules, private.clone(), HttpLimits::default());
        let tunnels = if tunnels.is_empty() { None } else { Some(grant(tunnels)?) };
        Ok(Self { requests: grant(requests)?, tunnels })
    }

    /// Returns the limits on connecting.
    #[must_use]
    pub const fn limits(&self) -> &HttpLimits {
        self.requests.limits()
    }

    /// Decides whether a plain request is allowed.
    ///
    /// # Errors
    /// Like [`decide`].
    pub fn decide(&self, method: &str, address: &str) -> Result<Permit, Refusal> {
        decide(Some(&self.requests), method, address)
    }

    /// Decides whether a connection to `HOST:PORT` is allowed, whose content is not seen (`CONNECT`).
    ///
    /// # Errors
    /// If it is invalid, or no rule allows all requests to it.
    pub fn decide_tunnel(&self, authority: &str) -> Result<Permit, Refusal> {
        let tunnel = |scheme: &str| decide(self.tunnels.as_ref(), "GET", &format!("{scheme}://{authority}/"));
        let refused = match tunnel("https") {
            Ok(permit) => return Ok(permit),
            Err(refused) => refused,
        };
        tunnel("http").map_err(|_| {
            let host = authority.strip_suffix(":443").unwrap_or(authority);
            let allow = refused.allow.is_some().then(|| format!("http = [\"* https://{host}/**\"]"));
            let because = match &self.tunnels {
                Some(_) => refused.because,
                None => "no rule allows all requests to a host".to_owned(),
            };
            Refusal { power: Power::Http, tried: format!("connecting to {authority}"), because, allow }
        })
    }

    /// Checks the resolved addresses of a host. All of them must be allowed.
    ///
    /// # Errors
    /// Like [`HttpGrant::admit`].
    pub fn admit(&self, permit: &Permit, addresses: &[IpAddr]) -> Result<Reach, Refusal> {
        self.requests.admit(permit, addresses)
    }
}

/// Parses a rule whose methods may be `*`. Returns whether they are.
fn parse_rule(text: &str) -> Result<(bool, HttpRule), GrantError> {
    match text.trim_start().strip_prefix("* ") {
        Some(target) => Ok((true, format!("{ALL_METHODS} {target}").parse()?)),
        None => Ok((false, text.parse()?)),
    }
}

/// Returns the target that is all paths of the host of a rule.
fn whole_host(rule: &HttpRule) -> String {
    let target = rule.target().to_string();
    let scheme = target.find("://").map_or(0, |start| start + "://".len());
    let (scheme, rest) = target.split_at(scheme);
    let host = rest.split('/').next().unwrap_or_default();
    format!("{scheme}{host}/**")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(rules: &[&str]) -> Result<ProxyGrant, GrantError> {
        let rules: Vec<String> = rules.iter().map(|rule| (*rule).to_owned()).collect();
        ProxyGrant::new(&rules, Vec::new())
    }

    #[test]
    fn rules_for_encrypted_requests_allow_whole_hosts() {
        for rule in
            ["GET https://a.example/**", "https://a.example/**", "* https://a.example/v1/**", "* https://a.example/"]
        {
            let message = grant(&[rule]).unwrap_err().to_string();
            assert!(message.contains("write `* https://a.example/**`"), "{message}");
        }
        for rule in ["* https://a.example/**", "* https://*.a.example:8443/**", "GET http://a.example/v1/**"] {
            assert!(grant(&[rule]).is_ok(), "{rule}");
        }
        assert!(grant(&["* https://*/**"]).unwrap_err().to_string().contains("would allow every host"));
        assert!(grant(&[]).is_err());
    }

    #[test]
    fn tunnels_lead_to_whole_hosts_only() {
        let grant = grant(&["* https://a.example/**", "GET http://b.example/**", "* http://c.example:81/**"]).unwrap();
        for (authority, is_allowed) in [
            ("a.example:443", true),
            ("A.EXAMPLE:443", true),
            ("a.example:80", false),
            ("b.example:80", false),
            ("c.example:81", true),
            ("a.example.evil.example:443", false),
            ("user@a.example:443", false),
            ("a.example:443/path", true),
            ("169.254.169.254:80", false),
        ] {
            assert_eq!(grant.decide_tunnel(authority).is_ok(), is_allowed, "{authority}");
        }
        assert!(grant.decide("GET", "http://b.example/x").is_ok());
        assert!(grant.decide("POST", "http://b.example/x").is_err());
    }

    #[test]
    fn addresses_inside_are_refused() {
        let grant = grant(&["* https://a.example/**"]).unwrap();
        let permit = grant.decide_tunnel("a.example:443").unwrap();
        assert!(grant.admit(&permit, &["127.0.0.1".parse().unwrap()]).is_err());
        assert!(grant.admit(&permit, &["1.1.1.1".parse().unwrap()]).is_ok());
    }
}
