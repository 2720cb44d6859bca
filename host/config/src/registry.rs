//! `[registry]`: which components of registries may be used, and the way to them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::{Bytes, Time};
use crate::text::TextSource;

/// The rule for signatures of components from registries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// The policy for components of registries, and how to reach registries.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistrySection {
    /// Allowed names, as "HOST/NAME", such as "ghcr.io/acme/**": `*` is one part, `**` any number of parts. Default:
    /// all names.
    pub allow: Option<Vec<String>>,
    /// The rule for signatures: "required" (default), "warn" or "off".
    #[serde(default)]
    pub signatures: SignatureRule,
    /// Public keys of publishers, for names that `trusted` does not list: PEM, its base64 alone, or { file = "PATH" }.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trusted_keys: Vec<TextSource>,
    /// For names that match a pattern, such as "ghcr.io/acme/**", only these keys are trusted. The longest matching
    /// pattern applies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub trusted: BTreeMap<String, Vec<TextSource>>,
    /// Maximum size of a component. Default: 64MiB.
    pub max_bytes: Option<Bytes>,
    /// Minimum age of a signature, such as "3days", so that others can find fresh malware first. Default: none.
    pub min_age: Option<Time>,
    /// Digests of refused manifests and components, as "sha256:…".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub revoked: Vec<String>,
    /// Mirrors of registries, tried in this order before the registry. Names and signatures are still the registry's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mirrors: BTreeMap<String, Vec<String>>,
    /// Files with root certificates in PEM, in addition to the system's. Paths are relative to this configuration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tls_roots: Vec<PathBuf>,
    /// The proxy for all requests, "http://HOST:PORT". Default: none; proxy variables of the environment are ignored.
    pub proxy: Option<String>,
    /// Registries, "HOST[:PORT]", to contact without encryption. Default: registries on this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plain_http: Vec<String>,
    /// Registries on this machine, "HOST[:PORT]", to contact with encryption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub https: Vec<String>,
    /// Hosts with private addresses, "HOST[:PORT]", to which registries may redirect downloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirect_hosts: Vec<String>,
    /// Hosts, "HOST[:PORT]", of authorization services at another site than their registry, or at private addresses.
    /// They get the registry's password.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub token_hosts: Vec<String>,
    /// Indexes for `fumehood search`, under the names in their signatures.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub indexes: BTreeMap<String, IndexSection>,
}

/// An index: a signed list of components.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IndexSection {
    /// The URL of the index. Set either `url` or `file`.
    pub url: Option<String>,
    /// The file with the index, relative to this configuration.
    pub file: Option<PathBuf>,
    /// Public keys that verify it: PEM, its base64 alone, or { file = "PATH" }.
    pub keys: Vec<TextSource>,
}
