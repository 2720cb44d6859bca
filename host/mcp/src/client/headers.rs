//! Headers of every request to a server at a URL.

use std::collections::HashMap;

use http::{HeaderName, HeaderValue};

/// Headers that belong to HTTP or to MCP.
const RESERVED: [&str; 13] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "last-event-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];
/// Prefix of the headers of MCP.
const RESERVED_PREFIX: &str = "mcp-";

/// Headers besides those of the protocol. Values may be secret: `Debug` does not print them.
#[derive(Debug, Clone, Default)]
pub struct Headers(HashMap<HeaderName, HeaderValue>);

/// Errors returned by [`Headers::add`]. Values are not repeated: they may be secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// An invalid name.
    #[error("invalid header name `{0}`; expected one such as `x-api-key`")]
    Name(String),
    /// A name that is reserved for the protocol.
    #[error("`{0}` is set by the protocol; leave it out")]
    Owned(String),
    /// A header that is set already.
    #[error("the header `{0}` is set twice; header names ignore case")]
    DuplicateMember(String),
    /// An invalid value.
    #[error("the value of the header `{0}` contains invalid characters; check the value")]
    Value(String),
}

impl Headers {
    /// Adds a header.
    ///
    /// # Errors
    /// If the name or value is invalid, or the name is reserved or set already.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), HeaderError> {
        let short_name = || name.chars().take(80).collect::<String>();
        let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| HeaderError::Name(short_name()))?;
        if RESERVED.contains(&parsed.as_str()) || parsed.as_str().starts_with(RESERVED_PREFIX) {
            return Err(HeaderError::Owned(short_name()));
        }
        let mut value = HeaderValue::from_str(value).map_err(|_| HeaderError::Value(short_name()))?;
        value.set_sensitive(true);
        match self.0.insert(parsed, value) {
            None => Ok(()),
            Some(_) => Err(HeaderError::DuplicateMember(short_name())),
        }
    }

    /// Returns whether one of the headers says who sends the request.
    pub(crate) fn has_authorization(&self) -> bool {
        self.0.contains_key(&http::header::AUTHORIZATION)
    }

    pub(crate) fn to_map(&self) -> HashMap<HeaderName, HeaderValue> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_and_reserved_headers() {
        let mut headers = Headers::default();
        for (name, value, expected) in [
            ("X-Team", "tools", ""),
            ("x-team", "others", "is set twice"),
            ("Host", "example.com", "is set by the protocol"),
            ("MCP-Session-Id", "1", "is set by the protocol"),
            ("a b", "1", "invalid header name"),
            ("", "1", "invalid header name"),
            ("x-key", "hush\r\nhost: evil", "contains invalid characters"),
        ] {
            let error = headers.add(name, value).map_or_else(|error| error.to_string(), |()| String::new());
            assert!(error.contains(expected) && !error.contains("hush"), "{name}: {error}");
            assert_eq!(error.is_empty(), expected.is_empty(), "{name}: {error}");
        }
        let mut secret = Headers::default();
        secret.add("x-key", "hush").unwrap();
        assert!(!format!("{secret:?}").contains("hush"));
    }
}
