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
use super::fault::KeyFault;
use super::file::Config;
use super::tool::{ApprovalRule, ToolSection};

/// Components of registries: which of them may be used, and the way to them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegistrySection {
    /// Names that may be used, as "HOST/NAME", with `*` for one part and `**` for any, such as "ghcr.io/acme/**". Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) allow: Option<Vec<String>>,
    /// Signatures: "required" (usual), "warn" or "off".
    #[serde(default)]
    pub(crate) signatures: SignatureRule,
    /// Public keys of publishers, for every name that `trusted` does not have: PEM, its base64 alone, or { file = "…" }.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) trusted_keys: Vec<TextSource>,
    /// Public keys for the names of a pattern, such as "ghcr.io/acme/**", and no others. The longest pattern decides.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) trusted: BTreeMap<String, Vec<TextSource>>,
    /// Maximum size of a component. Usually 64MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) max_bytes: Option<Bytes>,
    /// Minimum age of a signature, such as "3days", so that fresh malware can be found by others first. Usually none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) min_age: Option<Time>,
    /// Digests of manifests and components that are refused, as "sha256:…".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) revoked: Vec<String>,
    /// Mirrors of registries, asked in this order before the registry itself. Names and signatures stay those of the registry.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) mirrors: BTreeMap<String, Vec<String>>,
    /// Files with root certificates in PEM, besides those of the system. Paths are relative to this configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tls_roots: Vec<PathBuf>,
    /// The proxy for all requests, "http://HOST:PORT". Usually none, whatever the environment says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) proxy: Option<String>,
    /// Registries, "HOST[:PORT]", that are asked without encryption. Usually those of this machine alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) plain_http: Vec<String>,
    /// Registries of this machine, "HOST[:PORT]", that are asked with encryption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) https: Vec<String>,
    /// Hosts, "HOST[:PORT]", that registries may redirect downloads to, although their addresses are private.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redirect_hosts: Vec<String>,
    /// Hosts, "HOST[:PORT]", of authorization services that registries may name although they are of another site, or have private
    /// addresses. They get the passwords of these registries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) token_hosts: Vec<String>,
    /// Lists of components for `fumehood search`, each under the name that it was signed with.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) indexes: BTreeMap<String, IndexSection>,
}

/// A list of components: one signed file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct IndexSection {
    /// The address of the file. Either this or `file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<String>,
    /// The file. The path is relative to this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<PathBuf>,
    /// Public keys that may sign it: PEM, its base64 alone, or { file = "…" }.
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
    let mut add = |keys: &[&str], message: String| {
        let path = ["registry"].iter().chain(keys).map(|key| (*key).to_owned()).collect();
        faults.push((path, message));
    };
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
        add(&["max_bytes"], "no component has no bytes; leave it out for 64MiB".to_owned());
    }
    for (name, index) in &registry.indexes {
        if index.url.is_some() == index.file.is_some() {
            add(&["indexes", name], format!("the index `{name}` needs either `url` or `file`"));
        }
        if index.keys.is_empty() {
            add(
                &["indexes", name, "keys"],
                format!("no key may sign the index `{name}`; add the key of its publisher"),
            );
        }
    }
}

fn check_place(faults: &mut Vec<KeyFault>, name: &str, tool: &ToolSection) {
    let mut add = |keys: &[&str], message: String| {
        let path = ["tools", name].iter().chain(keys).map(|key| (*key).to_owned()).collect();
        faults.push((path, message));
    };
    match tool.place() {
        Err(message) if tool.reference.is_some() && tool.component.is_none() => add(&["reference"], message),
        Err(message) => add(&[], format!("[tools.{name}]: {message}")),
        Ok(Place::Reference(Reference::Oci(oci))) if tool.approval == ApprovalRule::Off && oci.digest().is_none() => {
            let message = format!(
                "`{oci}` may become another component at any time, and without approval nothing pins it; add its digest, \
                 `@sha256:…`, or leave `approval` out"
            );
            add(&["reference"], message);
        }
        Ok(_) => {}
    }
}
