//! The head of a request: the headers that a guest may set, and those that the host sets.

use std::sync::Arc;

use fumehood_core::policy::permission::http::{Permit, Reach, Scheme};
use fumehood_core::policy::permission::{Injection, Secret, inject_query};
use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Uri};
use wasmtime_wasi_http::{DEFAULT_FORBIDDEN_HEADERS, ForbiddenHeaderFilter, WasiBody};

use super::exchange_error::ExchangeError;

/// Bytes of a header besides its name and value: a colon, a space and a line break.
const HEADER_OVERHEAD_BYTES: usize = 4;

/// Headers that a guest cannot set, besides those that wasmtime forbids: they determine the framing of the message,
/// name intermediaries (RFC 9110, section 7.6.3; RFC 7239) or address a proxy. A guest that sends
/// `expect: 100-continue` would wait for a server that waits for it.
const FORBIDDEN: &[&str] = &["expect", "forwarded", "te", "trailer", "via", "x-real-ip"];
/// Prefixes of headers that a guest cannot set.
const FORBIDDEN_PREFIXES: &[&str] = &["proxy-", "x-forwarded-"];

/// Returns whether a guest cannot set this header, in a request or in its trailers. `authorization` and `cookie` are
/// allowed unless a secret goes there: the host keeps no cookies and no sessions that a guest could add to.
fn is_forbidden(name: &HeaderName) -> bool {
    DEFAULT_FORBIDDEN_HEADERS.contains(name)
        || FORBIDDEN.contains(&name.as_str())
        || FORBIDDEN_PREFIXES.iter().any(|prefix| name.as_str().starts_with(prefix))
}

/// Returns [`is_forbidden`] as the filter that wasmtime takes.
pub(super) fn forbidden_header_filter() -> ForbiddenHeaderFilter {
    Arc::new(is_forbidden)
}

/// Returns the bytes that headers are charged for.
pub(super) fn headers_size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + HEADER_OVERHEAD_BYTES).sum()
}

/// Returns the bytes that a head is charged for: its request line and its headers.
pub(super) fn head_size(request: &Request<WasiBody>) -> usize {
    let path = request.uri().path_and_query().map_or(1, |path| path.as_str().len());
    request.method().as_str().len() + path + " HTTP/1.1\r\n\r\n".len() + headers_size(request.headers())
}

/// Completes the head of a request: sets the path that was compared, the host that was checked, and the secrets that
/// are for it. A header or parameter that a secret of this tool goes into is reserved for the host: a value that the
/// guest put there is removed from every request, also from those that the secret is not for.
pub(super) fn prepare(
    request: &mut Request<WasiBody>,
    permit: &Permit,
    reach: Reach,
    secrets: &[Secret],
) -> Result<(), ExchangeError> {
    let is_for_it = |secret: &&Secret| {
        let encrypted_or_named = permit.scheme() == Scheme::Https || reach == Reach::Named;
        encrypted_or_named && permit.is_within(secret.target())
    };
    *request.uri_mut() = build_uri(permit, secrets, is_for_it)?;
    let headers = request.headers_mut();
    let removed: Vec<HeaderName> = headers.keys().filter(|name| is_reserved(name, secrets)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
    headers.insert(HOST, parse_value(&permit.authority())?);
    // One request per connection: the server need not wait for another.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    for secret in secrets.iter().filter(is_for_it) {
        if let Injection::Header { name, template } = secret.injection() {
            let name: HeaderName = name.parse().map_err(|_| ExchangeError::Request)?;
            let mut value = parse_value(&template.fill(secret.value()))?;
            value.set_sensitive(true);
            // The first secret that was granted takes precedence.
            headers.entry(name).or_insert(value);
        }
    }
    Ok(())
}

/// Returns whether a guest may not set this header: it is the host's, or a secret is sent in it.
fn is_reserved(name: &HeaderName, secrets: &[Secret]) -> bool {
    is_forbidden(name)
        || secrets.iter().any(|secret| {
            matches!(secret.injection(), Injection::Header { name: injected, .. } if injected == name.as_str())
        })
}

fn parse_value(text: &str) -> Result<HeaderValue, ExchangeError> {
    HeaderValue::from_str(text).map_err(|_| ExchangeError::Request)
}

/// Builds a URI in origin form (RFC 9112, section 3.2.1). With a host in it, the request would be addressed to a proxy.
fn build_uri(permit: &Permit, secrets: &[Secret], is_for_it: impl Fn(&&Secret) -> bool) -> Result<Uri, ExchangeError> {
    let reserved: Vec<String> = secrets.iter().filter_map(query_parameter).collect();
    let added: Vec<(String, &Secret)> =
        secrets.iter().filter(is_for_it).filter_map(|secret| Some((query_parameter(secret)?, secret))).collect();
    let url = permit.url();
    let added = added.iter().map(|(name, secret)| (name.as_str(), secret.value()));
    let path = match inject_query(url.query(), |name| reserved.iter().any(|other| other == name), added) {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    Uri::builder().path_and_query(path).build().map_err(|_| ExchangeError::Request)
}

fn query_parameter(secret: &Secret) -> Option<String> {
    match secret.injection() {
        Injection::Query { name } => Some(name.clone()),
        Injection::Header { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbids_headers_that_the_host_owns() {
        for name in [
            "host",
            "connection",
            "keep-alive",
            "transfer-encoding",
            "upgrade",
            "te",
            "trailer",
            "expect",
            "via",
            "forwarded",
            "x-forwarded-for",
            "x-forwarded-host",
            "proxy-authorization",
            "proxy-connection",
            "proxy-x",
            "x-real-ip",
        ] {
            assert!(is_forbidden(&HeaderName::from_static(name)), "{name}");
        }
        for name in ["accept", "authorization", "cookie", "content-type", "content-length", "x-api-key", "user-agent"] {
            assert!(!is_forbidden(&HeaderName::from_static(name)), "{name}");
        }
    }
}
