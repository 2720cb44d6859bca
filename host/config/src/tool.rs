//! `[tools.NAME]`: one component, and the powers of its tools.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::Bytes;
use crate::command::CommandSection;
use crate::flows::FlowLabelName;
use crate::limits::LimitsSection;
use crate::powers::Powers;

/// The approval of a component.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalRule {
    /// Its tools can be called only after `fumehood approve`, and again after every change.
    #[default]
    Required,
    /// Its tools can be called without approval, also after its file changed.
    Off,
}

/// The detail of calls in the event log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PersistRule {
    /// Arguments and results are recorded.
    #[default]
    Full,
    /// Only the fact and the outcome of each call are recorded. The model still sees the whole result.
    Nothing,
}

/// The isolation of a component's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IsolationRule {
    /// A separate worker process.
    Process,
    /// A separate worker process for each tenant, at most eight. The least recently used is stopped to make room.
    ProcessPerTenant,
    /// The process of the host.
    InProcess,
}

/// A component and its grants. Without grants, its tools can only compute.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSection {
    /// The `.wasm` file, relative to this configuration. Set either `component` or `reference`.
    pub component: Option<PathBuf>,
    /// The component in a registry, "oci://HOST/NAME:TAG" or "oci://HOST/NAME@sha256:…", or at "https://…#sha256=…".
    /// The lock pins the digest of a tag; `fumehood update` moves it.
    pub reference: Option<String>,
    /// Limits of one call. Limits that are left out come from [limits].
    #[serde(default)]
    pub limits: LimitsSection,
    /// Do not load it if it imports a power that is not granted here.
    #[serde(default)]
    pub strict_imports: bool,
    /// Approval of the component: "required" (default) or "off".
    #[serde(default)]
    pub approval: ApprovalRule,
    /// The detail of its calls in the event log. "full" (default): arguments and results. "nothing": only that calls
    /// were made, and how they ended.
    #[serde(default)]
    pub persist: PersistRule,
    /// Bytes of each result that the model sees. Default: 4KiB.
    pub result_bytes: Option<Bytes>,
    /// Compile it even if it is so large that this takes many seconds.
    #[serde(default)]
    pub allow_slow_compile: bool,
    /// The WIT source, a file or a folder, relative to this configuration. For components that export plain functions
    /// without doc comments; the model reads the comments.
    pub wit: Option<PathBuf>,
    /// Named arguments for a program, a component of `wasi:cli/command` or a module of WASI preview 1, in place of its command line.
    pub command: Option<CommandSection>,
    /// Isolation of its calls: "process" for a worker process in a kernel jail, "process_per_tenant" for one process
    /// per tenant, or "in_process". Default: a separate process until it is approved. `--isolation` can change the
    /// default.
    pub isolation: Option<IsolationRule>,
    /// The label of its tools' results, for [flows]: "private" or "public". Default: private if it has folders, a store
    /// or the agent's state.
    pub source: Option<FlowLabelName>,
    /// The label of its tools' arguments, for [flows]: "public" or "private". Default: public if it may make requests.
    pub sink: Option<FlowLabelName>,
    /// Its powers.
    #[serde(flatten)]
    pub powers: Powers,
}

/// Folds `-` into `_`: a host takes both for one character, so that only one of two such names could be loaded.
pub fn fold_name(name: &str) -> String {
    name.replace('-', "_")
}
