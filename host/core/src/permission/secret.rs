//! Secrets that the host puts into requests, so that a tool can use them and never holds them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use url::form_urlencoded;

use super::http::{HttpTarget, HttpTargetError};

/// Shorter values cannot be told from ordinary text when they are looked for in what a tool says.
const SHORTEST: usize = 4;
/// Longer ones are no secrets of any service.
const LONGEST: usize = 4 << 10;
/// The longest name of a secret, a header or a parameter.
const NAME_BYTES: usize = 64;
/// Stands for the value in a template.
const PLACE: &str = "{secret}";
/// Headers that decide where a request goes or where it ends.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The value of a secret. It is never shown and never written: `Debug` hides it, and there is no `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Arc<str>);

/// One secret: its value, where it may go, and how it goes there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    name: String,
    value: SecretValue,
    target: HttpTarget,
    into: Injection,
}

/// How a secret goes into a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Injection {
    /// As a header.
    Header {
        /// Its name, in lower case.
        name: String,
        /// Its value, around the secret.
        template: Template,
    },
    /// As a parameter of the address. Servers log addresses and repeat them in redirects: prefer a header.
    Query {
        /// Its name.
        name: String,
    },
}

/// A header's value with a place for the secret, such as `Bearer {secret}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    before: String,
    after: String,
}

/// Something about a secret is not acceptable. The value is never part of this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The name is none.
    #[error("`{0}` is no name for a secret; use 1 to {NAME_BYTES} letters, digits, `_` and `-`")]
    Name(String),
    /// The value is too short.
    #[error("the value of a secret has at least {SHORTEST} characters, or it could not be told from ordinary text")]
    Short,
    /// The value is too long.
    #[error("the value of a secret has at most {LONGEST} characters; did a whole file get in?")]
    Long,
    /// The value could not stand in a header.
    #[error("the value of a secret is of visible ASCII characters, without line breaks, and spaces only inside")]
    Characters,
    /// Where it may go is not acceptable.
    #[error("`{target}` says not where a secret may go: {problem}")]
    Target {
        /// As it was given.
        target: String,
        /// What is wrong with it.
        problem: HttpTargetError,
    },
    /// Where it may go is too many hosts.
    #[error("`{0}` is many hosts, and a secret is for one; name it without the star")]
    ManyHosts(HttpTarget),
    /// The header is none, or one that the host needs for itself.
    #[error("`{0}` is no header that a secret could go into; such a one is `authorization` or `x-api-key`")]
    Header(String),
    /// The parameter is none.
    #[error("`{0}` is no name of a parameter; use 1 to {NAME_BYTES} letters, digits, `_`, `.` and `-`")]
    Parameter(String),
    /// The template has no place, or several, for the value.
    #[error("`{0}` is no template for a header; write {PLACE} once where the value goes, such as `Bearer {PLACE}`")]
    Template(String),
}

/// A secret cannot be added to a grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretGrantError {
    /// Two of one name.
    #[error("there are two secrets named `{0}`; give one of them another name")]
    Taken(String),
    /// It could never be used.
    #[error("the secret `{0}` could never be used, because the tool was granted no requests; grant them first")]
    NoRequests(String),
    /// No request that it is for may be made.
    #[error(
        "the secret `{name}` could never be used, because no rule allows a request to {target}; grant one, such as http = \
         [\"GET {target}\"], or correct what the secret is for"
    )]
    NoRule {
        /// Which secret.
        name: String,
        /// What it is for.
        target: Box<HttpTarget>,
    },
    /// It would not be encrypted on its way.
    #[error(
        "the secret `{0}` would cross the network for all to read; give it an `https` address (`http` is only for addresses named in private_addresses)"
    )]
    Readable(String),
}

impl SecretValue {
    /// Takes a value: 4 to 4,096 visible ASCII characters, with spaces only inside.
    ///
    /// # Errors
    /// If it is something else, without repeating it.
    pub fn new(value: impl Into<Arc<str>>) -> Result<Self, SecretError> {
        let value = value.into();
        let outer = |byte: Option<&u8>| byte.is_some_and(|byte| *byte == b' ');
        match value.as_bytes() {
            bytes if bytes.len() < SHORTEST => Err(SecretError::Short),
            bytes if bytes.len() > LONGEST => Err(SecretError::Long),
            bytes if bytes.iter().any(|byte| !matches!(byte, b' '..=b'~')) => Err(SecretError::Characters),
            bytes if outer(bytes.first()) || outer(bytes.last()) => Err(SecretError::Characters),
            _ => Ok(Self(value)),
        }
    }

    /// The value itself, for the one place that puts it into a request and the one that looks for it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretValue(…)")
    }
}

impl Secret {
    /// A secret that goes into requests to `target`, whatever their method: an address such as
    /// `https://api.example.com/v1/**`, of one host.
    ///
    /// # Errors
    /// If the name or the target is not acceptable.
    pub fn new(name: &str, value: SecretValue, target: &str, into: Injection) -> Result<Self, SecretError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !is_of(name, is_name) {
            return Err(SecretError::Name(name.to_owned()));
        }
        let target: HttpTarget =
            target.parse().map_err(|problem| SecretError::Target { target: target.to_owned(), problem })?;
        if !target.is_one_host() {
            return Err(SecretError::ManyHosts(target));
        }
        Ok(Self { name: name.to_owned(), value, target, into })
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its value.
    #[must_use]
    pub const fn value(&self) -> &SecretValue {
        &self.value
    }

    /// Where it may go.
    #[must_use]
    pub const fn target(&self) -> &HttpTarget {
        &self.target
    }

    /// How it goes there.
    #[must_use]
    pub const fn into(&self) -> &Injection {
        &self.into
    }

    /// What is written in its place wherever the value would be seen.
    #[must_use]
    pub fn placeholder(&self) -> String {
        format!("[secret {}]", self.name)
    }
}

impl Injection {
    /// Into a header.
    ///
    /// # Errors
    /// If there can be no such header, or the host needs it for itself, or the template has not exactly one place.
    pub fn header(name: &str, template: &str) -> Result<Self, SecretError> {
        let name = name.to_ascii_lowercase();
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !is_of(&name, is_token) || FRAMING.contains(&name.as_str()) {
            return Err(SecretError::Header(name));
        }
        Ok(Self::Header { name, template: template.parse()? })
    }

    /// Into a parameter of the address.
    ///
    /// # Errors
    /// If that is no name of a parameter.
    pub fn query(name: &str) -> Result<Self, SecretError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if !is_of(name, is_name) {
            return Err(SecretError::Parameter(name.to_owned()));
        }
        Ok(Self::Query { name: name.to_owned() })
    }
}

fn is_of(name: &str, allowed: impl Fn(u8) -> bool) -> bool {
    (1..=NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed)
}

impl Template {
    /// The value of the header with the secret in it.
    #[must_use]
    pub fn fill(&self, value: &SecretValue) -> String {
        format!("{}{}{}", self.before, value.expose(), self.after)
    }
}

impl FromStr for Template {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = || SecretError::Template(text.to_owned());
        let (before, after) = text.split_once(PLACE).ok_or_else(refused)?;
        let plain = |text: &str| text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if after.contains(PLACE) || !plain(text) || text.trim() != text {
            return Err(refused());
        }
        Ok(Self { before: before.to_owned(), after: after.to_owned() })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{PLACE}{}", self.before, self.after)
    }
}

/// A query without the parameters of these names, and with a secret for each of those. What else is in it stays as it
/// is, byte for byte.
#[must_use]
pub fn inject_query<'a>(
    query: Option<&str>,
    without: impl Fn(&str) -> bool,
    secrets: impl IntoIterator<Item = (&'a str, &'a SecretValue)>,
) -> Option<String> {
    let own = |piece: &&str| !form_urlencoded::parse(piece.as_bytes()).any(|(name, _)| without(&name));
    let mut pieces: Vec<String> = query.unwrap_or_default().split('&').filter(own).map(str::to_owned).collect();
    pieces.retain(|piece| !piece.is_empty());
    for (name, value) in secrets {
        let encoded: String = form_urlencoded::byte_serialize(value.expose().as_bytes()).collect();
        pieces.push(format!("{name}={encoded}"));
    }
    (!pieces.is_empty()).then(|| pieces.join("&"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::permission::Grant;
    use crate::permission::http::{HttpGrant, HttpLimits};

    fn secret(name: &str, target: &str) -> Result<Secret, SecretError> {
        let value = SecretValue::new("s3cr3t-value").unwrap();
        Secret::new(name, value, target, Injection::header("Authorization", "Bearer {secret}").unwrap())
    }

    #[test]
    fn a_value_is_visible_ascii_and_not_too_short() {
        for value in ["abcd", "a b", "p@ss word!", "~~~~"].into_iter().filter(|value| value.len() >= 4) {
            assert!(SecretValue::new(value).is_ok(), "{value}");
        }
        let long = "x".repeat(LONGEST + 1);
        for (value, expected) in [
            ("", SecretError::Short),
            ("abc", SecretError::Short),
            (long.as_str(), SecretError::Long),
            ("abcd\n", SecretError::Characters),
            ("ab\tcd", SecretError::Characters),
            (" abcd", SecretError::Characters),
            ("abcd ", SecretError::Characters),
            ("käse", SecretError::Characters),
        ] {
            assert_eq!(SecretValue::new(value).unwrap_err(), expected, "{value:?}");
        }
    }

    #[test]
    fn neither_debug_nor_an_error_shows_the_value() {
        let secret = secret("api", "https://a.example/**").unwrap();
        let grant = Grant::none().with_http(requests(&[])).with_secret(secret.clone()).unwrap();
        let again = grant.clone().with_secret(secret.clone()).unwrap_err();
        for shown in [format!("{secret:?}"), format!("{grant:?}"), format!("{again:?} {again}")] {
            assert!(!shown.contains("s3cr3t"), "{shown}");
        }
    }

    #[test]
    fn where_and_how_are_checked() {
        assert!(secret("api-key_1", "https://a.example/v1/**").is_ok());
        for name in ["", "a b", "a.b", "ä", &"a".repeat(65)] {
            assert!(matches!(secret(name, "https://a.example/**"), Err(SecretError::Name(_))), "{name}");
        }
        assert!(matches!(secret("api", "https://*.a.example/**"), Err(SecretError::ManyHosts(_))));
        assert!(matches!(secret("api", "GET https://a.example/**"), Err(SecretError::Target { .. })));
        for header in ["", "a b", "host", "Content-Length", "transfer-encoding", "a:b"] {
            assert!(matches!(Injection::header(header, "{secret}"), Err(SecretError::Header(_))), "{header}");
        }
        for template in ["", "Bearer", "{secret} {secret}", "Bearer {secret}\r\nX: y", " {secret}"] {
            assert!(matches!(Injection::header("a", template), Err(SecretError::Template(_))), "{template}");
        }
        for parameter in ["", "a=b", "a&b", "a b"] {
            assert!(matches!(Injection::query(parameter), Err(SecretError::Parameter(_))), "{parameter}");
        }
        let value = SecretValue::new("k3y!").unwrap();
        let Injection::Header { name, template } = Injection::header("X-Key", "key={secret};v=1").unwrap() else {
            panic!("it is a header");
        };
        assert_eq!((name.as_str(), template.fill(&value).as_str()), ("x-key", "key=k3y!;v=1"));
        assert_eq!(template.to_string(), "key={secret};v=1");
    }

    fn requests(private: &[&str]) -> HttpGrant {
        let rules = ["https://a.example/**", "http://a.example/**"].map(|rule| rule.parse().unwrap()).into();
        let private = private.iter().map(|net| net.parse().unwrap()).collect();
        HttpGrant::new(rules, private, HttpLimits::default()).unwrap()
    }

    #[test]
    fn a_secret_that_no_request_could_get_is_refused() {
        let check = |rule: &str, target: &str, expected: bool| {
            let http = HttpGrant::new(vec![rule.parse().unwrap()], Vec::new(), HttpLimits::default()).unwrap();
            let added = Grant::none().with_http(http).with_secret(secret("api", target).unwrap());
            match added {
                Ok(_) => assert!(expected, "{rule} {target}"),
                Err(SecretGrantError::NoRule { .. }) => assert!(!expected, "{rule} {target}"),
                Err(error) => panic!("{rule} {target}: {error}"),
            }
        };
        check("POST https://a.example/**", "https://a.example/v1/**", true);
        check("https://a.example/v1/b", "https://a.example/v1/**", true);
        check("https://a.example/v1/**", "https://a.example/v1", true);
        check("https://a.example/v1/**", "https://a.example/**", true);
        check("https://*.a.example/**", "https://b.a.example/**", true);
        check("https://a.example/v1/**", "https://a.example/v2/**", false);
        check("https://a.example/v1", "https://a.example/v10", false);
        check("https://a.example/**", "https://b.example/**", false);
        check("https://*.a.example/**", "https://a.example/**", false);
        check("https://a.example/**", "https://a.example:8443/**", false);
        check("http://a.example/**", "https://a.example/**", false);
    }

    #[test]
    fn a_secret_travels_encrypted_or_to_an_address_that_was_named() {
        let over = |scheme: &str| secret("api", &format!("{scheme}://a.example/**")).unwrap();
        let none = Grant::none().with_secret(over("https"));
        assert!(matches!(none, Err(SecretGrantError::NoRequests(_))));
        let open = Grant::none().with_http(requests(&[]));
        assert!(matches!(open.clone().with_secret(over("http")), Err(SecretGrantError::Readable(_))));
        assert!(open.with_secret(over("https")).is_ok());
        assert!(Grant::none().with_http(requests(&["127.0.0.1/32"])).with_secret(over("http")).is_ok());
    }

    #[test]
    fn a_query_keeps_what_is_not_the_hosts() {
        let value = SecretValue::new("a&b=c d").unwrap();
        let check = |query: Option<&str>, add: bool, expected: Option<&str>| {
            let secrets = add.then_some(("key", &value));
            assert_eq!(inject_query(query, |name| name == "key", secrets).as_deref(), expected, "{query:?}");
        };
        check(None, false, None);
        check(None, true, Some("key=a%26b%3Dc+d"));
        check(Some("a=%41&b"), false, Some("a=%41&b"));
        check(Some("a=1&key=mine&b=2"), true, Some("a=1&b=2&key=a%26b%3Dc+d"));
        check(Some("k%65y=mine&key"), false, None);
        check(Some("keys=1&KEY=2"), false, Some("keys=1&KEY=2"));
    }
}
