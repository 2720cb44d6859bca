//! One call, as a caller asks for it.

use std::sync::Arc;

use serde_json::Value;

use crate::limits::Limits;

/// Arguments: either text, as a model wrote it, or a value that a program built.
#[derive(Debug, Clone)]
pub enum Arguments {
    /// JSON text. The gate parses it strictly.
    Text(String),
    /// A value. The gate checks it the same way, but for what a value cannot have, such as duplicate keys.
    Value(Value),
}

impl Default for Arguments {
    /// No arguments: `{}`.
    fn default() -> Self {
        Self::Value(Value::Object(serde_json::Map::new()))
    }
}

impl From<&str> for Arguments {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Arguments {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Value> for Arguments {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

/// One call of one tool, before anything was checked.
///
/// On whose behalf it runs and what it may see is said by the host's own code, never by the arguments.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// Identifies the call in results and events. Empty: the host makes one up.
    pub id: String,
    /// The full name of the tool: `component__tool`.
    pub tool: String,
    /// The arguments.
    pub arguments: Arguments,
    /// On whose behalf.
    pub actor: Option<Arc<str>>,
    /// A read-only snapshot of the agent's state, as JSON text. A tool sees it only if it was granted that.
    pub state: Option<Arc<str>>,
    /// Limits for this call instead of the tool's own.
    pub limits: Option<Limits>,
}

impl Call {
    /// A call of `tool` with `arguments`.
    pub fn new(tool: impl Into<String>, arguments: impl Into<Arguments>) -> Self {
        Self { tool: tool.into(), arguments: arguments.into(), ..Self::default() }
    }

    /// Names the call.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Says on whose behalf it runs.
    #[must_use]
    pub fn with_actor(mut self, actor: impl Into<Arc<str>>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Gives it a snapshot of the agent's state, as JSON text. The tool sees it only if it was granted that.
    #[must_use]
    pub fn with_state(mut self, state: impl Into<Arc<str>>) -> Self {
        self.state = Some(state.into());
        self
    }

    /// Gives it limits of its own.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }
}
