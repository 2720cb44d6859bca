//! `[registry]`: which components of registries may be used, and the way to them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fumehood::Digest;
pub(crate) use fumehood::settings::SignatureRule;
use fumehood::settings::TextSource;
use fumehood_registry::policy::Pattern;
use fumehood_registry::reference::{Reference, ReferenceError};
use fumehood_registry::signature::PublicKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Time};
use super::fault::{KeyFault, key_fault};
use super::file::Config;
use super::tool::{ApprovalRule, ToolSection};

/// The policy for components of registries, and how to reach registries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegistrySection {
    /// Allowed names, as "HOST/NAME", such as "ghcr.io/acme/**": `*` is one part, `**` any number of parts. Default:
    /// all names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allow: Option<Vec<String>>,
    /// The rule for signatures: "required" (default), "warn" or "off".
    #[serde(default)]
    pub(crate) signatures: SignatureRule,
    /// Public keys of publishers, for names that `trusted` does not list: PEM, its base64 alone, or { file = "PATH" }.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trusted_keys: Vec<TextSource>,
    /// For names that match a pattern, such as "ghcr.io/acme/**", only these keys are trusted. The longest matching
    /// pattern applies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) trusted: BTreeMap<String, Vec<TextSource>>,
    /// Maximum size of a component. Default: 64MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_bytes: Option<Bytes>,
    /// Minimum age of a signature, such as "3days", so that others can find fresh malware first. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min_age: Option<Time>,
    /// Digests of refused manifests and components, as "sha256:…".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) revoked: Vec<String>,
    /// Mirrors of registries, tried in this order before the registry. Names and signatures are still the registry's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) mirrors: BTreeMap<String, Vec<String>>,
    /// Files with root certificates in PEM, in addition to the system's. Paths are relative to this configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tls_roots: Vec<PathBuf>,
    /// The proxy for all requests, "http://HOST:PORT". Default: none; proxy variables of the environment are ignored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proxy: Option<String>,
    /// Registries, "HOST[:PORT]", to contact without encryption. Default: registries on this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) plain_http: Vec<String>,
    /// Registries on this machine, "HOST[:PORT]", to contact with encryption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) https: Vec<String>,
    /// Hosts with private addresses, "HOST[:PORT]", to which registries may redirect downloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redirect_hosts: Vec<String>,
    /// Hosts, "HOST[:PORT]", of authorization services at another site than their registry, or at private addresses.
    /// They get the registry's password.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) token_hosts: Vec<String>,
    /// Indexes for `fumehood search`, under the names in their signatures.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) indexes: BTreeMap<String, IndexSection>,
}

/// An index: a signed list of components.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexSection {
    /// The URL of the index. Set either `url` or `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// The file with the index, relative to this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    /// Public keys that verify it: PEM, its base64 alone, or { file = "PATH" }.
    pub(crate) keys: Vec<TextSource>,
}

/// The place of a configured component.
#[derive(Debug, Clone)]
pub(crate) enum Place<'a> {
    /// A file.
    File(&'a std::path::Path),
    /// A registry, or a URL.
    Reference(Reference),
}

impl ToolSection {
    /// Returns the place of the component.
    ///
    /// # Errors
    /// If it has none or two, or its reference is malformed.
    pub(crate) fn place(&self) -> Result<Place<'_>, String> {
        match (&self.component, &self.reference) {
            (Some(file), None) => Ok(Place::File(file)),
            (None, Some(text)) => match parse_reference(text) {
                Ok(reference) => Ok(Place::Reference(reference)),
                Err(error) => Err(error.to_string()),
            },
            (None, None) => Err("it has neither `component`, a file, nor `reference`; add one of them".to_owned()),
            (Some(_), Some(_)) => Err("it has both `component` and `reference`; leave one of them out".to_owned()),
        }
    }
}

/// Parses a reference to a registry or a URL; a path is none.
///
/// # Errors
/// If it is malformed.
pub(crate) fn parse_reference(text: &str) -> Result<Reference, ReferenceError> {
    match text.parse()? {
        Reference::File(_) => Err(ReferenceError::Unreadable(text.to_owned())),
        reference => Ok(reference),
    }
}

/// Adds the faults of `[registry]`, and of the places of components.
pub(super) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    for (name, tool) in &config.tools {
        check_place(faults, name, tool);
    }
    let registry = &config.registry;
    let mut add = |keys: &[&str], message: String| faults.push(key_fault(&["registry"], keys, message));
    for (index, pattern) in registry.allow.iter().flatten().enumerate() {
        if let Err(error) = pattern.parse::<Pattern>() {
            add(&["allow", &index.to_string()], error.to_string());
        }
    }
    for pattern in registry.trusted.keys() {
        if let Err(error) = pattern.parse::<Pattern>() {
            add(&["trusted", pattern], error.to_string());
        }
    }
    let lists = registry.trusted.iter().map(|(pattern, keys)| (vec!["trusted", pattern.as_str()], keys));
    let of_indexes = registry.indexes.iter().map(|(name, index)| (vec!["indexes", name.as_str(), "keys"], &index.keys));
    for (path, keys) in lists.chain(of_indexes).chain([(vec!["trusted_keys"], &registry.trusted_keys)]) {
        for (index, key) in keys.iter().enumerate() {
            // Files are read when they are needed: they may be those of another machine.
            let TextSource::Here(text) = key else { continue };
            if let Err(error) = text.parse::<PublicKey>() {
                add(&[&path[..], &[&index.to_string()]].concat(), error.to_string());
            }
        }
    }
    for (index, digest) in registry.revoked.iter().enumerate() {
        if let Err(error) = digest.parse::<Digest>() {
            add(&["revoked", &index.to_string()], error.to_string());
        }
    }
    if registry.max_bytes.is_some_and(|bytes| bytes.0 == 0) {
        add(&["max_bytes"], "expected more than 0 bytes, or leave it out for 64MiB".to_owned());
    }
    for (name, index) in &registry.indexes {
        if index.url.is_some() == index.file.is_some() {
            add(&["indexes", name], format!("the index `{name}` needs either `url` or `file`"));
        }
        if index.keys.is_empty() {
            add(&["indexes", name, "keys"], format!("the index `{name}` has no keys; add its publisher's key"));
        }
    }
}

fn check_place(faults: &mut Vec<KeyFault>, name: &str, tool: &ToolSection) {
    let mut add = |keys: &[&str], message: String| faults.push(key_fault(&["tools", name], keys, message));
    match tool.place() {
        Err(message) if tool.reference.is_some() && tool.component.is_none() => add(&["reference"], message),
        Err(message) => add(&[], format!("[tools.{name}]: {message}")),
        Ok(Place::Reference(Reference::Oci(oci))) if tool.approval == ApprovalRule::Off && oci.digest().is_none() => {
            let message = format!(
                "`{oci}` may change at any time, because without approval nothing pins it; add its digest, \
                 `@sha256:…`, or leave `approval` out"
            );
            add(&["reference"], message);
        }
        Ok(_) => {}
    }
}
