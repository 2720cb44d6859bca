//! The challenges of a registry: what it wants to see before it answers.

use http::header::{HeaderMap, WWW_AUTHENTICATE};
use http_auth::{ChallengeRef, parse_challenges as parse};

/// Maximum length of the header with challenges, in bytes.
const MAX_CHALLENGE_BYTES: usize = 8 << 10;

/// A challenge (RFC 9110, section 11.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A user and a password (RFC 7617).
    Basic,
    /// A token of an authorization service (OCI distribution specification, "Token authentication").
    Bearer {
        /// The address of the service.
        realm: String,
        /// The name of the registry at the service.
        service: Option<String>,
        /// The scope that the request needs.
        scope: Option<String>,
    },
}

/// Returns the challenges of an answer that can be met, in their order.
pub(crate) fn parse_challenges(headers: &HeaderMap) -> Vec<Challenge> {
    let texts = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let mut found = Vec::new();
    for text in texts.filter(|text| text.len() <= MAX_CHALLENGE_BYTES) {
        for challenge in parse(text).unwrap_or_default() {
            if challenge.scheme.eq_ignore_ascii_case("basic") {
                found.push(Challenge::Basic);
            } else if challenge.scheme.eq_ignore_ascii_case("bearer")
                && let Some(realm) = find_parameter(&challenge, "realm")
            {
                let service = find_parameter(&challenge, "service");
                let scope = find_parameter(&challenge, "scope");
                found.push(Challenge::Bearer { realm, service, scope });
            }
        }
    }
    found
}

fn find_parameter(challenge: &ChallengeRef<'_>, name: &str) -> Option<String> {
    let found = challenge.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.to_unescaped())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(header: &str, expected: &[Challenge]) {
        let mut headers = HeaderMap::new();
        headers.insert(WWW_AUTHENTICATE, header.parse().unwrap());
        assert_eq!(parse_challenges(&headers), expected, "{header}");
    }

    #[test]
    fn reads_challenges_and_skips_others() {
        check("Basic realm=\"r\"", &[Challenge::Basic]);
        let bearer = Challenge::Bearer {
            realm: "https://auth.example/token".to_owned(),
            service: Some("registry".to_owned()),
            scope: Some("repository:a/b:pull".to_owned()),
        };
        let text = "Bearer realm=\"https://auth.example/token\",service=\"registry\",scope=\"repository:a/b:pull\"";
        check(text, &[bearer]);
        for other in ["", "Bearer", "Negotiate", "Bearer service=\"x\"", "=,=\"", &"a".repeat(9000)] {
            check(other, &[]);
        }
    }
}
