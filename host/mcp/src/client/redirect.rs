//! Redirects of servers at URLs.

use fumehood_core::text::sanitize::printable;
use fumehood_transport::{Response, Url};
use http::StatusCode;
use http::header::LOCATION;

/// Maximum length of an address in an error, in characters.
const MAX_ADDRESS_CHARS: usize = 200;

/// Returns the address to which a request is repeated; `None` if the response is no redirect.
///
/// # Errors
/// If the address is of another origin, which may not get what the request has, or if a redirect of this status changes the
/// request (RFC 9110, section 15.4).
pub(super) fn target(response: &Response, from: &Url) -> Result<Option<Url>, String> {
    let location = response.headers().get(LOCATION).map(|location| String::from_utf8_lossy(location.as_bytes()));
    resolve(response.status(), location.as_deref(), from)
}

fn resolve(status: StatusCode, location: Option<&str>, from: &Url) -> Result<Option<Url>, String> {
    let Some(location) = location.filter(|_| status.is_redirection()) else { return Ok(None) };
    let target = from.join(location).ok();
    let keeps_request = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    if let Some(target) = target.as_ref().filter(|target| keeps_request && target.origin() == from.origin()) {
        return Ok(Some(target.clone()));
    }
    // Without its query, which may be secret.
    let address = target.map_or_else(
        || location.to_owned(),
        |target| format!("{}{}", target.origin().ascii_serialization(), target.path()),
    );
    let address: String = printable(&address).chars().take(MAX_ADDRESS_CHARS).collect();
    Err(format!("HTTP {status}: it redirects to {address}; if you trust this address, configure it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve_location(from: &Url, status: u16, location: &str) -> Result<Option<String>, String> {
        let target = resolve(StatusCode::from_u16(status).unwrap(), Some(location), from);
        target.map(|target| target.map(String::from))
    }

    #[test]
    fn redirects_keep_to_the_origin_and_the_request() {
        let from = Url::parse("https://a.example:8443/mcp").unwrap();
        assert_eq!(resolve_location(&from, 307, "/mcp/"), Ok(Some("https://a.example:8443/mcp/".to_owned())));
        assert_eq!(
            resolve_location(&from, 308, "https://a.example:8443/x?y=1"),
            Ok(Some("https://a.example:8443/x?y=1".to_owned()))
        );
        assert_eq!(resolve_location(&from, 200, "/mcp/"), Ok(None));
        for (status, location, words) in [
            (307, "https://b.example/mcp?token=1", "redirects to https://b.example/mcp;"),
            (308, "http://a.example:8443/mcp", "redirects to http://a.example:8443/mcp;"),
            (302, "/mcp/", "HTTP 302 Found: it redirects to https://a.example:8443/mcp/;"),
        ] {
            let why = resolve_location(&from, status, location).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }
}
