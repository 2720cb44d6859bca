//! Requests to call a tool.

use std::sync::Arc;

use serde_json::Value;

use crate::limits::Limits;

/// The arguments of a call: text, as a model wrote it, or a value that a program built.
#[derive(Debug, Clone)]
pub enum Arguments {
    /// JSON text. The [gate](crate::gate) parses it strictly.
    Text(String),
    /// A JSON value. The [gate](crate::gate) checks it like text, except for defects that a value cannot have, such as
    /// duplicate keys.
    Value(Value),
}

impl Default for Arguments {
    /// Returns no arguments: `{}`.
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

/// An unchecked call of one tool.
///
/// The actor and the visible state are set by the host's own code, never by the arguments.
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The id of the call in results and events. If empty, the host generates one.
    pub id: String,
    /// The full name of the tool: `component__tool`.
    pub tool: String,
    /// The arguments.
    pub arguments: Arguments,
    /// The actor on whose behalf the call runs.
    pub actor: Option<Arc<str>>,
    /// A read-only snapshot of the agent's state, as JSON text. Visible only to a tool that was granted
    /// [`Power::State`](crate::permission::Power::State).
    pub state: Option<Arc<str>>,
    /// Limits of this call, instead of those of the tool.
    pub limits: Option<Limits>,
}

impl Call {
    /// Creates a call of `tool` with `arguments`.
    pub fn new(tool: impl Into<String>, arguments: impl Into<Arguments>) -> Self {
        Self { tool: tool.into(), arguments: arguments.into(), ..Self::default() }
    }

    /// Sets the id of the call.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets the actor on whose behalf the call runs.
    #[must_use]
    pub fn actor(mut self, actor: impl Into<Arc<str>>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Sets the read-only snapshot of the agent's state, as JSON text. Visible only to a tool that was granted
    /// [`Power::State`](crate::permission::Power::State).
    #[must_use]
    pub fn state(mut self, state: impl Into<Arc<str>>) -> Self {
        self.state = Some(state.into());
        self
    }

    /// Sets limits of this call, instead of those of the tool.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }
}
