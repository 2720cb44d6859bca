//! One line of a grant: which methods, and where.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::target::{HttpTarget, HttpTargetError};

/// What a rule without methods means: requests that only read.
const READING: [&str; 2] = ["GET", "HEAD"];
/// Methods that are about the connection and not about a page.
const NEVER: [&str; 2] = ["CONNECT", "TRACE"];
/// The longest method.
const METHOD_BYTES: usize = 32;

/// One line of a grant, such as `GET,POST https://api.example.com/v1/**`. See [`HttpTarget`] for the address.
///
/// Without methods it means `GET` and `HEAD`. Methods are in upper case; `CONNECT` and `TRACE` cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HttpRule {
    methods: Vec<String>,
    target: HttpTarget,
}

/// A text that is no rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{rule}` is no rule for requests: {problem}")]
pub struct HttpRuleError {
    /// The text.
    pub rule: String,
    /// What is wrong with it.
    pub problem: HttpRuleProblem,
}

/// What is wrong with a rule, and what is expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpRuleProblem {
    /// It is not methods and an address.
    #[error("write methods and an address, such as `GET,POST https://api.example.com/v1/**`")]
    Shape,
    /// A method is none.
    #[error("`{0}` is no method; write them in upper case with commas between, such as `GET,POST`")]
    Method(String),
    /// A method that nobody is granted.
    #[error("`{0}` cannot be granted, because it is about the connection and not about a page")]
    Never(String),
    /// The address is not acceptable.
    #[error(transparent)]
    Target(HttpTargetError),
}

impl HttpRule {
    /// Whether it allows this method.
    pub(super) fn allows_method(&self, method: &str) -> bool {
        self.methods.iter().any(|allowed| allowed == method)
    }

    /// Its methods, separated by commas.
    #[must_use]
    pub fn methods(&self) -> String {
        self.methods.join(",")
    }

    /// Where.
    #[must_use]
    pub const fn target(&self) -> &HttpTarget {
        &self.target
    }
}

/// Whether a request may have this method if some rule names it.
pub(super) fn is_method(method: &str) -> bool {
    (1..=METHOD_BYTES).contains(&method.len())
        && method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-')
        && !NEVER.contains(&method)
}

impl FromStr for HttpRule {
    type Err = HttpRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = |problem| HttpRuleError { rule: text.to_owned(), problem };
        let mut words = text.split_whitespace();
        let (methods, target) = match (words.next(), words.next(), words.next()) {
            (Some(target), None, _) => (READING.map(str::to_owned).to_vec(), target),
            (Some(methods), Some(target), None) => (parse_methods(methods).map_err(refused)?, target),
            _ => return Err(refused(HttpRuleProblem::Shape)),
        };
        let target = target.parse().map_err(|problem| refused(HttpRuleProblem::Target(problem)))?;
        Ok(Self { methods, target })
    }
}

fn parse_methods(text: &str) -> Result<Vec<String>, HttpRuleProblem> {
    let mut methods: Vec<String> = Vec::new();
    for method in text.split(',') {
        if NEVER.contains(&method) {
            return Err(HttpRuleProblem::Never(method.to_owned()));
        }
        if !is_method(method) {
            return Err(HttpRuleProblem::Method(method.to_owned()));
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
    /// As it is written, in its one way.
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
    fn a_rule_is_methods_and_an_address() {
        let check = |text: &str, expected: &str| {
            let rule: HttpRule = text.parse().unwrap();
            assert_eq!(rule.to_string(), expected);
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(serde_json::from_str::<HttpRule>(&json).unwrap(), rule);
        };
        check("https://example.com/**", "GET,HEAD https://example.com/**");
        check("GET https://example.com/**", "GET https://example.com/**");
        check("  GET,POST,GET\thttps://example.com:443/a ", "GET,POST https://example.com/a");
        check("PROPFIND,M-SEARCH https://example.com/**", "PROPFIND,M-SEARCH https://example.com/**");
    }

    #[test]
    fn an_error_says_which_rule_what_is_wrong_and_what_is_expected() {
        let check = |text: &str, expected: Expect| {
            expected.assert_eq(&text.parse::<HttpRule>().expect_err(text).to_string());
        };
        check(
            "",
            expect![
                "`` is no rule for requests: write methods and an address, such as `GET,POST https://api.example.com/v1/**`"
            ],
        );
        check(
            "GET POST https://a.example/**",
            expect![
                "`GET POST https://a.example/**` is no rule for requests: write methods and an address, such as `GET,POST https://api.example.com/v1/**`"
            ],
        );
        check(
            "get https://a.example/**",
            expect![
                "`get https://a.example/**` is no rule for requests: `get` is no method; write them in upper case with commas between, such as `GET,POST`"
            ],
        );
        check(
            "GET, https://a.example/**",
            expect![
                "`GET, https://a.example/**` is no rule for requests: `` is no method; write them in upper case with commas between, such as `GET,POST`"
            ],
        );
        check(
            "CONNECT https://a.example/**",
            expect![
                "`CONNECT https://a.example/**` is no rule for requests: `CONNECT` cannot be granted, because it is about the connection and not about a page"
            ],
        );
        check(
            "GET https://*/**",
            expect![
                "`GET https://*/**` is no rule for requests: `*` would be every host there is; name one, such as `api.example.com`, or write `*.example.com`"
            ],
        );
        check(
            "GET https://bücher.example/**",
            expect![
                "`GET https://bücher.example/**` is no rule for requests: the host `bücher.example` is really `xn--bcher-kva.example`; write that, so that everybody sees which one it is"
            ],
        );
    }
}
