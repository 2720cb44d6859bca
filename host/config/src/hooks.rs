//! `[hooks]`: decisions of the operator on calls before they run, and on their results.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Hooks: decisions on calls before they run, and on their results, in `run`, `chat`, `call` and `serve`. Rate limits
/// run first, then components, then patterns, each in the order of this file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HooksSection {
    /// Components of [tools] that are hooks. If a hook fails, times out or is not approved, the call is refused or its
    /// result withheld.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub component: Vec<ComponentHookSection>,
    /// Limits on the rate of calls, counted in memory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_limit: Vec<RateLimitSection>,
    /// Patterns that are replaced in results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redact: Vec<RedactSection>,
}

/// A component that decides on calls and their results. Its section in [tools] has its limits, powers and approval. Its
/// default deadline is 1s, its default output 8MiB.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ComponentHookSection {
    /// Its name in [tools].
    pub name: String,
    /// Patterns of full names of tools, such as "web__*". Default: every tool.
    pub tools: Option<Vec<String>>,
    /// The functions to call. Default: "authorize", "before" and "after".
    pub on: Option<Vec<HookFunctionName>>,
}

/// A function of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookFunctionName {
    /// Decides whether the actor may make a call.
    Authorize,
    /// Decides on a call before it runs.
    Before,
    /// Decides on a result.
    After,
}

/// A limit on the rate of calls. It counts the calls of all these tools together, separately for each actor. Calls
/// without an actor share one count.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateLimitSection {
    /// Patterns of full names of tools, such as "web__*". Default: every tool.
    pub tools: Option<Vec<String>>,
    /// The actor to limit. Default: every actor.
    pub actor: Option<String>,
    /// Maximum calls of an actor at once, and per minute.
    pub per_minute: NonZeroU32,
}

/// A pattern that is replaced in results: in texts, JSON strings and numbers, links, and error messages.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactSection {
    /// A regular expression. Look-around and back-references are not supported.
    pub pattern: String,
    /// Patterns of full names of tools, such as "web__*". Default: every tool.
    pub tools: Option<Vec<String>>,
    /// The replacement. Default: "[redacted]".
    pub replacement: Option<String>,
}

impl HooksSection {
    /// Returns whether the component of this name is a hook.
    pub fn has_component(&self, name: &str) -> bool {
        self.component.iter().any(|hook| hook.name == name)
    }
}
