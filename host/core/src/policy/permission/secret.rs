//! Secrets that the host injects into requests, so that a tool can use them without access to their values.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use url::form_urlencoded;

use super::http::{HttpTarget, HttpTargetError};

/// Minimum length of a value, in bytes. Redaction could not distinguish shorter ones from ordinary text.
const MIN_VALUE_BYTES: usize = 4;
/// Maximum length of a value, in bytes. Secrets of services are shorter.
const MAX_VALUE_BYTES: usize = 4 << 10;
/// Maximum length of the name of a secret, a header or a parameter, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// The placeholder for the value in a template.
const PLACEHOLDER: &str = "{secret}";
/// Headers of routing and message framing, which no secret may set (RFC 9110, sections 7.2, 7.6.1 and 8.6;
/// RFC 9112, section 6.1).
const RESERVED_HEADERS: &[&str] = &[
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

/// The value of a secret. It is never displayed or serialized: `Debug` hides it, and there is no `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Arc<str>);

/// A secret: its value, its target, and the part of a request into which it is injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    name: String,
    value: SecretValue,
    target: HttpTarget,
    injection: Injection,
}

/// The part of a request into which a secret is injected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Injection {
    /// A header.
    Header {
        /// The name, in lower case.
        name: String,
        /// The value, around the secret.
        template: Template,
    },
    /// A query parameter. Servers log URLs and repeat them in redirects: prefer a header.
    Query {
        /// The name of the parameter.
        name: String,
    },
}

/// The value of a header with a placeholder for the secret, such as `Bearer {secret}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    before: String,
    after: String,
}

/// Errors of an invalid secret. They never contain the value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The name is invalid.
    #[error("invalid name `{0}` of a secret; expected 1 to {MAX_NAME_BYTES} letters, digits, `_` and `-`")]
    Name(String),
    /// The value is too short.
    #[error(
        "the value of a secret needs at least {MIN_VALUE_BYTES} characters, to be distinguishable from ordinary text"
    )]
    Short,
    /// The value is too long.
    #[error("the value of a secret may have at most {MAX_VALUE_BYTES} characters; check its source")]
    Long,
    /// The value has characters that a header cannot contain.
    #[error("the value of a secret may have only visible ASCII characters and spaces inside, without line breaks")]
    Characters,
    /// The target is invalid.
    #[error("invalid target `{target}` of a secret: {problem}")]
    Target {
        /// The text of the target.
        target: String,
        /// The error in it.
        problem: HttpTargetError,
    },
    /// The target is more than one host.
    #[error("`{0}` matches many hosts, but a secret is for one; name the host without a star")]
    ManyHosts(HttpTarget),
    /// The header is invalid, or reserved for the host.
    #[error("a secret cannot be sent in the header `{0}`; expected one such as `authorization` or `x-api-key`")]
    Header(String),
    /// The name of the parameter is invalid.
    #[error("invalid parameter name `{0}`; expected 1 to {MAX_NAME_BYTES} letters, digits, `_`, `.` and `-`")]
    Parameter(String),
    /// The template does not have exactly one placeholder. It may be the secret itself, so the message does not contain it.
    #[error("invalid header value; expected {PLACEHOLDER} exactly once, such as `Bearer {PLACEHOLDER}`")]
    Template(String),
}

impl SecretValue {
    /// Creates a value from 4 to 4,096 visible ASCII characters, with spaces only inside.
    ///
    /// # Errors
    /// If it is anything else. The error does not contain the value.
    pub fn new(value: impl Into<Arc<str>>) -> Result<Self, SecretError> {
        let value = value.into();
        match value.as_bytes() {
            bytes if bytes.len() < MIN_VALUE_BYTES => Err(SecretError::Short),
            bytes if bytes.len() > MAX_VALUE_BYTES => Err(SecretError::Long),
            bytes if bytes.iter().any(|byte| !matches!(byte, b' '..=b'~')) => Err(SecretError::Characters),
            bytes if bytes.starts_with(b" ") || bytes.ends_with(b" ") => Err(SecretError::Characters),
            _ => Ok(Self(value)),
        }
    }

    /// Returns the value, for injection into requests and for redaction only.
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
    /// Creates a secret that is injected into requests of any method to `target`: an address of one host, such as
    /// `https://api.example.com/v1/**`.
    ///
    /// # Errors
    /// If the name or the target is invalid.
    pub fn new(name: &str, value: SecretValue, target: &str, injection: Injection) -> Result<Self, SecretError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !is_valid_name(name, is_name) {
            return Err(SecretError::Name(name.to_owned()));
        }
        let target: HttpTarget =
            target.parse().map_err(|problem| SecretError::Target { target: target.to_owned(), problem })?;
        if !target.is_one_host() {
            return Err(SecretError::ManyHosts(target));
        }
        Ok(Self { name: name.to_owned(), value, target, injection })
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value.
    #[must_use]
    pub const fn value(&self) -> &SecretValue {
        &self.value
    }

    /// Returns the target: the requests that the secret is for.
    #[must_use]
    pub const fn target(&self) -> &HttpTarget {
        &self.target
    }

    /// Returns the part of requests into which it is injected.
    #[must_use]
    pub const fn injection(&self) -> &Injection {
        &self.injection
    }

    /// Returns the text that replaces the value in redacted output.
    #[must_use]
    pub fn placeholder(&self) -> String {
        format!("[secret {}]", self.name)
    }
}

impl Injection {
    /// Creates an injection into a header.
    ///
    /// # Errors
    /// If the header is invalid or reserved for the host, or the template does not have exactly one placeholder.
    pub fn header(name: &str, template: &str) -> Result<Self, SecretError> {
        let name = name.to_ascii_lowercase();
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !is_valid_name(&name, is_token) || RESERVED_HEADERS.contains(&name.as_str()) {
            return Err(SecretError::Header(name));
        }
        Ok(Self::Header { name, template: template.parse()? })
    }

    /// Creates an injection into a query parameter.
    ///
    /// # Errors
    /// If the name of the parameter is invalid.
    pub fn query(name: &str) -> Result<Self, SecretError> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
        if !is_valid_name(name, is_name) {
            return Err(SecretError::Parameter(name.to_owned()));
        }
        Ok(Self::Query { name: name.to_owned() })
    }
}

fn is_valid_name(name: &str, allowed: impl Fn(u8) -> bool) -> bool {
    (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(allowed)
}

impl Template {
    /// Returns the value of the header with the secret in it.
    #[must_use]
    pub fn fill(&self, value: &SecretValue) -> String {
        format!("{}{}{}", self.before, value.expose(), self.after)
    }
}

impl FromStr for Template {
    type Err = SecretError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || SecretError::Template(text.to_owned());
        let (before, after) = text.split_once(PLACEHOLDER).ok_or_else(invalid)?;
        let is_visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if after.contains(PLACEHOLDER) || !is_visible || text.trim() != text {
            return Err(invalid());
        }
        Ok(Self { before: before.to_owned(), after: after.to_owned() })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{PLACEHOLDER}{}", self.before, self.after)
    }
}

/// Replaces the parameters of a query by secrets.
///
/// Removes every parameter for whose name `without` is true, and appends `secrets`. All other parameters stay
/// unchanged, byte for byte.
#[must_use]
pub fn inject_query<'a>(
    query: Option<&str>,
    without: impl Fn(&str) -> bool,
    secrets: impl IntoIterator<Item = (&'a str, &'a SecretValue)>,
) -> Option<String> {
    let is_kept = |piece: &&str| !form_urlencoded::parse(piece.as_bytes()).any(|(name, _)| without(&name));
    let mut pieces: Vec<String> = query.unwrap_or_default().split('&').filter(is_kept).map(str::to_owned).collect();
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
    use crate::policy::permission::Grant;
    use crate::policy::permission::http::{HttpGrant, HttpLimits};

    fn secret(name: &str, target: &str) -> Result<Secret, SecretError> {
        let value = SecretValue::new("s3cr3t-value").unwrap();
        Secret::new(name, value, target, Injection::header("Authorization", "Bearer {secret}").unwrap())
    }

    #[test]
    fn accepts_only_visible_ascii_values_of_some_length() {
        for value in ["abcd", "a b", "p@ss word!", "~~~~"].into_iter().filter(|value| value.len() >= 4) {
            assert!(SecretValue::new(value).is_ok(), "{value}");
        }
        let long = "x".repeat(MAX_VALUE_BYTES + 1);
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
    fn debug_and_errors_hide_the_value() {
        let secret = secret("api", "https://a.example/**").unwrap();
        let grant = Grant::none().with_http(requests(&[])).with_secret(secret.clone()).unwrap();
        let again = grant.clone().with_secret(secret.clone()).unwrap_err();
        for shown in [format!("{secret:?}"), format!("{grant:?}"), format!("{again:?} {again}")] {
            assert!(!shown.contains("s3cr3t"), "{shown}");
        }
    }

    #[test]
    fn validates_target_and_injection() {
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
    fn rejects_secret_that_no_rule_could_use() {
        fn check(rule: &str, target: &str, expected: bool) {
            let http = HttpGrant::new(vec![rule.parse().unwrap()], Vec::new(), HttpLimits::default()).unwrap();
            let added = Grant::none().with_http(http).with_secret(secret("api", target).unwrap());
            match added {
                Ok(_) => assert!(expected, "{rule} {target}"),
                Err(error) => {
                    let is_useless = error.to_string().contains("because no rule allows a request to");
                    assert!(is_useless && !expected, "{rule} {target}: {error}");
                }
            }
        }

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
    fn rejects_unencrypted_secret_unless_address_is_named() {
        fn secret_for(scheme: &str) -> Secret {
            secret("api", &format!("{scheme}://a.example/**")).unwrap()
        }

        let none = Grant::none().with_secret(secret_for("https")).unwrap_err().to_string();
        assert!(none.contains("because the tool has no grant of requests; add `http`"), "{none}");
        let open = Grant::none().with_http(requests(&[]));
        let unencrypted = open.clone().with_secret(secret_for("http")).unwrap_err().to_string();
        assert!(unencrypted.contains("would be sent unencrypted"), "{unencrypted}");
        assert!(open.with_secret(secret_for("https")).is_ok());
        assert!(Grant::none().with_http(requests(&["127.0.0.1/32"])).with_secret(secret_for("http")).is_ok());
    }

    #[test]
    fn inject_query_keeps_other_parameters() {
        fn check(query: Option<&str>, add: bool, expected: Option<&str>) {
            let value = SecretValue::new("a&b=c d").unwrap();
            let secrets = add.then_some(("key", &value));
            assert_eq!(inject_query(query, |name| name == "key", secrets).as_deref(), expected, "{query:?}");
        }

        check(None, false, None);
        check(None, true, Some("key=a%26b%3Dc+d"));
        check(Some("a=%41&b"), false, Some("a=%41&b"));
        check(Some("a=1&key=mine&b=2"), true, Some("a=1&b=2&key=a%26b%3Dc+d"));
        check(Some("k%65y=mine&key"), false, None);
        check(Some("keys=1&KEY=2"), false, Some("keys=1&KEY=2"));
    }
}
