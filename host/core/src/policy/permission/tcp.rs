//! The grant of TCP connections, and the decisions about name lookups and connections.
//!
//! A tool connects to addresses, but rules name hosts. So the host looks up the names of rules only, checks every address
//! that it finds, and remembers for the rest of the call which name each of them was found for.

use core::net::{IpAddr, SocketAddr};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use serde::Serialize;
use url::Host;

use super::http::NamedNetworks;
use super::{GrantError, Power, Refusal};
use crate::call::quote;

/// The reason of a refusal without a rule for the host.
const NO_RULE: &str = "no rule of this tool allows that host";

/// A host and a port to which connections are allowed, such as `db.example.com:5432`.
///
/// The host is one name in its DNS form, or one address. Ports have no default.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TcpRule {
    host: Host<String>,
    port: u16,
}

/// The TCP connections that a tool may open.
///
/// ```
/// use fumehood_core::policy::permission::tcp::{TcpGrant, TcpLimits, decide_connection, decide_lookup};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let grant = TcpGrant::new(vec!["db.example.com:5432".parse()?], Vec::new(), TcpLimits::default())?;
/// assert!(decide_lookup(Some(&grant), "db.example.com").is_ok());
/// // The address of another port or another name is refused.
/// let address = "93.184.215.14:22".parse()?;
/// let refused = decide_connection(Some(&grant), address, &["db.example.com".to_owned()]).unwrap_err();
/// assert_eq!(refused.allow.as_deref(), Some("tcp = [\"db.example.com:22\"]"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpGrant {
    rules: Vec<TcpRule>,
    private: NamedNetworks,
    limits: TcpLimits,
}

/// Limits on the connections of one call. The deadline of the call limits their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct TcpLimits {
    /// Maximum number of connections that are opened, and of names that are looked up. Default: 8.
    pub connections: u32,
    /// Maximum bytes sent over all connections. Default: 1 MiB.
    pub bytes_out: u64,
    /// Maximum bytes received over all connections. Default: 10 MiB.
    pub bytes_in: u64,
    /// Timeout of a name lookup, and of establishing a connection. Default: 10 s.
    pub connect: Duration,
}

impl Default for TcpLimits {
    fn default() -> Self {
        Self { connections: 8, bytes_out: 1 << 20, bytes_in: 10 << 20, connect: Duration::from_secs(10) }
    }
}

impl TcpLimits {
    /// Returns the name of a limit that is zero, so that no connection could be used.
    fn find_zero(&self) -> Option<&'static str> {
        let limits = [
            ("connections", self.connections == 0),
            ("bytes_out", self.bytes_out == 0),
            ("bytes_in", self.bytes_in == 0),
            ("connect", self.connect.is_zero()),
        ];
        limits.into_iter().find_map(|(name, zero)| zero.then_some(name))
    }
}

impl TcpGrant {
    /// Creates a grant of connections that match one of the rules, to public addresses and to those in `private`.
    ///
    /// # Errors
    /// If there are no rules, a limit is zero, a private network contains every address, or a rule can never match.
    pub fn new(rules: Vec<TcpRule>, private: Vec<IpNet>, limits: TcpLimits) -> Result<Self, GrantError> {
        if rules.is_empty() {
            let message = "a grant of connections needs at least one rule; add a rule, or leave the grant out";
            return Err(GrantError::new(message));
        }
        if let Some(zero) = limits.find_zero() {
            return Err(GrantError::new(format!(
                "the limit `{zero}` of connections is zero, so none could be used; leave it out for the default"
            )));
        }
        let grant = Self { rules, private: NamedNetworks::new(private)?, limits };
        for (rule, address) in grant.rules.iter().filter_map(|rule| Some((rule, rule.address()?))) {
            grant.private.check_rule(rule, address)?;
        }
        Ok(grant)
    }

    /// Returns the rules.
    #[must_use]
    pub fn rules(&self) -> &[TcpRule] {
        &self.rules
    }

    /// Returns the private networks that the operator named.
    #[must_use]
    pub fn private(&self) -> &[IpNet] {
        self.private.as_slice()
    }

    /// Returns the limits on the connections of one call.
    #[must_use]
    pub const fn limits(&self) -> &TcpLimits {
        &self.limits
    }

    /// Checks the addresses of a name. All of them must be allowed, because the tool chooses one.
    ///
    /// # Errors
    /// If one is not on the public internet and was not named by the operator.
    pub fn admit(&self, name: &str, addresses: &[IpAddr]) -> Result<(), Refusal> {
        for address in addresses {
            self.private.check(*address).map_err(|what| {
                let allow = Some(format!("private_addresses = [\"{}\"]", IpNet::from(*address)));
                refuse_lookup(name, &format!("it is at {address}, {what}"), allow)
            })?;
        }
        Ok(())
    }
}

/// Decides whether a name may be looked up. Only names of rules are: a name server learns no other from a tool. The answer to an
/// address is the address.
///
/// # Errors
/// If no connection was granted, or the text is neither an address nor a name of a rule.
pub fn decide_lookup(grant: Option<&TcpGrant>, text: &str) -> Result<Host<String>, Refusal> {
    let Some(host) = parse_host(text) else { return Err(refuse_lookup(text, "it is not a name", None)) };
    let because = match (grant, &host) {
        (None, _) => "this tool was granted no connections",
        (Some(grant), Host::Domain(_)) if !grant.rules.iter().any(|rule| rule.host == host) => NO_RULE,
        (Some(_), _) => return Ok(host),
    };
    Err(refuse_lookup(text, because, Some(format!("tcp = [\"{host}:PORT\"]"))))
}

/// Parses a name or an address that a tool looks up. A name becomes lower case without a trailing dot. `None` if it is neither.
#[must_use]
pub fn parse_host(text: &str) -> Option<Host<String>> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => Some(Host::Ipv6(address)),
        _ => Host::parse(text.strip_suffix('.').unwrap_or(text)).ok(),
    }
}

/// Decides whether a connection to an address is allowed, and returns its rule. `names` are those for which
/// [`TcpGrant::admit`] admitted the address in the same call.
///
/// # Errors
/// If no rule allows it.
pub fn decide_connection<'g>(
    grant: Option<&'g TcpGrant>,
    remote: SocketAddr,
    names: &[String],
) -> Result<&'g TcpRule, Refusal> {
    let Some(grant) = grant else { return Err(refuse(remote, names, "this tool was granted no connections")) };
    let address = remote.ip().to_canonical();
    let is_host = |rule: &&TcpRule| match &rule.host {
        Host::Domain(name) => names.contains(name),
        Host::Ipv4(_) | Host::Ipv6(_) => rule.address() == Some(address),
    };
    let mut of_host = grant.rules.iter().filter(is_host).peekable();
    let because = match of_host.peek() {
        Some(_) => "the rules for that host name another port",
        None => NO_RULE,
    };
    of_host.find(|rule| rule.port == remote.port()).ok_or_else(|| refuse(remote, names, because))
}

fn refuse_lookup(text: &str, because: &str, allow: Option<String>) -> Refusal {
    let tried = format!("looking up the name {}", quote(text));
    Refusal { power: Power::Tcp, tried, because: because.to_owned(), allow }
}

fn refuse(remote: SocketAddr, names: &[String], because: &str) -> Refusal {
    let remote = SocketAddr::new(remote.ip().to_canonical(), remote.port());
    let port = remote.port();
    let target = names.first().map_or_else(|| remote.to_string(), |name| format!("{name}:{port}"));
    let tried = format!("connecting to {target}");
    let allow = Some(format!("tcp = [\"{target}\"]"));
    Refusal { power: Power::Tcp, tried, because: because.to_owned(), allow }
}

impl TcpRule {
    /// Returns the host: a name in lower case, or an address.
    #[must_use]
    pub const fn host(&self) -> &Host<String> {
        &self.host
    }

    /// Returns the port.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    fn address(&self) -> Option<IpAddr> {
        match self.host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address).to_canonical()),
        }
    }
}

impl FromStr for TcpRule {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid =
            |problem: &str| GrantError::new(format!("invalid rule `{}` for connections: {problem}", quote(text)));
        let Some((given, port)) = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()) else {
            return Err(invalid("expected a host and a port, such as `db.example.com:5432`"));
        };
        if given.contains("//") || port.contains('/') {
            return Err(invalid(
                "it has no scheme and no path; expected a host and a port, such as `db.example.com:5432`",
            ));
        }
        if given.contains('*') {
            return Err(invalid("a star is not allowed; add a rule for each host"));
        }
        let port = match port.parse() {
            Ok(port @ 1..) if port.to_string() == text.get(given.len() + 1..).unwrap_or_default() => port,
            _ => return Err(invalid("expected a port from 1 to 65535")),
        };
        let host = Host::parse(given).map_err(|error| invalid(&error.to_string()))?;
        let meant = host.to_string();
        let meant = meant.strip_suffix('.').unwrap_or(&meant);
        if meant != given {
            return Err(invalid(&format!("the host `{given}` means `{meant}`; write `{meant}` instead")));
        }
        Ok(Self { host, port })
    }
}

impl fmt::Display for TcpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn grant(rules: &[&str], private: &[&str]) -> Result<TcpGrant, GrantError> {
        let rules = rules.iter().map(|rule| rule.parse()).collect::<Result<_, _>>()?;
        TcpGrant::new(rules, private.iter().map(|net| net.parse().unwrap()).collect(), TcpLimits::default())
    }

    #[test]
    fn rules_have_one_spelling() {
        for text in ["db.example.com:5432", "localhost:1", "93.184.215.14:65535", "[2606:4700::1111]:53"] {
            assert_eq!(text.parse::<TcpRule>().unwrap().to_string(), text);
        }
        fn check(text: &str, expected: Expect) {
            expected.assert_eq(&text.parse::<TcpRule>().expect_err(text).to_string());
        }
        for text in ["a.example:0", "a.example:65536", "a.example:+5", "a.example:05", "a.example:", "::1", ":80"] {
            assert!(text.parse::<TcpRule>().is_err(), "{text}");
        }
        check(
            "db.example.com",
            expect![
                "invalid rule `db.example.com` for connections: expected a host and a port, such as `db.example.com:5432`"
            ],
        );
        check(
            "*.example.com:5432",
            expect![
                "invalid rule `*.example.com:5432` for connections: a star is not allowed; add a rule for each host"
            ],
        );
        check(
            "tcp://a.example:5432",
            expect![
                "invalid rule `tcp://a.example:5432` for connections: it has no scheme and no path; expected a host and a port, such as `db.example.com:5432`"
            ],
        );
        check(
            "127.1:80",
            expect![
                "invalid rule `127.1:80` for connections: the host `127.1` means `127.0.0.1`; write `127.0.0.1` instead"
            ],
        );
        check(
            "DB.example.com.:80",
            expect![
                "invalid rule `DB.example.com.:80` for connections: the host `DB.example.com.` means `db.example.com`; write `db.example.com` instead"
            ],
        );
        check("a.example:0", expect!["invalid rule `a.example:0` for connections: expected a port from 1 to 65535"]);
    }

    #[test]
    fn grants_that_could_not_be_used_are_refused() {
        fn check(found: Result<TcpGrant, GrantError>, expected: &str) {
            let message = found.unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
        }

        check(grant(&[], &[]), "at least one rule");
        check(grant(&["127.0.0.1:80"], &[]), "can never match: 127.0.0.1 is a loopback address");
        check(grant(&["[::ffff:a00:1]:80"], &[]), "10.0.0.1 is a private address");
        check(grant(&["a.example:80"], &["0.0.0.0/0"]), "every private address");
        let limits = TcpLimits { connections: 0, ..TcpLimits::default() };
        check(TcpGrant::new(vec!["a.example:80".parse().unwrap()], Vec::new(), limits), "the limit `connections`");
        assert!(grant(&["127.0.0.1:80", "[::1]:80"], &["127.0.0.1/32", "::1/128"]).is_ok());
    }

    #[test]
    fn only_names_of_rules_are_looked_up() {
        let grant = grant(&["db.example.com:5432", "93.184.215.14:80"], &[]).unwrap();
        for name in ["db.example.com", "DB.EXAMPLE.com."] {
            assert_eq!(decide_lookup(Some(&grant), name).unwrap(), Host::Domain("db.example.com".to_owned()), "{name}");
        }
        for address in ["10.0.0.1", "::1", "[::1]"] {
            assert!(!matches!(decide_lookup(Some(&grant), address).unwrap(), Host::Domain(_)), "{address}");
        }
        for name in
            ["x.db.example.com", "example.com", "73656372.evil.example", "localhost", "db.example.com.evil.example"]
        {
            let refusal = decide_lookup(Some(&grant), name).unwrap_err();
            assert_eq!(refusal.allow, Some(format!("tcp = [\"{name}:PORT\"]")));
        }
        for text in ["", "a b", "db.example.com\0", "\u{1b}[2J"] {
            assert_eq!(decide_lookup(Some(&grant), text).unwrap_err().because, "it is not a name", "{text:?}");
        }
        assert!(decide_lookup(None, "db.example.com").is_err() && decide_lookup(None, "127.0.0.1").is_err());
    }

    #[test]
    fn connections_go_to_a_rules_host_and_port() {
        let grant = grant(&["db.example.com:5432", "93.184.215.14:80"], &[]).unwrap();
        let decide = |remote: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let decided = decide_connection(Some(&grant), remote.parse().unwrap(), &names);
            decided.map(ToString::to_string).map_err(|refusal| refusal.to_string())
        };
        assert_eq!(decide("1.1.1.1:5432", &["db.example.com"]).unwrap(), "db.example.com:5432");
        assert_eq!(decide("93.184.215.14:80", &[]).unwrap(), "93.184.215.14:80");
        assert_eq!(decide("[::ffff:93.184.215.14]:80", &[]).unwrap(), "93.184.215.14:80");
        expect![[r#"tcp: connecting to db.example.com:22 was refused, because the rules for that host name another port; to allow it: tcp = ["db.example.com:22"]"#]]
            .assert_eq(&decide("1.1.1.1:22", &["db.example.com"]).unwrap_err());
        expect![[r#"tcp: connecting to 1.1.1.1:5432 was refused, because no rule of this tool allows that host; to allow it: tcp = ["1.1.1.1:5432"]"#]]
            .assert_eq(&decide("1.1.1.1:5432", &[]).unwrap_err());
        assert!(decide("93.184.215.14:81", &[]).is_err());
        let none = decide_connection(None, "10.0.0.1:1".parse().unwrap(), &[]).unwrap_err();
        assert_eq!(none.allow.as_deref(), Some("tcp = [\"10.0.0.1:1\"]"));
    }

    #[test]
    fn names_at_inner_addresses_are_refused_unless_the_address_is_named() {
        let closed = grant(&["db.example.com:5432"], &[]).unwrap();
        let open = grant(&["db.example.com:5432"], &["10.0.0.0/8"]).unwrap();
        let inner: [IpAddr; 2] = ["1.1.1.1", "10.0.0.9"].map(|address| address.parse().unwrap());
        let refusal = closed.admit("db.example.com", &inner).unwrap_err();
        assert_eq!(refusal.allow.as_deref(), Some("private_addresses = [\"10.0.0.9/32\"]"));
        assert!(refusal.because.contains("a private address"), "{refusal}");
        assert!(open.admit("db.example.com", &inner).is_ok());
        assert!(open.admit("db.example.com", &["127.0.0.1".parse().unwrap()]).is_err());
    }
}
