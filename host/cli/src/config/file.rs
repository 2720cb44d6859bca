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
use super::logging::LoggingSection;
use super::mcp::{McpSection, ServeSection};
use super::model::ModelSection;
use super::registry::RegistrySection;
use super::skill::{ChannelSection, KnowledgeSection, PromptSection, SkillSection};
#[cfg(feature = "postgres")]
use super::storage::StorageSection;
use super::telemetry::TelemetrySection;
use super::tenant::TenantSection;
use super::tool::ToolSection;

/// The configuration of the fumehood command. Every section and key is optional.
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
    /// Folders of components. Each `.wasm` file in them is loaded without any grant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools_in: Vec<PathBuf>,
    /// The file with the data of tools with `key_value`. Default: a file in your state folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key_value_store: Option<PathBuf>,
    /// Maximum number of running HTTP requests of all tools together. Default: 256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) http_in_flight: Option<Count>,
    /// Limits of one call, for tools without separate limits.
    #[serde(default)]
    pub(crate) limits: LimitsSection,
    /// Components and their grants. The full name of a tool is NAME__TOOL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tools: BTreeMap<String, ToolSection>,
    /// Repairs of arguments from models and MCP clients that do not match the schema of a tool.
    #[serde(default)]
    pub(crate) arguments: ArgumentsSection,
    /// Approvals by other people that count like your own.
    #[serde(default)]
    pub(crate) approval: ApprovalSection,
    /// The policy for components of registries, and how to reach registries.
    #[serde(default)]
    pub(crate) registry: RegistrySection,
    /// The model for `run` and `chat`.
    #[serde(default)]
    pub(crate) model: ModelSection,
    /// The loop between model and tools.
    #[serde(default)]
    pub(crate) agent: AgentSection,
    /// Skills: tasks with their tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) skills: BTreeMap<String, SkillSection>,
    /// Channels: ways to reach the agent, each with its own tools and skills.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) channels: BTreeMap<String, ChannelSection>,
    /// Rules that are checked before a model's call runs.
    #[serde(default)]
    pub(crate) guardrails: GuardrailsSection,
    /// Rules that keep private data from public tools. They apply if this section or any label exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) flows: Option<FlowsSection>,
    /// Hooks: decisions on calls before they run, and on their results.
    #[serde(default)]
    pub(crate) hooks: HooksSection,
    /// Texts that a model can open when it needs them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) knowledge: BTreeMap<String, KnowledgeSection>,
    /// Prompts that MCP clients offer to their users.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) prompts: BTreeMap<String, PromptSection>,
    /// The event log.
    #[serde(default)]
    pub(crate) log: LogSection,
    /// The log of `serve` and `worker`: lines about the operation of the service. `--log-level`, `--log-format` and RUST_LOG
    /// override these keys. Calls are recorded in the event log, see [log].
    #[serde(default)]
    pub(crate) logging: LoggingSection,
    /// A PostgreSQL server for the event log, saved sessions, and data of tools with `key_value`. It replaces files on
    /// this machine. Several gateways can share one.
    #[cfg(feature = "postgres")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) storage: Option<StorageSection>,
    /// Traces and metrics. The standard `OTEL_*` variables override these keys.
    #[serde(default)]
    pub(crate) telemetry: TelemetrySection,
    /// The server for other programs: `fumehood serve`.
    #[serde(default)]
    pub(crate) serve: ServeSection,
    /// Jobs: calls that continue after their client has left.
    #[serde(default)]
    pub(crate) jobs: JobsSection,
    /// A cell: gateways (`fumehood serve --cell`) and workers (`fumehood worker`) on NATS.
    #[cfg(feature = "cell")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cell: Option<CellSection>,
    /// HTTP clients of `fumehood serve` with separate tokens, tools and limits. Default: one client, with the token in
    /// [serve].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) tenants: BTreeMap<String, TenantSection>,
    /// MCP servers.
    #[serde(default)]
    pub(crate) mcp: McpSection,
}

/// The event log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogSection {
    /// The log file, relative to this configuration. Default: a file in your state folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<PathBuf>,
    /// Turn off the event log.
    #[serde(default)]
    pub(crate) off: bool,
    /// The source of the key that seals the log: 64 hexadecimal digits. Default: a file next to the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<ValueSource>,
    /// Maximum age of records, such as "90days". Older records are removed when a session ends. Default: all are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<Time>,
    /// Maximum number of rows. The oldest are removed when a session ends. Default: all are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) keep_rows: Option<Count>,
    /// Also record the texts that the model receives and writes. Arguments and results of calls are always in the
    /// records of the calls.
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
        if self.hooks.has_component(name) {
            ComponentHook::default_limits()
        } else {
            self.limits.over(Limits::default())
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
    use fumehood_tests::prose::Prose;

    /// Adds the descriptions in a schema.
    fn add_descriptions(schema: &Value, texts: &mut Vec<String>) {
        match schema {
            Value::Object(object) => {
                texts.extend(object.get("description").and_then(Value::as_str).map(str::to_owned));
                object.values().for_each(|part| add_descriptions(part, texts));
            }
            Value::Array(list) => list.iter().for_each(|part| add_descriptions(part, texts)),
            _ => {}
        }
    }

    #[test]
    fn descriptions_are_written_in_the_words_of_the_field() {
        let mut texts = Vec::new();
        add_descriptions(&schema(), &mut texts);
        let prose = Prose::new(&texts.join("\n"));
        assert!(prose.word_count() > 3_000, "{}", prose.word_count());
        prose.check().unwrap();
    }

    #[test]
    fn the_published_schema_is_current() {
        let text = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
        expect_file!["../../../../docs/fumehood.schema.json"].assert_eq(&text);
    }

    fn is_shown(text: &str, key: &str) -> bool {
        let forms =
            [format!("{key} = "), format!("[{key}."), format!("[{key}]"), format!(".{key}]"), format!(".{key}.")];
        forms.iter().any(|form| text.contains(form))
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
        let missing: Vec<_> = keys.filter(|key| !is_shown(&text, key)).collect();
        assert!(missing.is_empty(), "the example lacks {missing:?}");
    }
}
