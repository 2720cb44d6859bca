//! Admission of requests, decided from the head alone before anything of it is trusted.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, StatusCode, Uri};

use crate::transport::Token;

/// A client that may call.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The actor of its calls. Tools may be given it.
    pub actor: Option<Arc<str>>,
    /// The token that it sends.
    pub token: Token,
}

/// The clients that may call.
#[derive(Debug, Clone)]
pub enum Access {
    /// Clients with a token. The sessions of one principal do not exist for the others.
    Tokens(Vec<Principal>),
    /// Every program on this machine. For loopback addresses only.
    Anyone,
}

/// The admission rules of one listener.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    access: Access,
    /// Accepted `Host` headers, in lower case: `host:port`. They defend against DNS rebinding.
    hosts: Vec<String>,
    /// Accepted `Origin` headers, in lower case: `scheme://host:port`.
    origins: Vec<String>,
    path: &'static str,
}

/// A rejected request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) status: StatusCode,
    pub(crate) why: &'static str,
}

impl Guard {
    /// Creates the guard of a listener at `address`. Without further names, it accepts its own address, and `localhost`
    /// if that is a loopback address.
    pub(crate) fn new(
        access: Access,
        address: SocketAddr,
        more_hosts: &[String],
        more_origins: &[String],
        path: &'static str,
    ) -> Self {
        let port = address.port();
        let mut hosts: Vec<String> = more_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        if address.ip().is_loopback() {
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")));
        } else if !address.ip().is_unspecified() {
            hosts.push(address.to_string());
        }
        let mut origins: Vec<String> = more_origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        origins.extend(hosts.iter().map(|host| format!("http://{host}")));
        Self { access, hosts, origins, path }
    }

    /// Returns the accepted `Host` headers.
    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the accepted `Origin` headers.
    pub(crate) fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Returns the index of the principal that sent the request; 0 with [`Access::Anyone`].
    ///
    /// # Errors
    /// If the host, the origin, the path, the token or the content type is not accepted.
    pub(crate) fn admit(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<usize, Rejection> {
        let reject = |status, why| Err(Rejection { status, why });
        match single_value(headers, &HOST) {
            Some(host) if self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) => {}
            _ => return reject(StatusCode::FORBIDDEN, "this server does not answer to that Host; allow it by name"),
        }
        if headers.contains_key(ORIGIN) {
            match single_value(headers, &ORIGIN) {
                Some(origin) if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) => {}
                _ => return reject(StatusCode::FORBIDDEN, "pages of that Origin may not call; allow it by name"),
            }
        }
        if uri.path() != self.path {
            return reject(
                StatusCode::NOT_FOUND,
                "there is nothing here; MCP is at /mcp, and /health says whether the server is up",
            );
        }
        let Some(principal) = self.find_principal(headers) else {
            return reject(StatusCode::UNAUTHORIZED, "show the server's token: `Authorization: Bearer TOKEN`");
        };
        if *method == Method::POST && !is_json(headers) {
            return reject(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a message has the Content-Type application/json");
        }
        Ok(principal)
    }

    fn find_principal(&self, headers: &HeaderMap) -> Option<usize> {
        let Access::Tokens(principals) = &self.access else { return Some(0) };
        let credentials = single_value(headers, &AUTHORIZATION)?;
        let (scheme, token) = credentials.split_once(' ')?;
        let mut found = None;
        // All tokens are compared, so that the time it takes does not reveal which one matched.
        for (at, principal) in principals.iter().enumerate() {
            if principal.token.matches(token.trim()) {
                found = Some(at);
            }
        }
        found.filter(|_| scheme.eq_ignore_ascii_case("bearer"))
    }
}

/// Returns the value of a header that is present exactly once.
fn single_value<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let essence = single_value(headers, &CONTENT_TYPE).and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const RIGHT: &str = "Bearer 0123456789abcdef";

    fn check(access: Access, method: &Method, path: &str, headers: &[(&'static str, &str)], expected: u16) {
        let guard =
            Guard::new(access, "127.0.0.1:8080".parse().unwrap(), &[], &["https://app.example".to_owned()], "/mcp");
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let found = guard
            .admit(method, &path.parse().unwrap(), &map)
            .map_or_else(|rejection| rejection.status.as_u16(), |_| 200);
        assert_eq!(found, expected, "{method} {path} {headers:?}");
    }

    fn tokens() -> Access {
        let principal = |token: &str| Principal { actor: None, token: Token::parse(token).unwrap() };
        Access::Tokens(vec![principal("fedcba9876543210"), principal("0123456789abcdef")])
    }

    #[test]
    fn checks_host_origin_token_and_content_type() {
        let (host, json) = (("host", "127.0.0.1:8080"), ("content-type", "application/json"));
        let post =
            |headers: &[(&'static str, &str)], expected| check(tokens(), &Method::POST, "/mcp", headers, expected);
        post(&[host, json, ("authorization", RIGHT)], 200);
        post(&[("host", "LOCALHOST:8080"), json, ("authorization", RIGHT)], 200);
        post(&[host, ("content-type", "Application/JSON; charset=utf-8"), ("authorization", RIGHT)], 200);
        for wrong in ["evil.example:8080", "127.0.0.1", "127.0.0.1:81", "127.0.0.1:8080.evil.example", ""] {
            post(&[("host", wrong), json, ("authorization", RIGHT)], 403);
        }
        post(&[json, ("authorization", RIGHT)], 403);
        post(&[host, host, json, ("authorization", RIGHT)], 403);
        for (origin, expected) in [
            ("http://localhost:8080", 200),
            ("https://app.example", 200),
            ("http://localhost:8081", 403),
            ("https://app.example.evil.example", 403),
            ("null", 403),
        ] {
            post(&[host, json, ("authorization", RIGHT), ("origin", origin)], expected);
        }
        for wrong in ["Bearer 0123456789abcdee", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer", "Bearer "] {
            post(&[host, json, ("authorization", wrong)], 401);
        }
        post(&[host, json], 401);
        post(&[host, json, ("authorization", RIGHT), ("authorization", RIGHT)], 401);
        post(&[host, ("content-type", "text/plain"), ("authorization", RIGHT)], 415);
        post(&[host, ("authorization", RIGHT)], 415);
        check(tokens(), &Method::GET, "/mcp", &[host, ("authorization", RIGHT)], 200);
        check(tokens(), &Method::GET, "/", &[host, ("authorization", RIGHT)], 404);
        check(Access::Anyone, &Method::POST, "/mcp", &[host, json], 200);
        check(Access::Anyone, &Method::POST, "/mcp", &[("host", "evil.example"), json], 403);
    }
}
