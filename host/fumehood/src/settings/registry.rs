//! The registry's client of a host inside another program, made from its settings.

use std::fmt::Display;

use fumehood_config::embedding::RegistrySettings;
use fumehood_config::registry::SignatureRule;
use fumehood_config::text::{TextFile, TextSource};
use fumehood_registry::client::RegistryClient;
use fumehood_registry::credentials::CredentialSource;
use fumehood_registry::http::{HttpConfig, Scheme};
use fumehood_registry::policy::{self, Pattern, Policy};
use fumehood_registry::signature::PublicKey;
use fumehood_registry::store::Store;

use super::error::SettingsError;
use crate::load::registry_source::RegistrySource;

/// Maximum size of a file with a public key, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// Returns the rule as the registry's policy has it.
#[must_use]
pub fn signature_rule(rule: SignatureRule) -> policy::SignatureRule {
    match rule {
        SignatureRule::Required => policy::SignatureRule::Required,
        SignatureRule::Warn => policy::SignatureRule::Warn,
        SignatureRule::Off => policy::SignatureRule::Off,
    }
}

/// Creates the source of components.
///
/// # Errors
/// If the store cannot be opened, or a key, a pattern, a digest or the proxy cannot be used.
pub(super) fn source(settings: &RegistrySettings) -> Result<RegistrySource, SettingsError> {
    let folder = std::path::absolute(&settings.store).map_err(|error| wrong("store", &error))?;
    let store = Store::open(folder).map_err(|error| wrong("store", &error))?;
    let source = RegistrySource::new(store, policy(settings)?);
    if settings.offline {
        return Ok(source);
    }
    let mut http = HttpConfig::new();
    for host in &settings.plain_http {
        http = http.scheme(host, Scheme::Http);
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
    Ok(source.client(builder.build().map_err(|error| wrong("proxy", &error))?))
}

fn policy(settings: &RegistrySettings) -> Result<Policy, SettingsError> {
    let mut policy = Policy::new().signatures(signature_rule(settings.signatures));
    policy = policy.trusted_keys(keys("trusted_keys", &settings.trusted_keys)?);
    for (names, trusted) in &settings.trusted {
        policy = policy.trusted(parse_pattern("trusted", names)?, keys("trusted", trusted)?);
    }
    if let Some(allow) = &settings.allow {
        let patterns = allow.iter().map(|text| parse_pattern("allow", text)).collect::<Result<Vec<_>, _>>()?;
        policy = policy.allow(patterns);
    }
    if let Some(bytes) = settings.max_bytes {
        policy = policy.max_bytes(bytes.0 as u64);
    }
    if let Some(age) = settings.min_age {
        policy = policy.min_age(age.0);
    }
    let revoked = settings.revoked.iter().map(|digest| digest.parse().map_err(|error| wrong("revoked", &error)));
    Ok(policy.revoked(revoked.collect::<Result<Vec<_>, _>>()?))
}

fn wrong(setting: &str, error: &dyn Display) -> SettingsError {
    SettingsError::setting(format!("registry.{setting}"), error)
}

fn parse_pattern(setting: &str, text: &str) -> Result<Pattern, SettingsError> {
    text.parse().map_err(|error| wrong(setting, &error))
}

/// Reads public keys.
fn keys(setting: &str, sources: &[TextSource]) -> Result<Vec<PublicKey>, SettingsError> {
    let read = |source: &TextSource| {
        let text = match source {
            TextSource::Here(text) => text.clone(),
            TextSource::InFile(TextFile { file }) => {
                let failed = |error: &dyn Display| wrong(setting, &format!("{}: {error}", file.display()));
                let size = std::fs::metadata(file).map_err(|error| failed(&error))?.len();
                if size > MAX_KEY_BYTES {
                    return Err(failed(&format!("it has {size} bytes, which is too large for a key")));
                }
                std::fs::read_to_string(file).map_err(|error| failed(&error))?
            }
        };
        text.parse().map_err(|error| wrong(setting, &error))
    };
    sources.iter().map(read).collect()
}
