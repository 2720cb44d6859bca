//! The address of a PostgreSQL server, and the encryption of connections to it.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Maximum time of one attempt to connect, unless the URL has another one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The port of a URL that names none.
const DEFAULT_PORT: u16 = 5432;

/// Time after which a connection whose server no longer answers is given up, unless the URL has another one.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(15);

/// Settings of connections to a PostgreSQL server.
#[derive(Clone, Default)]
pub struct ServerSettings {
    /// The URL, such as `postgres://fumehood@db.example/fumehood`, as libpq reads it.
    pub url: String,
    /// The password, instead of one in the URL.
    pub password: Option<String>,
    /// Certificates that vouch for the server, in PEM, instead of those of the system.
    pub tls_roots: Option<Vec<u8>>,
    /// True if records may cross a network without encryption.
    pub unencrypted: bool,
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings").field("unencrypted", &self.unencrypted).finish_non_exhaustive()
    }
}

impl ServerSettings {
    /// Checks the URL, and returns the address without a password.
    ///
    /// # Errors
    /// If it cannot be read, or would send records unencrypted to another machine.
    pub fn check(&self) -> Result<String, SettingsError> {
        Ok(place_of(&self.config()?))
    }

    /// Returns the settings of the URL, with the encryption that the server needs.
    fn config(&self) -> Result<Config, SettingsError> {
        let mut config: Config = self.url.parse().map_err(|error| SettingsError::Url(describe(&error)))?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(SettingsError::NoHost);
        }
        let is_here = is_on_this_machine(&config);
        config.ssl_mode(match config.get_ssl_mode() {
            SslMode::Disable if !is_here && !self.unencrypted => {
                return Err(SettingsError::Unencrypted(place_of(&config)));
            }
            // Of the mode `prefer`, which falls back to no encryption, nothing is left: one of the two is certain.
            SslMode::Prefer if is_here || self.unencrypted => SslMode::Disable,
            SslMode::Prefer => SslMode::Require,
            mode => mode,
        });
        Ok(config)
    }
}

/// Errors in the settings of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The URL cannot be read. The text of the URL may hold a password, so it is not repeated.
    #[error("invalid PostgreSQL URL: {0}; expected \"postgres://USER@HOST/DATABASE\"")]
    Url(String),
    /// The URL names no server.
    #[error("the URL has no server; expected \"postgres://USER@HOST/DATABASE\"")]
    NoHost,
    /// The URL turns encryption off for a server elsewhere.
    #[error("records would be sent unencrypted to `{0}`; remove `sslmode` from the URL, or set `unencrypted = true`")]
    Unencrypted(String),
    /// The certificates cannot be used.
    #[error("invalid certificates for the server: {0}; expected PEM with `BEGIN CERTIFICATE`")]
    Roots(String),
}

/// A PostgreSQL server, and how connections to it are made.
#[derive(Clone)]
pub struct Server {
    pub(super) config: Arc<Config>,
    pub(super) tls: MakeRustlsConnect,
    place: Arc<str>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Server {
    /// Prepares connections. Connects to nothing.
    ///
    /// # Errors
    /// If the URL cannot be read, would send records unencrypted to another machine, or a certificate is malformed.
    pub fn new(settings: &ServerSettings) -> Result<Self, SettingsError> {
        let mut config = settings.config()?;
        if let Some(password) = &settings.password {
            config.password(password);
        }
        if config.get_application_name().is_none() {
            config.application_name("fumehood");
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE_TIMEOUT);
            config.keepalives_idle(CONNECT_TIMEOUT).keepalives_interval(CONNECT_TIMEOUT).keepalives_retries(2);
        }
        let tls = match config.get_ssl_mode() {
            SslMode::Disable => plain(),
            _ => encrypted(settings.tls_roots.as_deref()),
        };
        let tls = MakeRustlsConnect::new(tls.map_err(|error| SettingsError::Roots(error.to_string()))?);
        let place = place_of(&config).into();
        Ok(Self { config: Arc::new(config), tls, place })
    }

    /// Returns the address without the password, for messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// Returns whether every address of a server is this machine: a socket of the file system, or loopback.
fn is_on_this_machine(config: &Config) -> bool {
    let is_here = |host: &Host| match host {
        Host::Tcp(name) => name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback()),
        #[allow(unreachable_patterns, reason = "elsewhere than on Unix there is no other kind")]
        _ => true,
    };
    match config.get_hostaddrs() {
        [] => config.get_hosts().iter().all(is_here),
        addresses => addresses.iter().all(IpAddr::is_loopback),
    }
}

/// Returns the URL without the password and the parameters.
fn place_of(config: &Config) -> String {
    let name = |host: &Host| match host {
        Host::Tcp(name) => name.clone(),
        #[allow(unreachable_patterns, reason = "elsewhere than on Unix there is no other kind")]
        other => format!("{other:?}").trim_start_matches("Unix(\"").trim_end_matches("\")").to_owned(),
    };
    let mut hosts: Vec<String> = config.get_hosts().iter().map(name).collect();
    if hosts.is_empty() {
        hosts = config.get_hostaddrs().iter().map(ToString::to_string).collect();
    }
    // Said only where it is not the usual one.
    let ports = config.get_ports().iter().filter(|port| **port != DEFAULT_PORT);
    let ports = ports.map(|port| format!(":{port}")).collect::<Vec<_>>().join(",");
    let user = config.get_user().map(|user| format!("{user}@")).unwrap_or_default();
    format!("postgres://{user}{}{ports}/{}", hosts.join(","), config.get_dbname().unwrap_or_default())
}

/// Describes an error of parsing without the text that was parsed.
fn describe(error: &tokio_postgres::Error) -> String {
    let source = std::error::Error::source(error);
    source.map_or_else(|| error.to_string(), ToString::to_string)
}

type TlsError = Box<dyn std::error::Error + Send + Sync>;

/// Returns settings that trust nobody, for connections without encryption.
fn plain() -> Result<ClientConfig, TlsError> {
    Ok(builder()?.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

/// Returns settings that trust these certificates, or those of the system.
fn encrypted(roots: Option<&[u8]>) -> Result<ClientConfig, TlsError> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let Some(pem) = roots else { return Ok(builder()?.with_platform_verifier()?.with_no_client_auth()) };
    let mut trusted = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        trusted.add(certificate.map_err(|_| "a certificate is not PEM")?)?;
    }
    if trusted.is_empty() {
        return Err("it contains no certificate".into());
    }
    Ok(builder()?.with_root_certificates(trusted).with_no_client_auth())
}

fn builder() -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str, unencrypted: bool) -> Result<Server, SettingsError> {
        Server::new(&ServerSettings { url: url.to_owned(), unencrypted, ..ServerSettings::default() })
    }

    #[test]
    fn encrypts_connections_to_other_machines_only() {
        for here in ["localhost", "127.0.0.1:5433", "[::1]", "%2Frun%2Fpostgresql"] {
            check_ssl_mode(&format!("postgres://u@{here}/d"), false, SslMode::Disable);
            check_ssl_mode(&format!("postgres://u@{here}/d?sslmode=require"), false, SslMode::Require);
        }
        for elsewhere in ["db.example", "10.0.0.1", "localhost.example", "localhost,db.example"] {
            check_ssl_mode(&format!("postgres://u@{elsewhere}/d"), false, SslMode::Require);
            check_ssl_mode(&format!("postgres://u@{elsewhere}/d?sslmode=prefer"), false, SslMode::Require);
            check_ssl_mode(&format!("postgres://u@{elsewhere}/d"), true, SslMode::Disable);
            let plain = server(&format!("postgres://u@{elsewhere}/d?sslmode=disable"), false).unwrap_err();
            assert!(matches!(plain, SettingsError::Unencrypted(_)), "{plain}");
        }
        // The address that is connected to counts, and not the name that its certificate is for.
        check_ssl_mode("postgres://u@localhost/d?hostaddr=10.0.0.1", false, SslMode::Require);
    }

    fn check_ssl_mode(url: &str, unencrypted: bool, expected: SslMode) {
        let found = server(url, unencrypted).unwrap().config.get_ssl_mode();
        assert_eq!(found, expected, "{url}");
    }

    #[test]
    fn place_has_no_password() {
        let found = server("postgres://ann:s3cret@127.0.0.1:5433/log?application_name=x", false).unwrap();
        assert_eq!(found.place(), "postgres://ann@127.0.0.1:5433/log");
        assert!(!format!("{found:?}").contains("s3cret"));
        let socket = server("postgres://ann:s3cret@%2Frun%2Fpostgresql/log", false).unwrap();
        assert_eq!(socket.place(), "postgres://ann@/run/postgresql/log");
    }

    #[test]
    fn malformed_settings_are_explained_without_the_url() {
        for wrong in ["postgres://ann:s3cret@host:port/d", "mysql://ann:s3cret@host/d", "postgres:///d?nonsense=s3cret"]
        {
            let error = server(wrong, false).unwrap_err().to_string();
            assert!(!error.contains("s3cret") && error.contains("postgres://USER@HOST/DATABASE"), "{error}");
        }
        assert_eq!(server("postgres:///d", false).unwrap_err(), SettingsError::NoHost);
        let roots = ServerSettings {
            url: "postgres://db.example/d".to_owned(),
            tls_roots: Some(b"no certificate".to_vec()),
            ..ServerSettings::default()
        };
        assert!(matches!(Server::new(&roots), Err(SettingsError::Roots(_))));
    }
}
