//! TLS: the trusted certificates, the protocol, and encrypting a connection.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

/// Errors of [`Network::with_roots`](crate::Network::with_roots).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The list is empty.
    #[error("the list of root certificates is empty; add one, or set no list to use the system's")]
    None,
    /// An entry is not a certificate.
    #[error("root certificate {index} is invalid; expected DER")]
    NoCertificate {
        /// Its index, from 0.
        index: usize,
        /// The error of the library.
        source: rustls::Error,
    },
    /// The TLS library refuses the settings.
    #[error("cannot set up TLS")]
    Settings(#[source] rustls::Error),
}

/// Errors of encrypting a connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("the host trusts no certificates: {0}")]
    NoTrust(String),
    #[error("the certificate is not trusted, or not for this host")]
    Certificate,
    #[error("the TLS handshake failed")]
    Handshake,
}

impl From<io::Error> for TlsError {
    fn from(error: io::Error) -> Self {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(rustls::Error::InvalidCertificate(_)) => Self::Certificate,
            _ => Self::Handshake,
        }
    }
}

/// The settings of encrypted connections. Reading the system's certificates takes a while, and a machine may have none,
/// so they are read when the first request needs them.
pub(crate) struct Tls {
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Tls {
    pub(crate) fn from_system() -> Self {
        Self { config: OnceLock::new() }
    }

    pub(crate) fn from_roots(roots: &[Vec<u8>]) -> Result<Self, TrustError> {
        let mut store = RootCertStore::empty();
        for (index, root) in roots.iter().enumerate() {
            let root = CertificateDer::from(root.clone());
            store.add(root).map_err(|source| TrustError::NoCertificate { index, source })?;
        }
        if store.is_empty() {
            return Err(TrustError::None);
        }
        let config = builder().map_err(TrustError::Settings)?.with_root_certificates(store).with_no_client_auth();
        Ok(Self { config: OnceLock::from(Ok(Arc::new(restrict_to_http1(config)))) })
    }

    /// Encrypts a connection to this host. The first call may read all certificates of the system.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        host: &Host,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, TlsError> {
        let config = self.config().await.map_err(TlsError::NoTrust)?;
        let name = match host {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| TlsError::Certificate)?,
            Host::Ipv4(address) => ServerName::from(IpAddr::V4(*address)),
            Host::Ipv6(address) => ServerName::from(IpAddr::V6(*address)),
        };
        Ok(TlsConnector::from(config).connect(name, stream).await?)
    }

    /// Returns the settings, or the reason that there are none.
    async fn config(self: &Arc<Self>) -> Result<Arc<ClientConfig>, String> {
        if let Some(config) = self.config.get() {
            return config.clone();
        }
        let tls = Arc::clone(self);
        let reading = tokio::task::spawn_blocking(move || tls.config.get_or_init(load_system_config).clone());
        reading.await.unwrap_or_else(|_| Err("the host is shutting down".to_owned()))
    }
}

fn load_system_config() -> Result<Arc<ClientConfig>, String> {
    let config = builder().and_then(|builder| builder.with_platform_verifier()).map_err(|error| error.to_string())?;
    Ok(Arc::new(restrict_to_http1(config.with_no_client_auth())))
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

/// Restricts the protocol to HTTP/1.1, and disables session resumption, so that calls share nothing.
fn restrict_to_http1(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = rustls::client::Resumption::disabled();
    config
}
