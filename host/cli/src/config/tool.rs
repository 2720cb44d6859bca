//! `[tools.NAME]`: one component, and the powers of its tools.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::{Bytes, Time};
use super::flows::FlowLabelName;
use fumehood::settings::{HttpLimitsSection, LimitsSection, SecretSection, WriteFolder};

/// Approval that a component needs before its tools can be called.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApprovalRule {
    /// It has to be approved with `fumehood approve`, and again after every change.
    #[default]
    Required,
    /// It can be called as it is, even after its file changed.
    Off,
}

/// Level of detail in the log of calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PersistRule {
    /// Arguments and results.
    #[default]
    Full,
    /// Only that calls were made and how they ended. The model sees all of the result.
    Nothing,
}

/// Isolation of the calls of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum IsolationRule {
    /// In a worker process of its own.
    Process,
    /// In a worker process for each tenant, at most eight: the one that was not used for longest is ended for another.
    ProcessPerTenant,
    /// In the process of the host.
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

/// A component, and what its tools may do. Without further lines they can compute, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ToolSection {
    /// The `.wasm` file. The path is relative to this configuration. Either this or `reference`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) component: Option<PathBuf>,
    /// The component in a registry, "oci://HOST/NAME:TAG" or "oci://HOST/NAME@sha256:…", or at "https://…#sha256=…". The lock
    /// pins which one a tag stands for; `fumehood update` moves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reference: Option<String>,
    /// Limits of one call. A limit that is left out is as in [limits].
    #[serde(default)]
    pub(crate) limits: LimitsSection,
    /// Refuse to load it if it even imports a power that is not granted here.
    #[serde(default)]
    pub(crate) strict_imports: bool,
    /// Approval of the component: "required" (usual) or "off".
    #[serde(default)]
    pub(crate) approval: ApprovalRule,
    /// Level of detail in the log of its calls: "full" (usual), or "nothing" but that they were made and how they
    /// ended.
    #[serde(default)]
    pub(crate) persist: PersistRule,
    /// Bytes of a result that a model is shown. Usually 4KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) result_bytes: Option<Bytes>,
    /// Compile it even if it is so large that this takes many seconds.
    #[serde(default)]
    pub(crate) allow_slow_compile: bool,
    /// The WIT that it was made of, a file or a folder: its doc comments are what a model reads of the tools. For components that
    /// export plain functions and have lost theirs. The path is relative to this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) wit: Option<PathBuf>,
    /// Isolation of its calls: "process" for a worker process in a jail of the kernel, "process_per_tenant" for one for
    /// each tenant, or "in_process". Usually a process until it is approved, unless `--isolation` says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) isolation: Option<IsolationRule>,
    /// The data that its tools return, for [flows]: "private" or "public". Usually private if it has folders, a store or
    /// the agent's state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<FlowLabelName>,
    /// The place where arguments of its tools go, for [flows]: "public" or "private". Usually public if it may make
    /// requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sink: Option<FlowLabelName>,
    /// Let it read the agent's state, which `--state` of `run`, `chat` and `call` gives.
    #[serde(default)]
    pub(crate) state: bool,
    /// Folders that it may read, as "HOST:GUEST", such as "./docs:/docs".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) read: Vec<String>,
    /// Folders that it may read and change, as "HOST:GUEST" or as a table with quotas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) write: Vec<WriteFolder>,
    /// An empty folder of its own for each call, /scratch, that may grow to this size and is removed afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scratch: Option<Bytes>,
    /// Requests that it may make, as "METHOD URL", such as "GET https://api.example.com/v1/**".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) http: Vec<String>,
    /// Limits on the requests of one call: how many there are, and how much they carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http_limits: Option<HttpLimitsSection>,
    /// Private addresses that its requests may reach all the same, such as "127.0.0.1/32".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) private_addresses: Vec<String>,
    /// Environment variables that it sees, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) env: BTreeMap<String, String>,
    /// Command line arguments that it sees. Most languages take the first one for the name of the program.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) args: Vec<String>,
    /// Secrets that the host puts into its requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<SecretSection>,
    /// Resolution of its clocks, such as "1us". Usually 1ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clock: Option<Time>,
    /// Makes its randomness the same in every call: for replay and tests only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) random_seed: Option<u64>,
    /// A private store of keys and values that may grow to this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_value: Option<Bytes>,
    /// Show its pages (MCP Apps: `ui://` resources and `_meta.ui` of its tools) to clients that declare the extension. Usually
    /// off.
    #[serde(default)]
    pub(crate) apps: bool,
    /// Origins that its pages may reach, such as "https://api.example.com". Usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) app_origins: Vec<String>,
}

/// Folds `-` into `_`: a host takes both for one character, so that only one of two such names could be loaded.
pub(crate) fn fold_name(name: &str) -> String {
    name.replace('-', "_")
}
