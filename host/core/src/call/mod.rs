//! Requests to call a tool, and the context that a call runs in.

pub mod client_requests;
pub mod content;
mod context;
pub mod error_kind;
pub mod event;
mod fuel_account;
pub mod history;
mod job_id;
pub mod limits;
mod mcp_members;
mod observer;
mod refusal;
pub mod result;

pub use context::{CallContext, CancellationToken, SessionStep};
pub use fuel_account::FuelAccount;
pub use job_id::JobId;
pub use mcp_members::{ErrorDetails, ResultMembers};
pub use observer::{Observer, Usage};
pub(crate) use refusal::quote;
pub use refusal::{Power, Refusal};
use serde_json::Value;
use std::sync::Arc;

use crate::call::limits::Limits;

/// The arguments of a call: text, as a model wrote it, or a value that a program built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arguments {
    /// JSON text. The [gate](crate::schema::gate) parses it strictly.
    Text(String),
    /// A JSON value. The [gate](crate::schema::gate) checks it like text, except for defects that a value cannot have, such as
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
/// Everything but tool and arguments is set by the host's own code, never by a model.
///
/// ```
/// use fumehood_core::call::limits::Limits;
/// use fumehood_core::call::{Call, CancellationToken};
/// use serde_json::json;
///
/// // Arguments are a value, or text as a model wrote it.
/// let call = Call::new("calculator__add", json!({"a": 3, "b": 5}));
/// let written = Call::new("calculator__add", r#"{"a": 3, "b": 5}"#);
///
/// let limits = Limits::default().fuel(1_000_000);
/// let call = call.id("request-7").actor("ann").limits(limits).cancelled_by(CancellationToken::new());
/// assert_eq!(call.context.actor.as_deref(), Some("ann"));
/// // Without an actor, a call is that of a guest.
/// assert_eq!(written.context.actor, None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Call {
    /// The full name of the tool: `component__tool`.
    pub tool: String,
    /// The arguments.
    pub arguments: Arguments,
    /// The context of the call.
    pub context: CallContext,
}

impl Call {
    /// Creates a call of `tool` with `arguments`.
    pub fn new(tool: impl Into<String>, arguments: impl Into<Arguments>) -> Self {
        Self { tool: tool.into(), arguments: arguments.into(), context: CallContext::default() }
    }

    /// Sets the id of the call in results and events. Without one, the host generates it.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.context.id = id.into();
        self
    }

    /// Sets the actor on whose behalf the call runs.
    #[must_use]
    pub fn actor(mut self, actor: impl Into<Arc<str>>) -> Self {
        self.context.actor = Some(actor.into());
        self
    }

    /// Sets the read-only snapshot of the agent's state, as JSON text. Visible only to a tool that was granted
    /// [`Power::State`].
    #[must_use]
    pub fn state(mut self, state: impl Into<Arc<str>>) -> Self {
        self.context.state = Some(state.into());
        self
    }

    /// Sets limits of this call, instead of those of the tool.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.context.limits = Some(limits);
        self
    }

    /// Sets an observer of this call. Its methods run while the tool waits, and must not block.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.context.observer = Some(observer);
        self
    }

    /// Stops the tool within milliseconds once `token` is cancelled. The result then has the kind `cancelled`, and the
    /// cost of the call until then.
    #[must_use]
    pub fn cancelled_by(mut self, token: CancellationToken) -> Self {
        self.context.cancelled = Some(token);
        self
    }
}
