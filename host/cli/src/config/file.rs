//! The whole of `fumehood.toml`, and its JSON Schema.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fumehood::Limits;
use fumehood::hooks::ComponentHook;
pub(crate) use fumehood::settings::resolve;
use fumehood::settings::{LimitsSection, ValueSource};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::agent::AgentSection;
use super::amount::{Count, Time};
use super::approval::ApprovalSection;
use super::arguments::ArgumentsSection;
#[cfg(feature = "cell")]
use super::cell::CellSection;
use super::flows::FlowsSection;
use super::guardrail::GuardrailsSection;
use super::hooks::HooksSection;
use super::jobs::JobsSection;
use super::mcp::{McpSection, ServeSection};
use super::model::ModelSection;
use super::registry::RegistrySection;
use super::skill::{ChannelSection, KnowledgeSection, PromptSection, SkillSection};
#[cfg(feature = "postgres")]
use super::storage::StorageSection;
use super::telemetry::TelemetrySection;
use super::tenant::TenantSection;
use super::tool::ToolSection;

/// The configuration of the fumehood command. Every section and key may be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "fumehood.toml")]
pub(crate) struct Config {
    /// The file that this was read from.
    #[serde(skip)]
    pub(crate) origin: PathBuf,
    /// True if registries must not be asked.
    #[serde(skip)]
    pub(crate) offline: bool,
    /// True if every entry of the lock is an approval, whoever wrote it.
    #[serde(skip)]
    pub(crate) accept_lock: bool,
    /// Folders of components: each `.wasm` file in them is a set of tools without any power.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools_in: Vec<PathBuf>,
    /// The file in which tools with `key_value` keep what they keep. Usually one in the user's state folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_value_store: Option<PathBuf>,
    /// HTTP requests that all tools together may have running at one time. Usually 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http_in_flight: Option<Count>,
    /// Limits of one call, unless a tool has limits of its own.
    #[serde(default)]
    pub(crate) limits: LimitsSection,
    /// Components, and what their tools may do. The full name of a tool is NAME__TOOL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tools: BTreeMap<String, ToolSection>,
    /// Arguments of models and MCP clients that do not fit the schema of a tool.
    #[serde(default)]
    pub(crate) arguments: ArgumentsSection,
    /// Approvals of others that count beside your own.
    #[serde(default)]
    pub(crate) approval: ApprovalSection,
    /// Components of registries: which of them may be used, and the way to them.
    #[serde(default)]
    pub(crate) registry: RegistrySection,
    /// The model, and how to reach it.
    #[serde(default)]
    pub(crate) model: ModelSection,
    /// Settings of the loop between model and tools.
    #[serde(default)]
    pub(crate) agent: AgentSection,
    /// Tasks with the tools that they take.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) skills: BTreeMap<String, SkillSection>,
    /// Ways in which people reach the agent, each with what can be used there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) channels: BTreeMap<String, ChannelSection>,
    /// Rules about a model's calls before they are made.
    #[serde(default)]
    pub(crate) guardrails: GuardrailsSection,
    /// Flows of private data to the public. They are checked if this section is there, or a label anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flows: Option<FlowsSection>,
    /// Decisions of the operator on calls before they run, and on their results.
    #[serde(default)]
    pub(crate) hooks: HooksSection,
    /// Texts that a model can open when it needs them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) knowledge: BTreeMap<String, KnowledgeSection>,
    /// Texts for the user's side of a conversation, which MCP clients offer to people.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) prompts: BTreeMap<String, PromptSection>,
    /// The record of what happened.
    #[serde(default)]
    pub(crate) log: LogSection,
    /// A PostgreSQL server that has the event log, saved sessions, and what tools with `key_value` keep, instead of files of
    /// this machine. Several gateways may share one.
    #[cfg(feature = "postgres")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) storage: Option<StorageSection>,
    /// Traces and metrics. The standard `OTEL_*` variables stand above these keys.
    #[serde(default)]
    pub(crate) telemetry: TelemetrySection,
    /// Tools for other programs.
    #[serde(default)]
    pub(crate) serve: ServeSection,
    /// Calls that go on after their client has left.
    #[serde(default)]
    pub(crate) jobs: JobsSection,
    /// Gateways and workers on NATS: `fumehood serve --cell` sends calls to those who run `fumehood worker`.
    #[cfg(feature = "cell")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cell: Option<CellSection>,
    /// Clients of `fumehood serve` over HTTP, each with a token of its own. Usually there is one, with the token of [serve].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tenants: BTreeMap<String, TenantSection>,
    /// Tools of other programs.
    #[serde(default)]
    pub(crate) mcp: McpSection,
}

/// The record of what happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSection {
    /// The database. The path is relative to this configuration. Usually in the user's state folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<PathBuf>,
    /// Keep no record at all.
    #[serde(default)]
    pub(crate) off: bool,
    /// The source of the key that seals the record: 64 hexadecimal digits. Usually a file beside the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<ValueSource>,
    /// Age above which records are removed when a session ends, such as "90days". Usually none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<Time>,
    /// Number of the newest rows that are kept when a session ends. Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep_rows: Option<Count>,
    /// Keep what the model is told and what it says, too. Arguments and results of calls are in the records of the calls
    /// alone.
    #[serde(default)]
    pub(crate) texts: bool,
}

impl Config {
    /// Returns the folder that paths in the file are relative to.
    pub(crate) fn folder(&self) -> &Path {
        match self.origin.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        }
    }

    /// Returns whether it has texts for clients.
    pub(crate) fn has_texts(&self) -> bool {
        !self.knowledge.is_empty() || !self.prompts.is_empty()
    }

    /// Returns whether the log and what tools keep are in a server.
    #[cfg(feature = "postgres")]
    pub(crate) fn has_storage_server(&self) -> bool {
        self.storage.is_some()
    }

    /// Returns whether the log and what tools keep are in a server: never, without the feature.
    #[cfg(not(feature = "postgres"))]
    pub(crate) fn has_storage_server(&self) -> bool {
        false
    }

    /// Like [`Self::folder`], as an absolute path: an approval must not depend on the working folder.
    pub(crate) fn absolute_folder(&self) -> PathBuf {
        std::path::absolute(self.folder()).unwrap_or_else(|_| self.folder().to_owned())
    }

    /// Returns the limits of the calls of a component of [tools] where its section has none: those of a hook for a hook.
    pub(crate) fn default_limits(&self, name: &str) -> Limits {
        match self.hooks.has_component(name) {
            true => ComponentHook::default_limits(),
            false => self.limits.over(Limits::default()),
        }
    }

    /// Returns a path of the file as seen from the working folder.
    pub(crate) fn path(&self, written: &Path) -> PathBuf {
        resolve(self.folder(), written)
    }
}

/// Returns the JSON Schema of `fumehood.toml`, for editors. It is made from the types that read the file.
pub(crate) fn schema() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Config>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect_file;

    #[test]
    fn the_published_schema_is_current() {
        let text = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
        expect_file!["../../../../docs/fumehood.schema.json"].assert_eq(&text);
    }

    /// The example has every key of every section, so that none has to be guessed.
    #[test]
    fn the_example_shows_every_key_and_is_fine() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fumehood.toml");
        if let Err(error) = Config::load(&file) {
            panic!("{error}");
        }
        let text = std::fs::read_to_string(file).unwrap();
        let schema = schema();
        let sections = schema["$defs"].as_object().unwrap().values().chain([&schema]);
        let keys = sections.filter_map(|section| section["properties"].as_object()).flat_map(|keys| keys.keys());
        let is_shown = |key: &&String| {
            let forms =
                [format!("{key} = "), format!("[{key}."), format!("[{key}]"), format!(".{key}]"), format!(".{key}.")];
            forms.iter().any(|form| text.contains(form))
        };
        let missing: Vec<_> = keys.filter(|key| !is_shown(key)).collect();
        assert!(missing.is_empty(), "the example lacks {missing:?}");
    }
}
