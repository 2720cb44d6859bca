//! The client of registries, set up from options and configuration, and the progress of what it sends or gets.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use fumehood_config::registry::RegistrySection;
use fumehood_registry::client::RegistryClient;
use fumehood_registry::credentials::CredentialSource;
use fumehood_registry::error::RegistryError;
use fumehood_registry::http::{HttpConfig, Scheme};
use indicatif::{ProgressBar, ProgressStyle};

use crate::logging;

/// Maximum size of a file with root certificates, in bytes.
const MAX_ROOTS_BYTES: u64 = 1 << 20;
/// Interval at which a progress bar is drawn anew, in milliseconds.
const DRAW_INTERVAL_MS: u64 = 100;

/// An error of setting up the client.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistrySetupError {
    /// A file with root certificates cannot be read.
    #[error("cannot read the root certificates in {}: {reason}; expected certificates in PEM", path.display())]
    Roots { path: PathBuf, reason: String },
    /// The client refuses a setting.
    #[error(transparent)]
    Client(#[from] RegistryError),
}

/// Sets up the client of registries, with the credentials of Docker and Podman.
///
/// # Errors
/// If root certificates cannot be read, or a setting is malformed.
pub(crate) fn registry_client(settings: &RegistrySection) -> Result<RegistryClient, RegistrySetupError> {
    let mut http = HttpConfig::new();
    for host in &settings.plain_http {
        http = http.scheme(host, Scheme::Http);
    }
    for host in &settings.https {
        http = http.scheme(host, Scheme::Https);
    }
    for host in &settings.token_hosts {
        http = http.token_host(host);
    }
    for host in &settings.redirect_hosts {
        http = http.redirect_host(host);
    }
    for path in &settings.tls_roots {
        http = http.extra_roots(read_roots(path)?);
    }
    if let Some(proxy) = &settings.proxy {
        http = http.proxy(proxy);
    }
    let credentials = CredentialSource::standard(&|name| std::env::var_os(name));
    let mut builder = RegistryClient::builder().http(http).credentials(credentials);
    for (registry, mirrors) in &settings.mirrors {
        for mirror in mirrors {
            builder = builder.mirror(registry, mirror);
        }
    }
    Ok(builder.build()?)
}

fn read_roots(path: &std::path::Path) -> Result<Vec<u8>, RegistrySetupError> {
    let failed = |reason: String| RegistrySetupError::Roots { path: path.to_owned(), reason };
    let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if size > MAX_ROOTS_BYTES {
        return Err(failed(format!("it has {size} bytes; the maximum is {MAX_ROOTS_BYTES}")));
    }
    std::fs::read(path).map_err(|error| failed(error.to_string()))
}

/// Returns a progress bar for the bytes that are sent or received, drawn on standard error if it is a terminal. It is gone
/// when it is dropped.
pub(crate) fn transfer_bar(name: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} [{bar:30}] {bytes} of {total_bytes} ({bytes_per_sec})");
    let bar =
        ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar.set_message(fumehood::sanitize::printable(name).into_owned());
    bar.enable_steady_tick(Duration::from_millis(DRAW_INTERVAL_MS));
    logging::lift_bar(&bar);
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_setting_that_is_wrong() {
        let missing = RegistrySection { tls_roots: vec!["/nowhere.pem".into()], ..RegistrySection::default() };
        let error = registry_client(&missing).unwrap_err().to_string();
        assert!(error.contains("/nowhere.pem") && error.contains("expected certificates in PEM"), "{error}");
        let proxy = RegistrySection { proxy: Some("socks5://a".to_owned()), ..RegistrySection::default() };
        let error = registry_client(&proxy).unwrap_err().to_string();
        assert!(error.contains("proxy"), "{error}");
    }
}
