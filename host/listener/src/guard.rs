//! Admission of requests, decided from the head alone before anything of it is trusted.

use std::net::SocketAddr;
use std::sync::Arc;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::{HeaderMap, StatusCode};

use crate::rejection::Rejection;
use crate::token::Token;

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
}

impl Guard {
    /// Creates the guard of a listener at `address`. Without further names, it accepts its own address, and `localhost`
    /// if that is a loopback address.
    pub(crate) fn new(access: Access, address: SocketAddr, more_hosts: &[String], more_origins: &[String]) -> Self {
        let port = address.port();
        let mut hosts: Vec<String> = more_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        if address.ip().is_loopback() {
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")));
        } else if !address.ip().is_unspecified() {
            hosts.push(address.to_string());
        }
        let mut origins: Vec<String> = more_origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        origins.extend(hosts.iter().map(|host| format!("http://{host}")));
        Self { access, hosts, origins }
    }

    /// Returns the accepted `Host` headers.
    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Returns the accepted `Origin` headers.
    pub(crate) fn origins(&self) -> &[String] {
        &self.origins
    }

    /// Checks where the request was sent, and from which page.
    ///
    /// # Errors
    /// If the host or the origin is not accepted.
    pub(crate) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Rejection> {
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
        Ok(())
    }

    /// Returns the index of the principal that sent the request; 0 with [`Access::Anyone`].
    ///
    /// # Errors
    /// If the token is not accepted.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<usize, Rejection> {
        let why = "show the server's token: `Authorization: Bearer TOKEN`";
        self.find_principal(headers).ok_or(Rejection { status: StatusCode::UNAUTHORIZED, why })
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
pub(crate) fn single_value<'a>(headers: &'a HeaderMap, name: &http::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const RIGHT: &str = "Bearer 0123456789abcdef";

    fn check(access: Access, headers: &[(&'static str, &str)], expected: u16) {
        let origins = ["https://app.example".to_owned()];
        let guard = Guard::new(access, "127.0.0.1:8080".parse().unwrap(), &[], &origins);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let found = guard
            .check_origin(&map)
            .and_then(|()| guard.authenticate(&map))
            .map_or_else(|rejection| rejection.status.as_u16(), |_| 200);
        assert_eq!(found, expected, "{headers:?}");
    }

    fn tokens() -> Access {
        let principal = |token: &str| Principal { actor: None, token: Token::parse(token).unwrap() };
        Access::Tokens(vec![principal("fedcba9876543210"), principal("0123456789abcdef")])
    }

    #[test]
    fn checks_host_origin_and_token() {
        let host = ("host", "127.0.0.1:8080");
        let post = |headers: &[(&'static str, &str)], expected| check(tokens(), headers, expected);
        post(&[host, ("authorization", RIGHT)], 200);
        post(&[("host", "LOCALHOST:8080"), ("authorization", RIGHT)], 200);
        for wrong in ["evil.example:8080", "127.0.0.1", "127.0.0.1:81", "127.0.0.1:8080.evil.example", ""] {
            post(&[("host", wrong), ("authorization", RIGHT)], 403);
        }
        post(&[("authorization", RIGHT)], 403);
        post(&[host, host, ("authorization", RIGHT)], 403);
        for (origin, expected) in [
            ("http://localhost:8080", 200),
            ("https://app.example", 200),
            ("http://localhost:8081", 403),
            ("https://app.example.evil.example", 403),
            ("null", 403),
        ] {
            post(&[host, ("authorization", RIGHT), ("origin", origin)], expected);
        }
        for wrong in ["Bearer 0123456789abcdee", "Basic 0123456789abcdef", "0123456789abcdef", "Bearer", "Bearer "] {
            post(&[host, ("authorization", wrong)], 401);
        }
        post(&[host], 401);
        post(&[host, ("authorization", RIGHT), ("authorization", RIGHT)], 401);
        check(Access::Anyone, &[host], 200);
        check(Access::Anyone, &[("host", "evil.example")], 403);
    }
}
