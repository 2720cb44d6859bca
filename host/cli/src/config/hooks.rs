//! `[hooks]`: decisions of the operator on calls before they run, and on their results.

use std::num::NonZeroU32;

use anyhow::Result;
use fumehood::hooks::{Redaction, ToolPatternError, ToolPatterns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::KeyFault;
use super::file::Config;

/// The usual text in place of what a pattern matches.
const DEFAULT_REPLACEMENT: &str = "[redacted]";

/// Decisions on calls before they run, and on their results, in `run`, `chat`, `call` and `serve mcp` alike. First come
/// the rate limits, then the components, and for results then the patterns, each as listed here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HooksSection {
    /// Components of [tools] that are hooks. Where one fails, takes too long or is not approved, no call is made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) component: Vec<ComponentHookSection>,
    /// Limits on the rate of calls, counted in memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rate_limit: Vec<RateLimitSection>,
    /// Patterns of what is left out of results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redact: Vec<RedactSection>,
}

/// A component that decides on calls and their results. Its limits and powers are those of its section in [tools]; the
/// usual deadline of a hook is 1s, and its usual output 8MiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComponentHookSection {
    /// Its name in [tools].
    pub(crate) name: String,
    /// Patterns of full names of the tools whose calls it decides on, such as "web__*". Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// The functions that are called: "authorize", "before" and "after". Usually all three.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) on: Option<Vec<HookFunctionName>>,
}

/// A function of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HookFunctionName {
    /// Decides whether the actor may make a call.
    Authorize,
    /// Decides on a call before it runs.
    Before,
    /// Decides on a result.
    After,
}

/// A limit on the rate of calls. Each actor has a budget of its own for all of the tools together; guests share one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimitSection {
    /// Patterns of full names of the tools, such as "web__*". Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// The only actor that it is for. Usually every actor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
    /// Calls that an actor may make at once, and in every minute.
    pub(crate) per_minute: NonZeroU32,
}

/// A pattern of what is left out of results: texts, strings and numbers of JSON, links, and messages of failures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedactSection {
    /// A regular expression, without look-around and back-references.
    pub(crate) pattern: String,
    /// Patterns of full names of the tools, such as "web__*". Usually all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// The text in its place. Usually "[redacted]".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replacement: Option<String>,
}

impl HooksSection {
    /// Returns whether the component of this name is a hook.
    pub(crate) fn has_component(&self, name: &str) -> bool {
        self.component.iter().any(|hook| hook.name == name)
    }
}

impl RedactSection {
    /// Returns the hook of the pattern.
    ///
    /// # Errors
    /// If the pattern, or that of a tool, is not valid.
    pub(crate) fn redaction(&self) -> Result<Redaction> {
        let replacement = self.replacement.as_deref().unwrap_or(DEFAULT_REPLACEMENT);
        Ok(Redaction::new("redact", tools_of(self.tools.as_deref())?, &self.pattern, replacement)?)
    }
}

/// Returns the patterns of tools; those that are left out match every tool.
///
/// # Errors
/// If one is not valid.
pub(crate) fn tools_of(tools: Option<&[String]>) -> Result<ToolPatterns, ToolPatternError> {
    tools.map_or_else(|| Ok(ToolPatterns::default()), ToolPatterns::new)
}

/// Adds everything that is wrong with the hooks.
pub(super) fn check(faults: &mut Vec<KeyFault>, config: &Config) {
    let hooks = &config.hooks;
    let mut add = |key: &str, message: String| faults.push((vec!["hooks".to_owned(), key.to_owned()], message));
    for (index, hook) in hooks.component.iter().enumerate() {
        let name = &hook.name;
        if !config.tools.contains_key(name) {
            let names: Vec<&str> = config.tools.keys().map(String::as_str).collect();
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has: {}", names.join(", ")) };
            add("component", format!("the hook `{name}` is not in [tools], where its component stands; {known}"));
        }
        if hooks.component.iter().take(index).any(|other| other.name == *name) {
            add("component", format!("the hook `{name}` is listed twice; list all of its tools in one place"));
        }
        if hook.on.as_ref().is_some_and(Vec::is_empty) {
            add("component", format!("the hook `{name}` has an empty `on`; name a function, or leave `on` out"));
        }
    }
    let tools = hooks.component.iter().map(|hook| ("component", hook.tools.as_deref()));
    let tools = tools.chain(hooks.rate_limit.iter().map(|limit| ("rate_limit", limit.tools.as_deref())));
    for (key, tools) in tools {
        if let Err(error) = tools_of(tools) {
            add(key, error.to_string());
        }
    }
    for redact in &hooks.redact {
        if let Err(error) = redact.redaction() {
            add("redact", format!("`{}`: {error:#}", excerpt(&redact.pattern)));
        }
    }
}

/// Returns the beginning of a pattern, for a message.
fn excerpt(pattern: &str) -> String {
    const MAX_CHARS: usize = 60;
    let beginning: String = pattern.chars().take(MAX_CHARS).collect();
    if beginning.len() < pattern.len() { format!("{beginning}…") } else { beginning }
}
