//! Where requests may go: scheme, host, port and path, written as one address.

use core::net::IpAddr;
use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

use super::path::{PathPattern, is_ambiguous};

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Everybody on the way can read and change it.
    Http,
    /// TLS, with a certificate for the host that was asked for.
    Https,
}

impl Scheme {
    /// As it stands in an address.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// The port of an address that names none.
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

/// Which hosts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum HostPattern {
    /// This name, in lower case, encoded for the DNS, without a dot at its end.
    Name(String),
    /// Every name below this one, at any depth, and not the name itself.
    Below(String),
    /// This address.
    Address(IpAddr),
}

/// Where requests may go.
///
/// Written `scheme://host[:port]/path`. The host is one name, one address, or `*.example.com`: every name below
/// `example.com`, at any depth, but not `example.com` itself. The path is one path, or `/v1/**`: `/v1` and everything
/// below it. Queries are not looked at. Names are compared in lower case as the DNS knows them, ports as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpTarget {
    scheme: Scheme,
    host: HostPattern,
    port: u16,
    path: PathPattern,
}

/// What is wrong with an address in a grant, and what is expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpTargetError {
    /// It does not begin with a scheme that there is.
    #[error("it has to begin with `https://` or `http://`")]
    Scheme,
    /// There is no host.
    #[error("there is no host between `//` and the path")]
    NoHost,
    /// It would match every host.
    #[error("`*` would be every host there is; name one, such as `api.example.com`, or write `*.example.com`")]
    EveryHost,
    /// A star is not at the beginning, or stands before something that it cannot stand before.
    #[error("a star in a host is only for `*.` at its beginning, before a name of two parts or more: `*.example.com`")]
    Wildcard,
    /// The host is written in another way than it is compared in.
    #[error("the host `{given}` is really `{meant}`; write that, so that everybody sees which one it is")]
    Disguised {
        /// As it was written.
        given: String,
        /// What it stands for.
        meant: String,
    },
    /// The port is none.
    #[error("the port has to be a number from 1 to 65535")]
    Port,
    /// There is a user or a password in it.
    #[error("a name or a password before an `@` does not belong in a rule; grant a secret instead")]
    UserInfo,
    /// There is a query.
    #[error("a rule has no query: leave out the `?` and what follows, any query is allowed where the path is")]
    Query,
    /// There is a fragment.
    #[error("a rule has no fragment, and no server ever sees one: leave out the `#` and what follows")]
    Fragment,
    /// There is no path.
    #[error(
        "it has to end in a path: `/**` for every path of the host, `/v1/**` for `/v1` and all below, `/v1` for that one"
    )]
    NoPath,
    /// The path is not as it will be compared.
    #[error("the path may have a star only in `/**` at its end, and no `.`, `..` or backslash")]
    Path,
    /// It is no address at all.
    #[error("it is no web address: {0}")]
    NoUrl(String),
}

impl HttpTarget {
    /// Whether an address lies within. `host` and `path` are as [`url::Url`] gives them, without a dot at the end of a
    /// name.
    pub(super) fn matches(&self, scheme: Scheme, host: &Host<String>, port: u16, path: &str) -> bool {
        self.scheme == scheme && self.port == port && self.is_host(host) && self.path.matches(path)
    }

    /// Whether there is an address that lies within both. `other` is one host.
    pub(in crate::permission) fn meets(&self, other: &Self) -> bool {
        let same_host = match &other.host {
            HostPattern::Name(name) | HostPattern::Below(name) => self.is_host(&Host::Domain(name.clone())),
            HostPattern::Address(IpAddr::V4(address)) => self.is_host(&Host::Ipv4(*address)),
            HostPattern::Address(IpAddr::V6(address)) => self.is_host(&Host::Ipv6(*address)),
        };
        same_host && self.scheme == other.scheme && self.port == other.port && self.path.meets(&other.path)
    }

    /// Whether it is about this host, wherever on it.
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

    /// Whether connections are encrypted.
    #[must_use]
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Which port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The address, if the host is one.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        match self.host {
            HostPattern::Address(address) => Some(address),
            HostPattern::Name(_) | HostPattern::Below(_) => None,
        }
    }

    /// Whether it means one host only.
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
            other => HttpTargetError::NoUrl(other.to_string()),
        })?;
        let port = url.port().unwrap_or(scheme.default_port());
        if port == 0 {
            return Err(HttpTargetError::Port);
        }
        let host = host_pattern(&url, below, authority)?;
        let path = match everything_below {
            true => PathPattern::Below(url.path().trim_end_matches('/').to_owned()),
            false => PathPattern::Exact(url.path().to_owned()),
        };
        Ok(Self { scheme, host, port, path })
    }
}

/// What can be said before anything is parsed, and would be lost by parsing.
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

/// The host, if it was written in the one way that it has.
fn host_pattern(url: &Url, below: bool, authority: &str) -> Result<HostPattern, HttpTargetError> {
    let port_at = authority.rfind(':').filter(|at| !authority.get(*at..).is_some_and(|rest| rest.contains(']')));
    let given = authority.get(..port_at.unwrap_or(authority.len())).unwrap_or_default();
    let host = url.host().ok_or(HttpTargetError::NoHost)?;
    let meant = host.to_string();
    let meant = meant.strip_suffix('.').unwrap_or(&meant);
    if given.strip_suffix('.').unwrap_or(given).to_ascii_lowercase() != meant {
        return Err(HttpTargetError::Disguised { given: given.to_owned(), meant: meant.to_owned() });
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
    fn an_address_is_read_and_written_in_one_way() {
        let check = |text: &str, expected: &str| {
            let target: HttpTarget = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(target.to_string(), expected);
            assert_eq!(expected.parse::<HttpTarget>().unwrap(), target, "{expected} is read again");
        };
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
    fn what_is_wrong_with_an_address_is_said() {
        let check = |text: &str, expected: HttpTargetError| {
            assert_eq!(text.parse::<HttpTarget>().expect_err(text), expected, "{text}");
        };
        let disguised = |given: &str, meant: &str| {
            let (given, meant) = (given.to_owned(), meant.to_owned());
            HttpTargetError::Disguised { given, meant }
        };
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
        check("https://münchen.de/**", disguised("münchen.de", "xn--mnchen-3ya.de"));
        check("https://*.exаmple.com/**", disguised("exаmple.com", "xn--exmple-4nf.com"));
        check("http://0x7f.1/**", disguised("0x7f.1", "127.0.0.1"));
        check("http://2130706433/**", disguised("2130706433", "127.0.0.1"));
        check("http://[::ffff:127.0.0.1]/**", disguised("[::ffff:127.0.0.1]", "[::ffff:7f00:1]"));
        check("https://ex%61mple.com/**", disguised("ex%61mple.com", "example.com"));
        assert!(matches!("https://exa mple.com/**".parse::<HttpTarget>(), Err(HttpTargetError::NoUrl(_))));
    }

    #[test]
    fn a_star_is_one_label_or_more_and_never_none() {
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
