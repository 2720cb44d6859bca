//! Options of a host inside another program: the packages of other languages pass them as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::amount::{Bytes, Time};
use crate::limits::LimitsSection;
use crate::powers::Powers;
use crate::registry::SignatureRule;
use crate::text::TextSource;

/// Where calls run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HostIsolation {
    /// In the process of the host.
    #[default]
    InProcess,
    /// In worker processes, in a kernel jail.
    Process,
    /// In worker processes, and only with a complete jail.
    ProcessRequired,
}

/// Options of a host. Paths are relative to the working folder.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostSettings {
    /// The program `fumehood` that compiles components and runs workers. The default is the program of this package.
    pub program: PathBuf,
    /// Where calls run: in this process (default), in worker processes in a kernel jail, or only in worker processes with
    /// a complete jail.
    #[serde(default)]
    pub isolation: HostIsolation,
    /// Limits of calls without separate limits.
    #[serde(default)]
    pub limits: LimitsSection,
    /// A folder for compiled code. Without one it is in memory.
    pub cache: Option<PathBuf>,
    /// A file for the keys and values of tools. Without one they are in memory.
    pub key_value_store: Option<PathBuf>,
    /// Maximum number of running calls. Further calls wait.
    pub concurrency: Option<u32>,
    /// Maximum number of waiting calls. Further calls are refused.
    pub queue: Option<u32>,
    /// Maximum number of running HTTP requests of all calls together.
    pub http_in_flight: Option<u32>,
    /// The largest memory limit that a call may have.
    pub memory_ceiling: Option<Bytes>,
    /// Components of registries. Without these settings none can be loaded.
    pub registry: Option<RegistrySettings>,
    /// The file with the approvals that `fumehood approve` writes. With one, only approved tools can be called. It is read
    /// whenever a component is loaded.
    pub lock: Option<PathBuf>,
}

/// Options of the load of one component. Paths are relative to the working folder.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSettings {
    /// The file of the component, or its reference, such as `oci://ghcr.io/acme/greeter:1.0`. Left out for bytes.
    pub path: Option<PathBuf>,
    /// The name of the component. The default is the name of the file. Bytes need one.
    pub name: Option<String>,
    /// Its powers. The default is none.
    pub grants: Option<Powers>,
    /// Limits of its calls, in place of the host's.
    pub limits: Option<LimitsSection>,
    /// Refuse it if it imports a power that it is not granted.
    pub strict_imports: bool,
    /// Compile it even if that takes many seconds.
    pub allow_slow_compile: bool,
    /// Run its calls in a worker process, whatever the host's `isolation`.
    pub isolated: bool,
}

/// Components of registries, with the names of `[registry]` in `fumehood.toml`. Paths are relative to the working
/// folder.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistrySettings {
    /// The folder that components are kept in.
    pub store: PathBuf,
    /// Use only components that are in the store.
    #[serde(default)]
    pub offline: bool,
    /// Allowed names, as "HOST/NAME", such as "ghcr.io/acme/**": `*` is one part, `**` any number of parts. Default:
    /// all names.
    pub allow: Option<Vec<String>>,
    /// The rule for signatures. Default: required.
    #[serde(default)]
    pub signatures: SignatureRule,
    /// Public keys of publishers, for names that `trusted` does not list: PEM, its base64 alone, or a file with it.
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
