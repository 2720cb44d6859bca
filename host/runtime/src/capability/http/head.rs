//! The head of a request: what the guest may say in it, and what the host says for it.

use std::sync::Arc;

use fumehood_core::permission::http::{Permit, Reach, Scheme};
use fumehood_core::permission::{Injection, Secret, inject_query};
use http::header::{CONNECTION, HOST, HeaderMap, HeaderName, HeaderValue};
use http::{Request, Uri};
use wasmtime_wasi_http::{DEFAULT_FORBIDDEN_HEADERS, ForbiddenHeaderFilter, WasiBody};

use super::reason::Reason;

/// What the parts of a header take besides its name and value: a colon, a space and a line break.
const BETWEEN: usize = 4;

/// Headers that no guest sets, besides those that wasmtime forbids: they say how the message is framed, who passed it
/// on, or what a proxy should do. A guest that asks for `100-continue` would wait for a server that waits for it.
const FORBIDDEN: &[&str] = &["expect", "forwarded", "te", "trailer", "via", "x-real-ip"];
/// The same for whole families of headers.
const FORBIDDEN_FAMILIES: &[&str] = &["proxy-", "x-forwarded-"];

/// Whether a guest may not set this header, in a request or in its trailers. `authorization` and `cookie` are the
/// guest's own, unless a secret goes there: the host keeps no cookies and no sessions that it could add to.
fn is_forbidden(name: &HeaderName) -> bool {
    DEFAULT_FORBIDDEN_HEADERS.contains(name)
        || FORBIDDEN.contains(&name.as_str())
        || FORBIDDEN_FAMILIES.iter().any(|family| name.as_str().starts_with(family))
}

/// The same as wasmtime wants it.
pub(super) fn forbidden() -> ForbiddenHeaderFilter {
    Arc::new(is_forbidden)
}

/// What headers take of an allowance.
pub(super) fn headers_size(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + BETWEEN).sum()
}

/// What a head takes of an allowance: its first line and its headers.
pub(super) fn size(request: &Request<WasiBody>) -> usize {
    let path = request.uri().path_and_query().map_or(1, |path| path.as_str().len());
    request.method().as_str().len() + path + " HTTP/1.1\r\n\r\n".len() + headers_size(request.headers())
}

/// Makes the head of a request what the host says: the path that was compared, the host that was checked, and the
/// secrets that are for it. A header or parameter that a secret of this tool goes into is the host's alone: what the
/// guest put there is taken out of every request, also of those that the secret is not for.
pub(super) fn prepare(
    request: &mut Request<WasiBody>,
    permit: &Permit,
    reach: Reach,
    secrets: &[Secret],
) -> Result<(), Reason> {
    let is_for_it = |secret: &&Secret| {
        let encrypted_or_named = permit.scheme() == Scheme::Https || reach == Reach::Named;
        encrypted_or_named && permit.is_within(secret.target())
    };
    *request.uri_mut() = uri(permit, secrets, is_for_it)?;
    let headers = request.headers_mut();
    let ours = |name: &HeaderName| {
        let is_there = |secret: &Secret| match secret.injection() {
            Injection::Header { name: there, .. } => there == name.as_str(),
            Injection::Query { .. } => false,
        };
        is_forbidden(name) || secrets.iter().any(is_there)
    };
    let taken: Vec<HeaderName> = headers.keys().filter(|name| ours(name)).cloned().collect();
    for name in taken {
        headers.remove(name);
    }
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| Reason::Request);
    headers.insert(HOST, value(&permit.authority())?);
    // One request, one connection: the server need not wait for another.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    for secret in secrets.iter().filter(is_for_it) {
        if let Injection::Header { name, template } = secret.injection() {
            let name: HeaderName = name.parse().map_err(|_| Reason::Request)?;
            let mut value = value(&template.fill(secret.value()))?;
            value.set_sensitive(true);
            // The first one that was granted counts.
            headers.entry(name).or_insert(value);
        }
    }
    Ok(())
}

/// Path and query only: with a host in it, the first line of a request would be addressed to a proxy.
fn uri(permit: &Permit, secrets: &[Secret], is_for_it: impl Fn(&&Secret) -> bool) -> Result<Uri, Reason> {
    let parameter = |secret: &Secret| match secret.injection() {
        Injection::Query { name } => Some(name.clone()),
        Injection::Header { .. } => None,
    };
    let ours: Vec<String> = secrets.iter().filter_map(parameter).collect();
    let added: Vec<(String, &Secret)> =
        secrets.iter().filter(is_for_it).filter_map(|secret| Some((parameter(secret)?, secret))).collect();
    let url = permit.url();
    let added = added.iter().map(|(name, secret)| (name.as_str(), secret.value()));
    let path = match inject_query(url.query(), |name| ours.iter().any(|other| other == name), added) {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    Uri::builder().path_and_query(path).build().map_err(|_| Reason::Request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_that_are_not_the_guests() {
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
