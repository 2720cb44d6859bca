//! Admission of requests, decided from the head alone before anything of it is trusted.

use std::net::SocketAddr;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, StatusCode};

use crate::rejection::Rejection;

/// The admission rules of one listener.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    /// Accepted `Host` headers, in lower case: `host:port`. They defend against DNS rebinding.
    hosts: Vec<String>,
    /// Accepted `Origin` headers, in lower case: `scheme://host:port`.
    origins: Vec<String>,
}

impl Guard {
    /// Creates the guard of a listener at `address`. Without further names, it accepts its own address, and those of
    /// loopback if it can be reached there: no other site can have their names.
    pub(crate) fn new(address: SocketAddr, more_hosts: &[String], more_origins: &[String]) -> Self {
        let port = address.port();
        let mut hosts: Vec<String> = more_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        if address.ip().is_loopback() || address.ip().is_unspecified() {
            hosts.extend(["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}")));
        } else {
            hosts.push(address.to_string());
        }
        let mut origins: Vec<String> = more_origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        origins.extend(hosts.iter().map(|host| format!("http://{host}")));
        Self { hosts, origins }
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
        match single_value(headers, &HOST) {
            Some(host) if self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) => {}
            _ => {
                let why = "the Host of this request is not allowed; add it to the allowed hosts of the server";
                return Err(Rejection::new(StatusCode::FORBIDDEN, why));
            }
        }
        if headers.contains_key(ORIGIN) {
            match single_value(headers, &ORIGIN) {
                Some(origin) if self.origins.iter().any(|known| known.eq_ignore_ascii_case(origin)) => {}
                _ => {
                    let why = "the Origin of this request is not allowed; add it to the allowed origins of the server";
                    return Err(Rejection::new(StatusCode::FORBIDDEN, why));
                }
            }
        }
        Ok(())
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

    fn check(headers: &[(&'static str, &str)], expected: u16) {
        let origins = ["https://app.example".to_owned()];
        let guard = Guard::new("127.0.0.1:8080".parse().unwrap(), &[], &origins);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let found = guard.check_origin(&map).map_or_else(|rejection| rejection.status.as_u16(), |()| 200);
        assert_eq!(found, expected, "{headers:?}");
    }

    fn check_host(guard: &Guard, host: &'static str, expected: bool) {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
        assert_eq!(guard.check_origin(&headers).is_ok(), expected, "{host}");
    }

    #[test]
    fn accepts_loopback_and_named_hosts_at_every_address() {
        let guard = Guard::new("0.0.0.0:8080".parse().unwrap(), &["tools.example:443".to_owned()], &[]);
        check_host(&guard, "localhost:8080", true);
        check_host(&guard, "127.0.0.1:8080", true);
        check_host(&guard, "tools.example:443", true);
        check_host(&guard, "10.0.0.1:8080", false);
        check_host(&guard, "tools.example:8080", false);
    }

    #[test]
    fn checks_host_and_origin() {
        let host = ("host", "127.0.0.1:8080");
        check(&[host], 200);
        check(&[("host", "LOCALHOST:8080")], 200);
        for wrong in ["evil.example:8080", "127.0.0.1", "127.0.0.1:81", "127.0.0.1:8080.evil.example", ""] {
            check(&[("host", wrong)], 403);
        }
        check(&[], 403);
        check(&[host, host], 403);
        for (origin, expected) in [
            ("http://localhost:8080", 200),
            ("https://app.example", 200),
            ("http://localhost:8081", 403),
            ("https://app.example.evil.example", 403),
            ("null", 403),
        ] {
            check(&[host, ("origin", origin)], expected);
        }
    }
}
