//! Parsing of a tool's requests, with URLs as browsers parse them (WHATWG URL).

use url::{Host, Url};

use super::path::is_ambiguous;
use super::rule::is_method;
use super::target::Scheme;
use crate::text::sanitize::printable;

/// Maximum length of a URL, in bytes.
const MAX_URL_BYTES: usize = 8 << 10;
/// Maximum length of the description of a request, in characters.
const MAX_DESCRIPTION_CHARS: usize = 256;

/// A request whose method and URL are unambiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParsedRequest {
    pub(super) method: String,
    pub(super) url: Url,
    pub(super) scheme: Scheme,
    /// A name has no trailing dot.
    pub(super) host: Host<String>,
    pub(super) port: u16,
}

/// Errors of a request that is refused before any rule is compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ParseRequestError {
    #[error("the URL has more than {MAX_URL_BYTES} bytes")]
    TooLong,
    #[error("invalid URL: {0}")]
    InvalidUrl(url::ParseError),
    #[error("only `http` and `https` URLs are allowed")]
    Scheme,
    #[error("the URL has no host")]
    NoHost,
    #[error("port 0 is not valid")]
    Port,
    #[error("the URL contains a user or a password")]
    UserInfo,
    #[error("the path has encoded `.` or `..` parts, which servers interpret differently")]
    Path,
    #[error("this method is never granted")]
    Method,
}

impl ParsedRequest {
    pub(super) fn parse(method: &str, address: &str) -> Result<Self, ParseRequestError> {
        if address.len() > MAX_URL_BYTES {
            return Err(ParseRequestError::TooLong);
        }
        let mut url = Url::parse(address).map_err(ParseRequestError::InvalidUrl)?;
        let scheme = Scheme::parse(url.scheme()).ok_or(ParseRequestError::Scheme)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ParseRequestError::UserInfo);
        }
        if !is_method(method) {
            return Err(ParseRequestError::Method);
        }
        let mut host = url.host().ok_or(ParseRequestError::NoHost)?.to_owned();
        if let Host::Domain(name) = &mut host
            && let Some(bare) = name.strip_suffix('.')
        {
            // The name with its final dot is the same host, and rules are written without it.
            *name = bare.to_owned();
            url.set_host(Some(name)).map_err(ParseRequestError::InvalidUrl)?;
        }
        let port = url.port().unwrap_or(scheme.default_port());
        if port == 0 {
            return Err(ParseRequestError::Port);
        }
        if is_ambiguous(url.path()) {
            return Err(ParseRequestError::Path);
        }
        url.set_fragment(None);
        Ok(Self { method: method.to_owned(), url, scheme, host, port })
    }

    /// Describes the request by its method and its URL, without the query, which may contain private data.
    pub(super) fn describe(&self) -> String {
        let mut url = self.url.clone();
        url.set_query(None);
        truncate(&format!("{} {url}", self.method))
    }

    /// Returns `scheme://host[:port]`.
    pub(super) fn origin(&self) -> String {
        let scheme = self.scheme.as_str();
        let host = &self.host;
        if self.port == self.scheme.default_port() {
            format!("{scheme}://{host}")
        } else {
            format!("{scheme}://{host}:{}", self.port)
        }
    }
}

/// Describes a request that could not be parsed, like [`ParsedRequest::describe`].
pub(super) fn describe_unparsed(method: &str, address: &str) -> String {
    let address = address.split(['?', '#']).next().unwrap_or_default();
    let start: String = format!("{method} {address}").chars().take(MAX_DESCRIPTION_CHARS + 1).collect();
    truncate(&printable(&start))
}

fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_DESCRIPTION_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_urls_as_browsers_do() {
        fn check(address: &str, expected: &str) {
            assert_eq!(ParsedRequest::parse("GET", address).unwrap().url.as_str(), expected);
        }

        check("http://example.com", "http://example.com/");
        check("HTTP://EXAMPLE.com.:80/a/../b/./c?q=1#f", "http://example.com/b/c?q=1");
        check("https://example.com/a/%2e%2e/b", "https://example.com/b");
        check("https://example.com\\a", "https://example.com/a");
        check("https://ｅｘａｍｐｌｅ.com/", "https://example.com/");
        check("http://0x7f.1/", "http://127.0.0.1/");
    }

    #[test]
    fn rejects_ambiguous_requests() {
        fn check(method: &str, address: &str, expected: &str) {
            let error = ParsedRequest::parse(method, address).expect_err(address).to_string();
            assert!(error.contains(expected), "{address}: {error}");
        }

        check("GET", "example.com/", "invalid URL");
        check("GET", "ftp://example.com/", "http");
        check("GET", "file:///etc/passwd", "http");
        check("GET", "https://ok.example@evil.example/", "user");
        check("GET", "https://u:p@evil.example/", "user");
        check("GET", "https://example.com:0/", "port 0");
        check("GET", "https://example.com:65536/", "port");
        check("GET", "https://example.com/a/..%2fb", "`..` parts");
        check("GET", "https://example.com/%252e%252e/b", "`..` parts");
        check("CONNECT", "https://example.com/", "never");
        check("TRACE", "https://example.com/", "never");
        check("get", "https://example.com/", "never");
        check("GET / HTTP/1.1", "https://example.com/", "never");
        check("GET", &format!("https://example.com/{}", "a".repeat(MAX_URL_BYTES)), "bytes");
    }

    #[test]
    fn describes_requests_without_query_and_in_short() {
        let request = ParsedRequest::parse("GET", "https://example.com/a?token=t").unwrap();
        assert_eq!(request.describe(), "GET https://example.com/a");
        assert_eq!(describe_unparsed("GET", "https://u@example.com/a?token=t"), "GET https://u@example.com/a");
        let long = describe_unparsed("GET", &"ä\u{202e}".repeat(4000));
        assert!(long.chars().count() == MAX_DESCRIPTION_CHARS + 1 && !long.contains('\u{202e}'), "{long}");
    }
}
