//! The port through which a loop runs calls. [`crate::driver`]s decide, executors run; neither does the other's work.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{ToolIntent, ToolSpec, Usage};
use serde::{Deserialize, Serialize};

use crate::execution::ToolExecution;

/// On whose behalf, where and within what a batch runs. Made by the program that runs the loop; nothing in it comes
/// from a model.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// Which session.
    pub session: String,
    /// Which execution of the loop within the session: a new one for each user message.
    pub execution: String,
    /// The session that started this one, if an agent did.
    pub parent_session: Option<String>,
    /// Which step of the execution, from 1.
    pub step: u32,
    /// On whose behalf; `None` for guests.
    pub actor: Option<Arc<str>>,
    /// Which skill is in use.
    pub skill: Option<Arc<str>>,
    /// The allowlist, signed. `None`: the executor's own default.
    pub envelope: Option<Arc<str>>,
    /// A read-only snapshot of the agent's state as JSON text, for tools that were granted it.
    pub state: Option<Arc<str>>,
    /// The record that asked for the batch.
    pub cause: Option<String>,
}

/// Why a batch ended before its last call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchEnd {
    /// A tool, a hook or a policy ended the whole run.
    Stop {
        /// What it said.
        reason: String,
    },
    /// A call failed, and failures were to end the step.
    Failed {
        /// Position of the call.
        index: usize,
    },
    /// A hook blocked a call, and blocks were to end the batch.
    Blocked {
        /// Position of the call.
        index: usize,
    },
}

/// What became of a batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BatchOutcome {
    /// One for each call that was processed, in the order of the calls.
    pub executions: Vec<ToolExecution>,
    /// Why it ended early, if it did.
    pub ended: Option<BatchEnd>,
    /// Tokens that were used on the path of the calls, as by a judge.
    #[serde(default)]
    pub usage: Usage,
    /// The agent's state as JSON text, if a hook changed it. Later batches of the session have it; it is not part of
    /// what is replayed, since no decision of a session depends on it.
    #[serde(skip)]
    pub state: Option<Arc<str>>,
}

impl BatchOutcome {
    /// A batch with these executions that used no tokens and changed no state.
    #[must_use]
    pub fn new(executions: Vec<ToolExecution>, ended: Option<BatchEnd>) -> Self {
        Self { executions, ended, usage: Usage::default(), state: None }
    }
}

/// Runs calls. One failure is never another's: each call has its own result.
pub trait ToolExecutor: Send + Sync {
    /// The tools that a model may be shown within this scope: those that a call within it may reach, no others.
    fn specs(&self, scope: &Scope) -> Vec<ToolSpec>;

    /// Runs the calls of one batch. Their effects have no order among each other; the results have that of the calls.
    /// Dropping the future stops the tools.
    fn execute<'a>(&'a self, calls: Vec<ToolIntent>, scope: &'a Scope) -> BoxFuture<'a, BatchOutcome>;
}
