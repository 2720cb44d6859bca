//! The port of all tools, for every kind of provider.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::ToolIntent;
use fumehood_core::event::Progress;
use fumehood_core::result::CallResult;
use serde_json::Value;

use super::contract::Contract;
use super::policy::Policy;

/// A receiver of progress of running calls. Must not block.
pub trait PartialSink: Send + Sync {
    /// Receives a partial result, or progress, of the call that the sink was made for.
    fn partial(&self, progress: Progress);
}

/// The handle through which a running call sends partial results. The default discards them.
#[derive(Clone, Default)]
pub struct Partials(Option<Arc<dyn PartialSink>>);

impl Partials {
    /// Creates a handle that sends to `sink`.
    #[must_use]
    pub fn new(sink: Arc<dyn PartialSink>) -> Self {
        Self(Some(sink))
    }

    /// Sends a partial result, or progress, immediately.
    pub fn send(&self, progress: Progress) {
        if let Some(sink) = &self.0 {
            sink.partial(progress);
        }
    }
}

impl fmt::Debug for Partials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Partials(a sink)" } else { "Partials(nowhere)" })
    }
}

/// A call that passed the gate, as a tool receives it.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The id of the call. Never empty.
    pub id: String,
    /// The full name of the tool.
    pub tool: String,
    /// The arguments. They fit the schema.
    pub arguments: Value,
    /// The actor on whose behalf the call is made; `None` for guests. Set by the host, never by the arguments.
    pub actor: Option<Arc<str>>,
    /// A read-only copy of the agent's state as JSON text, if [`Tool::needs_state`].
    pub state: Option<Arc<str>>,
    /// The id of the session.
    pub session: String,
    /// The id of the execution of the loop.
    pub execution: String,
    /// The number of the step in the execution, from 1.
    pub step: u32,
    /// The handle for partial results while the call runs.
    pub partials: Partials,
}

impl Invocation {
    /// Returns the call as an intent of the model, for tools that make calls or sessions of their own.
    #[must_use]
    pub fn intent(&self) -> ToolIntent {
        ToolIntent { id: self.id.clone(), name: self.tool.clone(), arguments: self.arguments.to_string() }
    }
}

/// The end of the whole run, requested by a tool or a hook. Never converted to the result of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run was ended: {reason}")]
pub struct Stop {
    /// The reason.
    pub reason: String,
}

impl Stop {
    /// Creates a request to end the run for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// The purpose of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// The tool performs an action.
    #[default]
    Action,
    /// The tool returns a text that belongs to a skill.
    Knowledge,
}

/// A tool that a model can call: a built-in function, or a tool of a component or of an MCP server.
pub trait Tool: Send + Sync {
    /// Returns the checked description of the tool.
    fn contract(&self) -> &Contract;

    /// Returns whether the actor may make this call. Checked after the gate and before all rules. Must not block.
    fn authorize(&self, actor: Option<&str>, invocation: &Invocation) -> bool {
        let _ = (actor, invocation);
        true
    }

    /// Checks arguments that fit the schema against the tool's own type. Called after the gate.
    ///
    /// # Errors
    /// A description of the problem, if the type does not accept them.
    fn accepts(&self, arguments: &Value) -> Result<(), String> {
        let _ = arguments;
        Ok(())
    }

    /// Returns whether the tool needs the agent's state.
    fn needs_state(&self) -> bool {
        false
    }

    /// Returns the purpose of the tool.
    fn purpose(&self) -> Purpose {
        Purpose::Action
    }

    /// Returns the tool's own policy. No part of it comes from untrusted code.
    fn policy(&self) -> Policy {
        Policy::default()
    }

    /// Runs the call. Dropping the future stops it.
    ///
    /// # Errors
    /// Only to end the whole run; a failure of the call is a result.
    fn call(&self, invocation: Arc<Invocation>) -> BoxFuture<'_, Result<CallResult, Stop>>;
}
