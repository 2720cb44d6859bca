//! The whole of `fumehood.toml`, and its JSON Schema.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_with::skip_serializing_none;

use crate::agent::AgentSection;
use crate::amount::{Count, Time};
use crate::approval::ApprovalSection;
use crate::arguments::ArgumentsSection;
#[cfg(feature = "cell")]
use crate::cell::CellSection;
use crate::flows::FlowsSection;
use crate::guardrail::GuardrailsSection;
use crate::hooks::HooksSection;
use crate::jobs::JobsSection;
use crate::limits::LimitsSection;
use crate::logging::LoggingSection;
use crate::mcp::{McpSection, ServeSection};
use crate::model::ModelSection;
use crate::registry::RegistrySection;
use crate::secret::{ValueSource, resolve};
use crate::skill::{ChannelSection, KnowledgeSection, PromptSection, SkillSection};
#[cfg(feature = "postgres")]
use crate::storage::StorageSection;
use crate::telemetry::TelemetrySection;
use crate::tenant::TenantSection;
use crate::tool::ToolSection;

/// The configuration of the fumehood command. Every section and key is optional.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "fumehood.toml")]
pub struct Config {
    /// The file that this was read from.
    #[serde(skip)]
    pub origin: PathBuf,
    /// True if registries must not be asked.
    #[serde(skip)]
    pub offline: bool,
    /// True if every entry of the lock is an approval, whoever wrote it.
    #[serde(skip)]
    pub accept_lock: bool,
    /// Folders of components. Each `.wasm` file in them is loaded without any grant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools_in: Vec<PathBuf>,
    /// The file with the data of tools with `key_value`. Default: a file in your state folder.
    pub key_value_store: Option<PathBuf>,
    /// Maximum number of running HTTP requests of all tools together. Default: 256.
    pub http_in_flight: Option<Count>,
    /// Limits of one call, for tools without separate limits.
    #[serde(default)]
    pub limits: LimitsSection,
    /// Components and their grants. The full name of a tool is NAME__TOOL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSection>,
    /// Repairs of arguments from models and MCP clients that do not match the schema of a tool.
    #[serde(default)]
    pub arguments: ArgumentsSection,
    /// Approvals by other people that count like your own.
    #[serde(default)]
    pub approval: ApprovalSection,
    /// The policy for components of registries, and how to reach registries.
    #[serde(default)]
    pub registry: RegistrySection,
    /// The model for `run` and `chat`.
    #[serde(default)]
    pub model: ModelSection,
    /// The loop between model and tools.
    #[serde(default)]
    pub agent: AgentSection,
    /// Skills: tasks with their tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub skills: BTreeMap<String, SkillSection>,
    /// Channels: ways to reach the agent, each with its own tools and skills.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub channels: BTreeMap<String, ChannelSection>,
    /// Rules that are checked before a model's call runs.
    #[serde(default)]
    pub guardrails: GuardrailsSection,
    /// Rules that keep private data from public tools. They apply if this section or any label exists.
    pub flows: Option<FlowsSection>,
    /// Hooks: decisions on calls before they run, and on their results.
    #[serde(default)]
    pub hooks: HooksSection,
    /// Texts that a model can open when it needs them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub knowledge: BTreeMap<String, KnowledgeSection>,
    /// Prompts that MCP clients offer to their users.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, PromptSection>,
    /// The event log.
    #[serde(default)]
    pub log: LogSection,
    /// The log of `serve` and `worker`: lines about the operation of the service. `--log-level`, `--log-format` and RUST_LOG
    /// override these keys. Calls are recorded in the event log, see [log].
    #[serde(default)]
    pub logging: LoggingSection,
    /// A PostgreSQL server for the event log, saved sessions, and data of tools with `key_value`. It replaces files on
    /// this machine. Several gateways can share one.
    #[cfg(feature = "postgres")]
    pub storage: Option<StorageSection>,
    /// Traces and metrics. The standard `OTEL_*` variables override these keys.
    #[serde(default)]
    pub telemetry: TelemetrySection,
    /// The server for other programs: `fumehood serve`.
    #[serde(default)]
    pub serve: ServeSection,
    /// Jobs: calls that continue after their client has left.
    #[serde(default)]
    pub jobs: JobsSection,
    /// A cell: gateways (`fumehood serve --cell`) and workers (`fumehood worker`) on NATS.
    #[cfg(feature = "cell")]
    pub cell: Option<CellSection>,
    /// HTTP clients of `fumehood serve` with separate tokens, tools and limits. Default: one client, with the token in
    /// [serve].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tenants: BTreeMap<String, TenantSection>,
    /// MCP servers.
    #[serde(default)]
    pub mcp: McpSection,
}

/// The event log.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogSection {
    /// The log file, relative to this configuration. Default: a file in your state folder.
    pub path: Option<PathBuf>,
    /// Turn off the event log.
    #[serde(default)]
    pub off: bool,
    /// The source of the key that seals the log: 64 hexadecimal digits. Default: a file next to the log.
    pub key: Option<ValueSource>,
    /// Maximum age of records, such as "90days". Older records are removed when a session ends. Default: all are kept.
    pub keep: Option<Time>,
    /// Maximum number of rows. The oldest are removed when a session ends. Default: all are kept.
    pub keep_rows: Option<Count>,
    /// Also record the texts that the model receives and writes. Arguments and results of calls are always in the
    /// records of the calls.
    #[serde(default)]
    pub texts: bool,
}

impl Config {
    /// Returns the folder that paths in the file are relative to.
    pub fn folder(&self) -> &Path {
        match self.origin.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// Returns whether it has texts for clients.
    pub fn has_texts(&self) -> bool {
        !self.knowledge.is_empty() || !self.prompts.is_empty()
    }

    /// Returns whether the log and what tools keep are in a server.
    #[cfg(feature = "postgres")]
    pub fn has_storage_server(&self) -> bool {
        self.storage.is_some()
    }

    /// Returns whether the log and what tools keep are in a server: never, without the feature.
    #[cfg(not(feature = "postgres"))]
    pub fn has_storage_server(&self) -> bool {
        false
    }

    /// Like [`Self::folder`], as an absolute path: an approval must not depend on the working folder.
    pub fn absolute_folder(&self) -> PathBuf {
        std::path::absolute(self.folder()).unwrap_or_else(|_| self.folder().to_owned())
    }

    /// Returns a path of the file as seen from the working folder.
    pub fn path(&self, written: &Path) -> PathBuf {
        resolve(self.folder(), written)
    }
}

/// Returns the JSON Schema of `fumehood.toml`, for editors. It is made from the types that read the file.
#[must_use]
pub fn schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Config>().to_value()
}
