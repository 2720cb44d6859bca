//! TLS: the certificates that connections are checked with.

use std::error::Error;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::{BuilderVerifierExt as _, Verifier};

/// The root certificates that servers are checked with.
#[derive(Debug, Clone, Default)]
pub enum Roots {
    /// Those of the system.
    #[default]
    System,
    /// Those of the system and these, in PEM. A system without any is no error if these are empty.
    SystemAnd(Vec<Vec<u8>>),
    /// None: for plain HTTP alone, so that a small container without certificates can use it.
    None,
}

impl Roots {
    /// Returns the system's certificates if they are needed.
    #[must_use]
    pub fn if_encrypted(is_encrypted: bool) -> Self {
        if is_encrypted { Self::System } else { Self::None }
    }

    pub(crate) fn config(&self) -> Result<ClientConfig, Box<dyn Error + Send + Sync>> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let extra = match self {
            Self::None => {
                return Ok(builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth());
            }
            Self::System => return Ok(builder.with_platform_verifier()?.with_no_client_auth()),
            Self::SystemAnd(extra) => extra,
        };
        match Verifier::new_with_extra_roots(parse_roots(extra)?, provider) {
            // The platform's own verifier is what the call of this name is made for; it checks names and dates as any other.
            Ok(verifier) => {
                Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth())
            }
            Err(_) if extra.is_empty() => Self::None.config(),
            Err(error) => Err(error.into()),
        }
    }
}

fn parse_roots(extra: &[Vec<u8>]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let mut roots = Vec::new();
    for pem in extra {
        let before = roots.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            roots.push(certificate.map_err(|_| "a root certificate is not PEM")?.into_owned());
        }
        if roots.len() == before {
            return Err("a file of root certificates is empty; expected PEM with `BEGIN CERTIFICATE`");
        }
    }
    Ok(roots)
}
