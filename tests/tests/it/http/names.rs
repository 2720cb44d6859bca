//! Requests over TLS: the certificate must be for the requested name, and from a trusted issuer.

use std::sync::Arc;

use fumehood::permission::http::HttpLimits;
use fumehood::{ErrorKind, Host, HostBuilder};

use super::server::{Server, ok};
use super::stage::{LOCAL, Names, Stage, answer, failed, requests};

/// Returns the builder of a host that trusts a certificate for this name, and the settings of a server that has it.
pub(crate) fn trusting(name: &str) -> (HostBuilder, Arc<rustls::ServerConfig>) {
    let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let builder = Host::builder().resolver(Names::local()).trusted_roots(&[certificate.to_vec()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key.into())
        .unwrap();
    (builder, Arc::new(config))
}

#[tokio::test]
async fn a_trusted_certificate_for_the_name_is_accepted() {
    let (builder, config) = trusting("safe.test");
    let server = Server::start_tls(config, |stream, _| ok(stream, "private"));
    let at = server.at("safe.test");
    let grant = requests(&[&format!("GET https://{at}/**")], LOCAL, HttpLimits::default());
    let stage = Stage::with(builder, grant).await;
    assert_eq!(answer(&stage.fetch(&format!("GET https://{at}/a")).await).1, "private");
    assert!(server.seen.head().contains(&format!("host: {at}\r\n")));
}

#[tokio::test]
async fn another_name_another_issuer_and_no_encryption_are_refused() {
    let (builder, config) = trusting("safe.test");
    let (other_builder, _) = trusting("safe.test");
    let server = Server::start_tls(config, |stream, _| ok(stream, "private"));
    let plain =
        Server::start_raw(|mut stream, _| drop(std::io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n")));
    let [safe, other, open] = [server.at("safe.test"), server.at("other.test"), plain.at("safe.test")];
    let rules: Vec<String> = [&safe, &other, &open].iter().map(|at| format!("GET https://{at}/**")).collect();
    let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
    let grant = requests(&rules, LOCAL, HttpLimits::default());
    let stage = Stage::with(builder, grant.clone()).await;
    failed(&stage.fetch(&format!("GET https://{other}/")).await, ErrorKind::ToolFailed, "TLS-certificate-error");
    failed(&stage.fetch(&format!("GET https://{open}/")).await, ErrorKind::ToolFailed, "TLS-protocol-error");
    let stage = Stage::with(other_builder, grant).await;
    failed(&stage.fetch(&format!("GET https://{safe}/")).await, ErrorKind::ToolFailed, "TLS-certificate-error");
    assert!(server.seen.heads().is_empty());
}

#[test]
fn roots_that_are_none_are_refused() {
    let refused = |roots: &[Vec<u8>]| Host::builder().trusted_roots(roots).unwrap_err().to_string();
    assert!(refused(&[]).contains("the list of root certificates is empty"));
    assert!(refused(&[b"hello".to_vec()]).contains("root certificate 0"));
}
