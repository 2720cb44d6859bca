//! Targets of HTTP requests: scheme, host, port and path, written as one address.

use core::net::IpAddr;
use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

use super::path::{PathPattern, is_ambiguous};

/// The scheme of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP without encryption.
    Http,
    /// HTTP over TLS, with a certificate for the requested host.
    Https,
}

impl Scheme {
    /// Returns the name in an address.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the port of an address without one.
    #[must_use]
    pub const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            _ if text.eq_ignore_ascii_case("http") => Some(Self::Http),
            _ if text.eq_ignore_ascii_case("https") => Some(Self::Https),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum HostPattern {
    /// One name, in lower case, in its DNS form (Punycode), without a trailing dot.
    Name(String),
    /// All names below this one, at any depth, without the name itself.
    Below(String),
    /// One address.
    Address(IpAddr),
}

/// The scheme, host, port and path that HTTP requests may go to.
///
/// Written as `scheme://host[:port]/path`:
///
/// - host: one name, one address, or `*.example.com`: all names below `example.com`, at any depth, but not
///   `example.com` itself
/// - path: one path, or `/v1/**`: `/v1` and everything below it
///
/// Queries are ignored. Names are compared in lower case in their DNS form, ports as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpTarget {
    scheme: Scheme,
    host: HostPattern,
    port: u16,
    path: PathPattern,
}

/// Errors of an invalid target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpTargetError {
    /// The scheme is missing or unknown.
    #[error("it must start with `https://` or `http://`")]
    Scheme,
    /// The host is missing.
    #[error("there is no host between `//` and the path")]
    NoHost,
    /// The target would match every host.
    #[error("`*` would allow every host; name one, such as `api.example.com`, or use `*.example.com`")]
    EveryHost,
    /// A star is not at the beginning of the host, or not followed by a name of two parts or more.
    #[error(
        "a star in a host is allowed only as `*.` at its start, before a name with two or more parts: `*.example.com`"
    )]
    Wildcard,
    /// The host is not in its canonical form.
    #[error("the host `{given}` means `{meant}`; write `{meant}` instead")]
    NonCanonicalHost {
        /// The host as it was written.
        given: String,
        /// The canonical form of the host.
        meant: String,
    },
    /// The port is invalid.
    #[error("expected a port from 1 to 65535")]
    Port,
    /// The target contains a user name or a password.
    #[error("a rule cannot have a user or password before `@`; grant a secret instead")]
    UserInfo,
    /// The target contains a query.
    #[error("a rule has no query: remove everything from `?` on; any query is allowed for an allowed path")]
    Query,
    /// The target contains a fragment.
    #[error("a rule has no fragment: remove everything from `#` on")]
    Fragment,
    /// The path is missing.
    #[error(
        "it must end with a path: `/**` for all paths of the host, `/v1/**` for `/v1` and all paths below it, `/v1` \
         for this path alone"
    )]
    NoPath,
    /// The path is not in its canonical form.
    #[error("a star is allowed only as `/**` at the end of the path, and `.`, `..` and backslashes are not allowed")]
    Path,
    /// The URL is invalid.
    #[error("invalid URL: {0}")]
    InvalidUrl(String),
}

impl HttpTarget {
    /// Returns whether an address is within the target. `host` and `path` are as returned by [`url::Url`], with the
    /// trailing dot of a name removed.
    pub(super) fn matches(&self, scheme: Scheme, host: &Host<String>, port: u16, path: &str) -> bool {
        self.scheme == scheme && self.port == port && self.is_host(host) && self.path.matches(path)
    }

    /// Returns whether some address is within both targets. `other` must be one host.
    pub(in crate::policy::permission) fn overlaps(&self, other: &Self) -> bool {
        let same_host = match &other.host {
            HostPattern::Name(name) | HostPattern::Below(name) => self.is_host(&Host::Domain(name.clone())),
            HostPattern::Address(IpAddr::V4(address)) => self.is_host(&Host::Ipv4(*address)),
            HostPattern::Address(IpAddr::V6(address)) => self.is_host(&Host::Ipv6(*address)),
        };
        same_host && self.scheme == other.scheme && self.port == other.port && self.path.overlaps(&other.path)
    }

    /// Returns whether the target includes a host, on any port and path.
    pub(super) fn is_host(&self, host: &Host<String>) -> bool {
        match (&self.host, host) {
            (HostPattern::Name(name), Host::Domain(host)) => name == host,
            (HostPattern::Below(name), Host::Domain(host)) => host
                .strip_suffix(name.as_str())
                .and_then(|rest| rest.strip_suffix('.'))
                .is_some_and(|labels| !labels.split('.').any(str::is_empty)),
            (HostPattern::Address(IpAddr::V4(address)), Host::Ipv4(host)) => address == host,
            (HostPattern::Address(IpAddr::V6(address)), Host::Ipv6(host)) => address == host,
            _ => false,
        }
    }

    /// Returns the scheme.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the address, if the host is one.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        match self.host {
            HostPattern::Address(address) => Some(address),
            HostPattern::Name(_) | HostPattern::Below(_) => None,
        }
    }

    /// Returns whether the target is one host only.
    #[must_use]
    pub const fn is_one_host(&self) -> bool {
        !matches!(self.host, HostPattern::Below(_))
    }
}

impl FromStr for HttpTarget {
    type Err = HttpTargetError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = text.split_once("://").ok_or(HttpTargetError::Scheme)?;
        let scheme = Scheme::parse(scheme).ok_or(HttpTargetError::Scheme)?;
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
        check_parts(authority, tail)?;
        let (below, authority) = match authority.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, authority),
        };
        if authority.contains('*') {
            return Err(if authority.starts_with('*') {
                HttpTargetError::EveryHost
            } else {
                HttpTargetError::Wildcard
            });
        }
        let (path, everything_below) = match tail.strip_suffix("/**") {
            Some(prefix) => (prefix, true),
            None => (tail, false),
        };
        if path.contains(['*', '\\']) || is_ambiguous(path) {
            return Err(HttpTargetError::Path);
        }
        let url = Url::parse(&format!("{}://{authority}{path}", scheme.as_str())).map_err(|error| match error {
            url::ParseError::InvalidPort => HttpTargetError::Port,
            url::ParseError::EmptyHost => HttpTargetError::NoHost,
            other => HttpTargetError::InvalidUrl(other.to_string()),
        })?;
        let port = url.port().unwrap_or(scheme.default_port());
        if port == 0 {
            return Err(HttpTargetError::Port);
        }
        let host = parse_host(&url, below, authority)?;
        let path = if everything_below {
            PathPattern::Below(url.path().trim_end_matches('/').to_owned())
        } else {
            PathPattern::Exact(url.path().to_owned())
        };
        Ok(Self { scheme, host, port, path })
    }
}

/// Checks the parts before parsing, which would lose the information.
fn check_parts(authority: &str, tail: &str) -> Result<(), HttpTargetError> {
    match tail {
        _ if authority.contains('@') => Err(HttpTargetError::UserInfo),
        _ if authority.is_empty() || authority.starts_with(':') => Err(HttpTargetError::NoHost),
        _ if tail.contains('#') => Err(HttpTargetError::Fragment),
        _ if tail.contains('?') => Err(HttpTargetError::Query),
        "" => Err(HttpTargetError::NoPath),
        _ => Ok(()),
    }
}

/// Returns the host, if it is in its canonical form.
fn parse_host(url: &Url, below: bool, authority: &str) -> Result<HostPattern, HttpTargetError> {
    let port_at = authority.rfind(':').filter(|at| !authority.get(*at..).is_some_and(|rest| rest.contains(']')));
    let given = authority.get(..port_at.unwrap_or(authority.len())).unwrap_or_default();
    let host = url.host().ok_or(HttpTargetError::NoHost)?;
    let meant = host.to_string();
    let meant = meant.strip_suffix('.').unwrap_or(&meant);
    if given.strip_suffix('.').unwrap_or(given).to_ascii_lowercase() != meant {
        return Err(HttpTargetError::NonCanonicalHost { given: given.to_owned(), meant: meant.to_owned() });
    }
    match host {
        Host::Domain(_) if meant.split('.').any(str::is_empty) => Err(HttpTargetError::NoHost),
        Host::Domain(_) if below && !meant.contains('.') => Err(HttpTargetError::Wildcard),
        Host::Domain(_) if below => Ok(HostPattern::Below(meant.to_owned())),
        Host::Domain(_) => Ok(HostPattern::Name(meant.to_owned())),
        Host::Ipv4(_) | Host::Ipv6(_) if below => Err(HttpTargetError::Wildcard),
        Host::Ipv4(address) => Ok(HostPattern::Address(address.into())),
        Host::Ipv6(address) => Ok(HostPattern::Address(address.into())),
    }
}

impl fmt::Display for HttpTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.as_str())?;
        match &self.host {
            HostPattern::Name(name) => f.write_str(name)?,
            HostPattern::Below(name) => write!(f, "*.{name}")?,
            HostPattern::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            HostPattern::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
        }
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        write!(f, "{}", self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_canonical_form() {
        fn check(text: &str, expected: &str) {
            let target: HttpTarget = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(target.to_string(), expected);
            assert_eq!(expected.parse::<HttpTarget>().unwrap(), target, "{expected} is read again");
        }

        check("https://api.example.com/v1/**", "https://api.example.com/v1/**");
        check("HTTPS://API.Example.COM:443/**", "https://api.example.com/**");
        check("http://api.example.com:80/", "http://api.example.com/");
        check("https://api.example.com:8443/a", "https://api.example.com:8443/a");
        check("https://*.example.com/**", "https://*.example.com/**");
        check("https://example.com./**", "https://example.com/**");
        check("http://127.0.0.1:8080/**", "http://127.0.0.1:8080/**");
        check("http://[::1]:8080/**", "http://[::1]:8080/**");
        check("http://localhost/**", "http://localhost/**");
        check("https://xn--mnchen-3ya.de/**", "https://xn--mnchen-3ya.de/**");
        check("https://example.com/é/**", "https://example.com/%C3%A9/**");
    }

    #[test]
    fn rejects_invalid_targets() {
        fn non_canonical(given: &str, meant: &str) -> HttpTargetError {
            let given = given.to_owned();
            let meant = meant.to_owned();
            HttpTargetError::NonCanonicalHost { given, meant }
        }

        fn check(text: &str, expected: HttpTargetError) {
            assert_eq!(text.parse::<HttpTarget>().expect_err(text), expected, "{text}");
        }

        check("", HttpTargetError::Scheme);
        check("api.example.com/**", HttpTargetError::Scheme);
        check("ftp://example.com/**", HttpTargetError::Scheme);
        check("file:///etc/passwd", HttpTargetError::Scheme);
        check("https:///**", HttpTargetError::NoHost);
        check("https://:443/**", HttpTargetError::NoHost);
        check("https://a..b/**", HttpTargetError::NoHost);
        check("https://*/**", HttpTargetError::EveryHost);
        check("https://**/**", HttpTargetError::EveryHost);
        check("https://*.*.com/**", HttpTargetError::EveryHost);
        check("https://*example.com/**", HttpTargetError::EveryHost);
        check("https://*.com/**", HttpTargetError::Wildcard);
        check("https://a.*.com/**", HttpTargetError::Wildcard);
        check("https://*.127.0.0.1/**", HttpTargetError::Wildcard);
        check("https://example.com:0/**", HttpTargetError::Port);
        check("https://example.com:65536/**", HttpTargetError::Port);
        check("https://example.com:https/**", HttpTargetError::Port);
        check("https://me:pw@example.com/**", HttpTargetError::UserInfo);
        check("https://example.com/**#x", HttpTargetError::Fragment);
        check("https://example.com/a?b=c", HttpTargetError::Query);
        check("https://example.com", HttpTargetError::NoPath);
        check("https://example.com/*/a", HttpTargetError::Path);
        check("https://example.com/a*", HttpTargetError::Path);
        check("https://example.com/a/../b", HttpTargetError::Path);
        check("https://example.com/%2e%2e/**", HttpTargetError::Path);
        check("https://example.com/a\\b", HttpTargetError::Path);
        check("https://münchen.de/**", non_canonical("münchen.de", "xn--mnchen-3ya.de"));
        check("https://*.exаmple.com/**", non_canonical("exаmple.com", "xn--exmple-4nf.com"));
        check("http://0x7f.1/**", non_canonical("0x7f.1", "127.0.0.1"));
        check("http://2130706433/**", non_canonical("2130706433", "127.0.0.1"));
        check("http://[::ffff:127.0.0.1]/**", non_canonical("[::ffff:127.0.0.1]", "[::ffff:7f00:1]"));
        check("https://ex%61mple.com/**", non_canonical("ex%61mple.com", "example.com"));
        assert!(matches!("https://exa mple.com/**".parse::<HttpTarget>(), Err(HttpTargetError::InvalidUrl(_))));
    }

    #[test]
    fn star_matches_one_or_more_labels() {
        let target: HttpTarget = "https://*.example.com/**".parse().unwrap();
        for (host, expected) in [
            ("a.example.com", true),
            ("a.b.example.com", true),
            ("example.com", false),
            ("badexample.com", false),
            (".example.com", false),
            ("a..example.com", false),
            ("example.com.evil.org", false),
        ] {
            assert_eq!(target.is_host(&Host::Domain(host.to_owned())), expected, "{host}");
        }
    }
}
