//! The HTTP client of this crate: no redirects, no proxy, and TLS with the system's root certificates.

use std::sync::Arc;
use std::time::Duration;

/// Creates a client. Without encryption it has no root certificates, so that it works in a container that has none.
///
/// # Errors
/// If the root certificates cannot be read.
pub(crate) fn http_client(
    encrypted: bool,
    timeout: Duration,
) -> Result<reqwest::Client, Box<dyn std::error::Error + Send + Sync>> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = match encrypted {
        true => tls.with_platform_verifier()?.with_no_client_auth(),
        false => tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth(),
    };
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy();
    Ok(client.redirect(reqwest::redirect::Policy::none()).timeout(timeout).build()?)
}
