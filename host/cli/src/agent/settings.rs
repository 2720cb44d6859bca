//! Settings of the loop from fumehood.toml, overridden by options.

use std::collections::BTreeSet;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use fumehood::agent::budget::Budget;
use fumehood::agent::code::CodeMode;
use fumehood::agent::knowledge::Knowledge;
use fumehood::agent::pipeline::Modes;
use fumehood::agent::registry::{BuiltIns, ToolError};
use fumehood::agent::session::{OutputSchema, Prompt, Repetition, SessionConfig};
use fumehood::agent::tool_search::ToolSearch;
use fumehood::model::{Key, ProviderConfig, ReasoningEffort};
use fumehood::settings::{TextSource, budget_over};

use crate::args::run::{AgentArguments, BudgetSection, CodeName, DriverName, ListedTools, ModelArguments};
use crate::config::Config;
use crate::config::agent::CodeSetting;
use crate::config::model::{Effort, ModelSection, Temperature};
use crate::config::skill::KnowledgeSection;
use crate::exit::UsageError;
use crate::recording::durability;
use crate::render;
use crate::source::{check_text, read_file, read_secret, read_text};
use crate::text_file::FileBeneath;

/// Builds the settings of the provider. Address, key and options are left out if they belong to another provider.
///
/// # Errors
/// If the key cannot be read from the source that the configuration names.
pub(crate) fn provider(
    config: &Config,
    is_configured_provider: bool,
    typed: &ModelArguments,
) -> Result<ProviderConfig> {
    let ModelSection { key_over_plain_http, temperature, supports_tools, .. } = config.model;
    let section = &config.model;
    let mut settings = ProviderConfig { key_over_plain_http, ..ProviderConfig::default() };
    settings.proxy.clone_from(&section.proxy);
    if is_configured_provider {
        settings.base_url.clone_from(&section.base_url);
        settings.options.clone_from(&section.options);
        let key = section.key.as_ref().map(|source| read_secret(config, source, "[model] key")).transpose()?;
        settings.key = key.map(Key::new);
    }
    settings.temperature = typed.temperature.or(match temperature {
        Some(Temperature::Number(number)) => Some(number),
        Some(Temperature::Provider(_)) | None => None,
    });
    settings.max_tokens = typed.max_tokens.or(section.max_tokens.map(NonZeroU32::get));
    settings.reasoning_effort = typed.reasoning_effort.or(section.reasoning_effort).map(reasoning_effort);
    settings.supports_images = section.supports_images;
    settings.supports_tools = supports_tools.unwrap_or(settings.supports_tools);
    settings.max_reply_bytes = section.max_reply.map_or(settings.max_reply_bytes, |bytes| bytes.0);
    let timeouts = &mut settings.timeouts;
    timeouts.connect = section.connect_timeout.map_or(timeouts.connect, |time| time.0);
    let first_token = typed.first_token_time.or(section.first_token_timeout.map(|time| time.0));
    timeouts.first_token = first_token.unwrap_or(timeouts.first_token);
    timeouts.between_chunks = section.between_chunks_timeout.map_or(timeouts.between_chunks, |time| time.0);
    timeouts.total = section.timeout.map_or(timeouts.total, |time| time.0);
    settings.retries.max_retries = section.retries.unwrap_or(settings.retries.max_retries);
    Ok(settings)
}

fn reasoning_effort(effort: Effort) -> ReasoningEffort {
    match effort {
        Effort::None => ReasoningEffort::None,
        Effort::Minimal => ReasoningEffort::Minimal,
        Effort::Low => ReasoningEffort::Low,
        Effort::Medium => ReasoningEffort::Medium,
        Effort::High => ReasoningEffort::High,
        Effort::XHigh => ReasoningEffort::ExtraHigh,
        Effort::Max => ReasoningEffort::Max,
    }
}

/// Selects the protocol between model and loop.
pub(crate) fn driver(config: &Config, typed: Option<DriverName>) -> DriverName {
    typed.or(config.agent.driver).unwrap_or(DriverName::Native)
}

/// Returns the offer of programs that call tools; `None` if there is none.
pub(crate) fn code(configured: Option<CodeSetting>, typed: Option<CodeName>) -> Option<CodeMode> {
    let configured = configured.map(|setting| match setting {
        CodeSetting::Switch(true) => CodeName::Beside,
        CodeSetting::Switch(false) => CodeName::Off,
        CodeSetting::Only(_) => CodeName::Only,
    });
    match typed.or(configured)? {
        CodeName::Beside => Some(CodeMode::beside_direct_calls()),
        CodeName::Only => Some(CodeMode::only()),
        CodeName::Off => None,
    }
}

/// Returns the settings of tool search, if the model has to find its tools.
pub(crate) fn tool_search(config: &Config, typed: Option<ListedTools>) -> Option<ToolSearch> {
    let is_search = typed.or(config.agent.tools) == Some(ListedTools::Search);
    is_search.then(|| ToolSearch::new().pin(config.agent.pinned.iter().map(String::as_str)))
}

/// Registers the entries of knowledge as tools, whose files are read when they are called. An entry without a readable file
/// stops a run whose skill or channel names it; otherwise there is a warning, and a call of it fails.
///
/// # Errors
/// If a file that is needed cannot be read, or a name is invalid.
pub(crate) fn knowledge(config: &Config, skill: Option<&str>, channel: Option<&str>) -> Result<BuiltIns> {
    let entries = BuiltIns::default();
    let needed = needed_knowledge(config, skill, channel);
    for (name, section) in &config.knowledge {
        match check_text(config, &section.text) {
            Ok(()) => {}
            Err(error) if needed.contains(name.as_str()) => return Err(error.into()),
            Err(error) => {
                let message = format!("the knowledge `{name}` cannot be read: {error}");
                render::warning(&format!("{message}; the run continues without it; correct [knowledge.{name}]"));
            }
        }
        let entry = knowledge_entry(config, name, section);
        let entry = entry.map_err(|error| UsageError(format!("[knowledge.{name}] of fumehood.toml: {error}")))?;
        entries.register_tool(Arc::new(entry))?;
    }
    Ok(entries)
}

fn knowledge_entry(config: &Config, name: &str, section: &KnowledgeSection) -> Result<Knowledge, ToolError> {
    let file = match &section.text {
        TextSource::Here(text) => return Knowledge::from_text(name, &section.description, text.as_str()),
        TextSource::InFile(file) => FileBeneath::new(config.folder(), &file.file),
    };
    Knowledge::new(name, &section.description, move || {
        let file = file.clone();
        Box::pin(async move { file.read_text().await.map_err(|error| error.for_readers().to_owned()) })
    })
}

/// Returns the names of knowledge that the skill in use needs, or else the channel.
fn needed_knowledge<'a>(config: &'a Config, skill: Option<&str>, channel: Option<&str>) -> BTreeSet<&'a str> {
    let of_skill = |name: &str| config.skills.get(name).into_iter().flat_map(|skill| &skill.knowledge);
    let of_channel = channel.filter(|_| skill.is_none()).and_then(|name| config.channels.get(name));
    let of_channel = of_channel.into_iter().flat_map(|channel| {
        let of_skills = channel.skills.iter().flat_map(|skill| of_skill(skill));
        channel.tools.iter().chain(of_skills)
    });
    skill.into_iter().flat_map(of_skill).chain(of_channel).map(String::as_str).collect()
}

/// Returns the modes of batches of calls.
pub(crate) fn modes(config: &Config, typed: &AgentArguments) -> Modes {
    let defaults = Modes::default();
    let decisions = &typed.decisions;
    let concurrency = config.agent.concurrency.and_then(|count| NonZeroUsize::try_from(count).ok());
    Modes {
        stop_on_tool_block: config.agent.stop_on_block || decisions.stop_on_block,
        throw_on_tool_failure: config.agent.stop_on_failure || decisions.stop_on_failure,
        concurrency: concurrency.unwrap_or(defaults.concurrency),
        durability: durability(config),
    }
}

/// Configures the session.
///
/// # Errors
/// If a text cannot be read.
pub(crate) fn session(config: &Config, typed: &AgentArguments, skill: Option<&str>) -> Result<SessionConfig> {
    let section = &config.agent;
    let configured = section.system.as_ref().map(|source| read_text(config, source)).transpose()?;
    let of_skill = skill.and_then(|name| config.skills.get(name));
    let instructions = of_skill.and_then(|skill| skill.instructions.as_ref());
    let instructions = instructions.map(|source| read_text(config, source)).transpose()?;
    let of_skill = of_skill.map(|skill| match instructions {
        Some(instructions) => format!("{}\n\n{instructions}", skill.description),
        None => skill.description.clone(),
    });
    if let (Some(name), Some(_)) = (typed_skill(config, skill), &typed.output_schema) {
        let message = format!("the skill `{name}` already has an `output_schema`; leave `--output-schema` out");
        return Err(UsageError(message).into());
    }
    let defaults = SessionConfig::default();
    let has_code = code(section.code, typed.code).is_some();
    Ok(SessionConfig {
        prompt: Prompt { agent: typed.system.clone().or(configured).unwrap_or_default(), skill: of_skill },
        budget: budget(&typed.budget, &section.budget, has_code),
        repetition: match section.repetitions {
            Some(times) => Some(Repetition { times, then: Default::default() }),
            None => defaults.repetition,
        },
        failed_batches: section.failed_batches.or(defaults.failed_batches),
        output: typed.output_schema.as_deref().map(|file| output_schema(file, "`--output-schema`")).transpose()?,
        ..defaults
    })
}

/// Returns the name of the skill in use if its result has a schema.
pub(crate) fn typed_skill<'a>(config: &Config, skill: Option<&'a str>) -> Option<&'a str> {
    skill.filter(|name| config.skills.get(*name).is_some_and(|section| section.output_schema.is_some()))
}

/// Reads a schema of answers. `what` is the option or the key that names the file.
///
/// # Errors
/// If it cannot be read, or is not a schema.
pub(crate) fn output_schema(path: &Path, what: &str) -> Result<OutputSchema> {
    let wrong = |why: String| UsageError(format!("{what}: {} {why}", path.display()));
    let text = read_file(path, what)?;
    let schema = serde_json::from_str(&text).map_err(|error| wrong(format!("is not JSON: {error}")))?;
    Ok(OutputSchema::new(schema).map_err(|error| wrong(format!("is not a supported JSON Schema: {error}")))?)
}

/// Returns the budget of a session: what was typed, or else configured.
fn budget(typed: &BudgetSection, configured: &BudgetSection, has_code: bool) -> Budget {
    let mut defaults = Budget::default();
    if has_code {
        // Calls of programs count like those of the model.
        defaults.calls = 125;
        defaults.calls_in_all = Some(200);
    }
    let configured = budget_over(configured, defaults);
    // More calls for one message are allowed in the session as well.
    let calls_in_all = configured.calls_in_all.map(|calls| calls.max(typed.calls.unwrap_or(0).into()));
    Budget { calls_in_all, ..budget_over(typed, configured) }
}
