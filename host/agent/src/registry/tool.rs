//! The port behind which every tool stands, whatever family it is of.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::ToolIntent;
use fumehood_core::event::Progress;
use fumehood_core::result::CallResult;
use serde_json::Value;

use super::contract::Contract;
use super::policy::Policy;

/// Takes the news of running calls. Must not block.
pub trait PartialSink: Send + Sync {
    /// Part of a result, or news, of the call that the sink was made for.
    fn partial(&self, progress: Progress);
}

/// Where a running call sends parts of its result.
#[derive(Clone, Default)]
pub struct Partials(Option<Arc<dyn PartialSink>>);

impl Partials {
    /// Sends them there.
    #[must_use]
    pub fn to(sink: Arc<dyn PartialSink>) -> Self {
        Self(Some(sink))
    }

    /// Sends part of the result, or news, at once.
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

/// One call that passed the gate, as a tool sees it.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The id of the call. Never empty.
    pub id: String,
    /// The full name of the tool.
    pub tool: String,
    /// The arguments. They fit the schema.
    pub arguments: Value,
    /// On whose behalf; `None` for guests. The host says so, never the arguments.
    pub actor: Option<Arc<str>>,
    /// A read-only copy of the agent's state as JSON text, for tools that say that they want it.
    pub state: Option<Arc<str>>,
    /// Which session.
    pub session: String,
    /// Which execution of the loop.
    pub execution: String,
    /// Which step of it.
    pub step: u32,
    /// Where parts of the result go while the call runs.
    pub partials: Partials,
}

impl Invocation {
    /// The call as the model asked for it, for tools that make calls or sessions of their own.
    #[must_use]
    pub fn intent(&self) -> ToolIntent {
        ToolIntent { id: self.id.clone(), name: self.tool.clone(), arguments: self.arguments.to_string() }
    }
}

/// A tool or a hook ends the whole run. Never turned into the result of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the run was ended: {reason}")]
pub struct Stop {
    /// Why.
    pub reason: String,
}

impl Stop {
    /// Ends the run for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// What a tool is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// It does something.
    #[default]
    Action,
    /// It gives a text that belongs to a skill.
    Knowledge,
}

/// A tool.
pub trait Tool: Send + Sync {
    /// What it says about itself.
    fn contract(&self) -> &Contract;

    /// Whether the actor may make this call. Asked after the gate and before every rule. Must not block.
    fn authorize(&self, actor: Option<&str>, invocation: &Invocation) -> bool {
        let _anybody = (actor, invocation);
        true
    }

    /// Whether the tool's own type takes arguments that fit its schema. Asked with the gate.
    ///
    /// # Errors
    /// What is wrong with them.
    fn accepts(&self, arguments: &Value) -> Result<(), String> {
        let _anything = arguments;
        Ok(())
    }

    /// Whether it wants to see the agent's state.
    fn wants_state(&self) -> bool {
        false
    }

    /// What it is for.
    fn purpose(&self) -> Purpose {
        Purpose::Action
    }

    /// How its calls are treated, as far as the tool itself has a say. Nothing in it comes from untrusted code.
    fn policy(&self) -> Policy {
        Policy::default()
    }

    /// Runs the call. Dropping the future stops it.
    ///
    /// # Errors
    /// Only to end the whole run; a failure is a result.
    fn call(&self, invocation: Arc<Invocation>) -> BoxFuture<'_, Result<CallResult, Stop>>;
}
