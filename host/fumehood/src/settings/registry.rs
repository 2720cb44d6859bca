//! Components of registries: the store that they are kept in, and those that may be used.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::PathBuf;

use fumehood_registry::client::RegistryClient;
use fumehood_registry::credentials::CredentialSource;
use fumehood_registry::http::{HttpConfig, Scheme};
use fumehood_registry::policy::{self, Pattern, Policy};
use fumehood_registry::signature::PublicKey;
use fumehood_registry::store::Store;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Time};
use super::error::SettingsError;
use super::text::{TextFile, TextSource};
use crate::load::registry_source::RegistrySource;

/// Maximum size of a file with a public key, in bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// The rule for signatures of components from registries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SignatureRule {
    /// A component needs a signature by a trusted key.
    #[default]
    Required,
    /// A component without one is used, and the reason is shown.
    Warn,
    /// Signatures are not checked.
    Off,
}

impl From<SignatureRule> for policy::SignatureRule {
    fn from(rule: SignatureRule) -> Self {
        match rule {
            SignatureRule::Required => Self::Required,
            SignatureRule::Warn => Self::Warn,
            SignatureRule::Off => Self::Off,
        }
    }
}

/// Components of registries, for a host inside another program: the settings of `[registry]` that such a program needs, with the folder
/// of the store. Paths are relative to the working folder.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RegistrySettings {
    /// The folder that components are kept in.
    pub store: PathBuf,
    /// True if only what is in the store is used.
    #[serde(default)]
    pub offline: bool,
    /// Allowed names, as "HOST/NAME": `*` is one part, `**` any number of parts. Default: all names.
    pub allow: Option<Vec<String>>,
    /// The rule for signatures. Default: required.
    #[serde(default)]
    pub signatures: SignatureRule,
    /// Public keys of publishers, for names that `trusted` does not list.
    #[serde(default)]
    pub trusted_keys: Vec<TextSource>,
    /// The only trusted keys for names that match a pattern.
    #[serde(default)]
    pub trusted: BTreeMap<String, Vec<TextSource>>,
    /// Maximum size of a component. The default is 64 MiB.
    pub max_bytes: Option<Bytes>,
    /// Minimum age of a signature. The default is none.
    pub min_age: Option<Time>,
    /// Digests of manifests and components that are refused.
    #[serde(default)]
    pub revoked: Vec<String>,
    /// Mirrors of registries, tried in this order before the registry.
    #[serde(default)]
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// The proxy for all requests. Default: none; proxy variables of the environment are ignored.
    pub proxy: Option<String>,
    /// Registries, `HOST[:PORT]`, to contact without encryption. Default: registries on this machine.
    #[serde(default)]
    pub plain_http: Vec<String>,
}

impl RegistrySettings {
    /// Creates the source of components.
    ///
    /// # Errors
    /// If the store cannot be opened, or a key, a pattern, a digest or the proxy cannot be used.
    pub fn source(&self) -> Result<RegistrySource, SettingsError> {
        let folder = std::path::absolute(&self.store).map_err(|error| wrong("store", &error))?;
        let store = Store::open(folder).map_err(|error| wrong("store", &error))?;
        let source = RegistrySource::new(store, self.policy()?);
        if self.offline {
            return Ok(source);
        }
        let mut http = HttpConfig::new();
        for host in &self.plain_http {
            http = http.scheme(host, Scheme::Http);
        }
        if let Some(proxy) = &self.proxy {
            http = http.proxy(proxy);
        }
        let credentials = CredentialSource::standard(&|name| std::env::var_os(name));
        let mut builder = RegistryClient::builder().http(http).credentials(credentials);
        for (registry, mirrors) in &self.mirrors {
            for mirror in mirrors {
                builder = builder.mirror(registry, mirror);
            }
        }
        Ok(source.client(builder.build().map_err(|error| wrong("proxy", &error))?))
    }

    fn policy(&self) -> Result<Policy, SettingsError> {
        let mut policy = Policy::new().signatures(self.signatures.into());
        policy = policy.trusted_keys(keys("trusted_keys", &self.trusted_keys)?);
        for (names, trusted) in &self.trusted {
            policy = policy.trusted(parse_pattern("trusted", names)?, keys("trusted", trusted)?);
        }
        if let Some(allow) = &self.allow {
            let patterns = allow.iter().map(|text| parse_pattern("allow", text)).collect::<Result<Vec<_>, _>>()?;
            policy = policy.allow(patterns);
        }
        if let Some(bytes) = self.max_bytes {
            policy = policy.max_bytes(bytes.0 as u64);
        }
        if let Some(age) = self.min_age {
            policy = policy.min_age(age.0);
        }
        let revoked = self.revoked.iter().map(|digest| digest.parse().map_err(|error| wrong("revoked", &error)));
        Ok(policy.revoked(revoked.collect::<Result<Vec<_>, _>>()?))
    }
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
