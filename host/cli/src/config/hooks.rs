//! `[hooks]`: decisions of the operator on calls before they run, and on their results.

use std::num::NonZeroU32;

use anyhow::Result;
use fumehood::hooks::{Redaction, ToolPatternError, ToolPatterns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::fault::{KeyFault, key_fault};
use super::file::Config;

/// The default replacement for matches of a pattern.
const DEFAULT_REPLACEMENT: &str = "[redacted]";

/// Hooks: decisions on calls before they run, and on their results, in `run`, `chat`, `call` and `serve`. Rate limits
/// run first, then components, then patterns, each in the order of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HooksSection {
    /// Components of [tools] that are hooks. If a hook fails, times out or is not approved, the call is refused or its
    /// result withheld.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) component: Vec<ComponentHookSection>,
    /// Limits on the rate of calls, counted in memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) rate_limit: Vec<RateLimitSection>,
    /// Patterns that are replaced in results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redact: Vec<RedactSection>,
}

/// A component that decides on calls and their results. Its section in [tools] has its limits, powers and approval. Its
/// default deadline is 1s, its default output 8MiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ComponentHookSection {
    /// Its name in [tools].
    pub(crate) name: String,
    /// Patterns of full names of tools, such as "web__*". Default: every tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// The functions to call. Default: "authorize", "before" and "after".
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

/// A limit on the rate of calls. It counts the calls of all these tools together, separately for each actor. Calls
/// without an actor share one count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RateLimitSection {
    /// Patterns of full names of tools, such as "web__*". Default: every tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// The actor to limit. Default: every actor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) actor: Option<String>,
    /// Maximum calls of an actor at once, and per minute.
    pub(crate) per_minute: NonZeroU32,
}

/// A pattern that is replaced in results: in texts, JSON strings and numbers, links, and error messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RedactSection {
    /// A regular expression. Look-around and back-references are not supported.
    pub(crate) pattern: String,
    /// Patterns of full names of tools, such as "web__*". Default: every tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<Vec<String>>,
    /// The replacement. Default: "[redacted]".
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
    let mut add = |key: &str, message: String| faults.push(key_fault(&["hooks"], &[key], message));
    for (index, hook) in hooks.component.iter().enumerate() {
        let name = &hook.name;
        if !config.tools.contains_key(name) {
            let names: Vec<&str> = config.tools.keys().map(String::as_str).collect();
            let known =
                if names.is_empty() { "it has none".to_owned() } else { format!("it has: {}", names.join(", ")) };
            add("component", format!("the hook `{name}` is not in [tools], which must have its component; {known}"));
        }
        if hooks.component.iter().take(index).any(|other| other.name == *name) {
            add("component", format!("the hook `{name}` is listed twice; list all of its tools in one place"));
        }
        if hook.on.as_ref().is_some_and(Vec::is_empty) {
            add("component", format!("`on` of the hook `{name}` is empty; name a function, or leave `on` out"));
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
