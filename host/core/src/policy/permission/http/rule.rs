//! Rules for HTTP requests: methods and a target.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::target::{HttpTarget, HttpTargetError};
use crate::policy::permission::GrantError;

/// The methods of a rule without methods: those that only read.
const DEFAULT_METHODS: [&str; 2] = ["GET", "HEAD"];
/// Methods that concern the connection and not a resource.
const FORBIDDEN_METHODS: [&str; 2] = ["CONNECT", "TRACE"];
/// Maximum length of a method, in bytes.
const MAX_METHOD_BYTES: usize = 32;

/// A rule of a grant, such as `GET,POST https://api.example.com/v1/**`. See [`HttpTarget`] for the address.
///
/// A rule without methods allows `GET` and `HEAD`. Methods are in upper case; `CONNECT` and `TRACE` cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpRule {
    methods: Vec<String>,
    target: HttpTarget,
}

impl HttpRule {
    /// Returns whether the rule allows a method.
    pub(super) fn allows_method(&self, method: &str) -> bool {
        self.methods.iter().any(|allowed| allowed == method)
    }

    /// Returns the methods, separated by commas.
    #[must_use]
    pub fn methods(&self) -> String {
        self.methods.join(",")
    }

    /// Returns the target.
    #[must_use]
    pub const fn target(&self) -> &HttpTarget {
        &self.target
    }
}

/// Returns whether a rule may name this method.
pub(super) fn is_method(method: &str) -> bool {
    (1..=MAX_METHOD_BYTES).contains(&method.len())
        && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        && !FORBIDDEN_METHODS.contains(&method)
}

impl FromStr for HttpRule {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |problem: String| GrantError::new(format!("invalid rule `{text}` for requests: {problem}"));
        let mut words = text.split_whitespace();
        let (methods, target) = match (words.next(), words.next(), words.next()) {
            (Some(target), None, _) => (DEFAULT_METHODS.map(str::to_owned).to_vec(), target),
            (Some(methods), Some(target), None) => (parse_methods(methods).map_err(invalid)?, target),
            _ => {
                let expected = "expected methods and a URL, such as `GET,POST https://api.example.com/v1/**`";
                return Err(invalid(expected.to_owned()));
            }
        };
        let target = target.parse().map_err(|problem: HttpTargetError| invalid(problem.to_string()))?;
        Ok(Self { methods, target })
    }
}

fn parse_methods(text: &str) -> Result<Vec<String>, String> {
    let mut methods: Vec<String> = Vec::new();
    for method in text.split(',') {
        if FORBIDDEN_METHODS.contains(&method) {
            return Err(format!("`{method}` cannot be granted, because it controls the connection"));
        }
        if !is_method(method) {
            return Err(format!(
                "unknown method `{method}`; expected upper-case methods with commas, such as `GET,POST`"
            ));
        }
        if !methods.iter().any(|known| known == method) {
            methods.push(method.to_owned());
        }
    }
    Ok(methods)
}

impl fmt::Display for HttpRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.methods(), self.target)
    }
}

impl Serialize for HttpRule {
    /// Writes the rule as its normalized text.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for HttpRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn parses_methods_and_address() {
        fn check(text: &str, expected: &str) {
            let rule: HttpRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), expected);
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<HttpRule>(&json).unwrap(), rule);
        }

        check("https://example.com/**", "GET,HEAD https://example.com/**");
        check("GET https://example.com/**", "GET https://example.com/**");
        check("  GET,POST,GET\thttps://example.com:443/a ", "GET,POST https://example.com/a");
        check("PROPFIND,M-SEARCH https://example.com/**", "PROPFIND,M-SEARCH https://example.com/**");
    }

    #[test]
    fn error_names_rule_problem_and_expectation() {
        fn check(text: &str, expected: Expect) {
            expected.assert_eq(&text.parse::<HttpRule>().expect_err(text).to_string());
        }

        check(
            "",
            expect![
                "invalid rule `` for requests: expected methods and a URL, such as `GET,POST \
                 https://api.example.com/v1/**`"
            ],
        );
        check(
            "GET POST https://a.example/**",
            expect![
                "invalid rule `GET POST https://a.example/**` for requests: expected methods and a URL, such as \
                 `GET,POST https://api.example.com/v1/**`"
            ],
        );
        check(
            "get https://a.example/**",
            expect![
                "invalid rule `get https://a.example/**` for requests: unknown method `get`; expected upper-case \
                 methods with commas, such as `GET,POST`"
            ],
        );
        check(
            "GET, https://a.example/**",
            expect![
                "invalid rule `GET, https://a.example/**` for requests: unknown method ``; expected upper-case \
                 methods with commas, such as `GET,POST`"
            ],
        );
        check(
            "CONNECT https://a.example/**",
            expect![
                "invalid rule `CONNECT https://a.example/**` for requests: `CONNECT` cannot be granted, because it \
                 controls the connection"
            ],
        );
        check(
            "GET https://*/**",
            expect![
                "invalid rule `GET https://*/**` for requests: `*` would allow every host; name one, such as \
                 `api.example.com`, or use `*.example.com`"
            ],
        );
        check(
            "GET https://bücher.example/**",
            expect![
                "invalid rule `GET https://bücher.example/**` for requests: the host `bücher.example` means \
                 `xn--bcher-kva.example`; write `xn--bcher-kva.example` instead"
            ],
        );
    }
}
