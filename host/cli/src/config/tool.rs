//! `[tools.NAME]`: one component, and the powers of its tools.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Time};
use super::flows::FlowLabelName;
use fumehood::settings::{HttpLimitsSection, LimitsSection, SecretSection, WriteFolder};

/// The approval of a component.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApprovalRule {
    /// Its tools can be called only after `fumehood approve`, and again after every change.
    #[default]
    Required,
    /// Its tools can be called without approval, also after its file changed.
    Off,
}

/// The detail of calls in the event log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PersistRule {
    /// Arguments and results are recorded.
    #[default]
    Full,
    /// Only the fact and the outcome of each call are recorded. The model still sees the whole result.
    Nothing,
}

/// The isolation of a component's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IsolationRule {
    /// A separate worker process.
    Process,
    /// A separate worker process for each tenant, at most eight. The least recently used is stopped to make room.
    ProcessPerTenant,
    /// The process of the host.
    InProcess,
}

impl From<IsolationRule> for fumehood::Isolation {
    fn from(rule: IsolationRule) -> Self {
        match rule {
            IsolationRule::Process => Self::Process,
            IsolationRule::ProcessPerTenant => Self::ProcessPerActor,
            IsolationRule::InProcess => Self::InProcess,
        }
    }
}

/// A component and its grants. Without grants, its tools can only compute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolSection {
    /// The `.wasm` file, relative to this configuration. Set either `component` or `reference`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) component: Option<PathBuf>,
    /// The component in a registry, "oci://HOST/NAME:TAG" or "oci://HOST/NAME@sha256:…", or at "https://…#sha256=…".
    /// The lock pins the digest of a tag; `fumehood update` moves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reference: Option<String>,
    /// Limits of one call. Limits that are left out come from [limits].
    #[serde(default)]
    pub(crate) limits: LimitsSection,
    /// Do not load it if it imports a power that is not granted here.
    #[serde(default)]
    pub(crate) strict_imports: bool,
    /// Approval of the component: "required" (default) or "off".
    #[serde(default)]
    pub(crate) approval: ApprovalRule,
    /// The detail of its calls in the event log. "full" (default): arguments and results. "nothing": only that calls
    /// were made, and how they ended.
    #[serde(default)]
    pub(crate) persist: PersistRule,
    /// Bytes of each result that the model sees. Default: 4KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result_bytes: Option<Bytes>,
    /// Compile it even if it is so large that this takes many seconds.
    #[serde(default)]
    pub(crate) allow_slow_compile: bool,
    /// The WIT source, a file or a folder, relative to this configuration. For components that export plain functions
    /// without doc comments; the model reads the comments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wit: Option<PathBuf>,
    /// Isolation of its calls: "process" for a worker process in a kernel jail, "process_per_tenant" for one process
    /// per tenant, or "in_process". Default: a separate process until it is approved. `--isolation` can change the
    /// default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) isolation: Option<IsolationRule>,
    /// The label of its tools' results, for [flows]: "private" or "public". Default: private if it has folders, a store
    /// or the agent's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<FlowLabelName>,
    /// The label of its tools' arguments, for [flows]: "public" or "private". Default: public if it may make requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sink: Option<FlowLabelName>,
    /// Let it read the agent's state, which `--state` of `run`, `chat` and `call` sets.
    #[serde(default)]
    pub(crate) state: bool,
    /// Folders that it may read, as "HOST:GUEST", such as "./docs:/docs".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) read: Vec<String>,
    /// Folders that it may read and change, as "HOST:GUEST" or as a table with quotas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) write: Vec<WriteFolder>,
    /// An empty folder for each call, /scratch, of at most this size. It is removed after the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scratch: Option<Bytes>,
    /// Requests that it may make, as "METHOD URL", such as "GET https://api.example.com/v1/**".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) http: Vec<String>,
    /// Limits on the number, size and time of the requests of one call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http_limits: Option<HttpLimitsSection>,
    /// Private addresses that its requests may reach, such as "127.0.0.1/32".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) private_addresses: Vec<String>,
    /// Environment variables, with their values. The host's own are never passed on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    /// Command line arguments. Most languages take the first as the program name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
    /// Secrets that the host adds to its requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<SecretSection>,
    /// Resolution of its clocks, such as "1us". Default: 1ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clock: Option<Time>,
    /// Makes its randomness the same in every call. Use it for replay and tests only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) random_seed: Option<u64>,
    /// A private key-value store of at most this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_value: Option<Bytes>,
    /// Show its pages (MCP Apps: `ui://` resources and `_meta.ui` of its tools) to clients that declare the extension.
    /// Default: false.
    #[serde(default)]
    pub(crate) apps: bool,
    /// Origins that its pages may reach, such as "https://api.example.com". Default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) app_origins: Vec<String>,
}

/// Folds `-` into `_`: a host takes both for one character, so that only one of two such names could be loaded.
pub(crate) fn fold_name(name: &str) -> String {
    name.replace('-', "_")
}
