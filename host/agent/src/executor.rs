//! The port for running calls. A [`Driver`](crate::driver::Driver) decides on calls, a [`ToolExecutor`] runs them.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::history::{CallHistory, PastCall};
use fumehood_core::chat::{ToolIntent, ToolSpec, Usage};
use serde::{Deserialize, Serialize};

use crate::allowance::CallAllowance;
use crate::deferred::{CallAnswer, DeferredCall};
use crate::execution::ToolExecution;
use crate::program_record::ProgramRecords;
use crate::run_settings::RunSettings;

/// The context of a batch of calls: the session, the actor, the skill and the allowlist. It is set by the program that
/// runs the loop, never by a model.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// The id of the session.
    pub session: String,
    /// The id of the execution of the loop within the session: a new one for each user message.
    pub execution: String,
    /// The id of the session that started this one, if an agent started it.
    pub parent_session: Option<String>,
    /// The number of the step in the execution, from 1.
    pub step: u32,
    /// The actor on whose behalf calls are made; `None` for guests.
    pub actor: Option<Arc<str>>,
    /// The skill in use.
    pub skill: Option<Arc<str>>,
    /// The signed allowlist; `None` for the executor's own default.
    pub envelope: Option<Arc<str>>,
    /// A read-only snapshot of the agent's state as JSON text, for tools that need it.
    pub state: Option<Arc<str>>,
    /// The id of the record that led to the batch.
    pub cause: Option<String>,
    /// The rest of the session's budgets, for calls of programs; `None` for no limit.
    pub allowance: Option<Arc<CallAllowance>>,
    /// The calls of the session so far. The executor adds those of the batch as they start.
    pub history: Arc<CallHistory>,
    /// The full names of the tools that searches of the session have shown, in order: see
    /// [`shown_tools`](crate::tool_search::shown_tools).
    pub shown: Arc<[String]>,
    /// Answers of people to calls of the batch that were deferred before.
    pub answers: Arc<[CallAnswer]>,
    /// The records of programs; `None` if a program that is stopped is lost.
    pub programs: Option<Arc<dyn ProgramRecords>>,
}

/// The reason that a batch ended before its last call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchEnd {
    /// A tool, a hook or a policy ended the whole run.
    Stop {
        /// The reason.
        reason: String,
    },
    /// A call failed, and failures end the step.
    Failed {
        /// Position of the call.
        index: usize,
    },
    /// A hook blocked a call, and blocked calls end the batch.
    Blocked {
        /// Position of the call.
        index: usize,
    },
}

/// The outcome of a batch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BatchOutcome {
    /// The executions of all calls that were processed, in the order of the calls.
    pub executions: Vec<ToolExecution>,
    /// The reason that it ended early, if it did.
    pub ended: Option<BatchEnd>,
    /// Tokens that were used on the path of the calls, such as by a judge.
    #[serde(default)]
    pub usage: Usage,
    /// Number of calls that programs made. They count towards the budgets like those of the model.
    #[serde(default)]
    pub program_calls: u32,
    /// The calls that wait for the answer of a person. They have no execution.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deferred: Vec<DeferredCall>,
    /// The first calls of tools that the session had not called before, those of programs included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_calls: Vec<PastCall>,
    /// The tools that a search of this batch showed to the model, and that it may call from the next step on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The result of the call of a skill that no model runs, as text: all of it, where its execution has what a model may
    /// see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

impl BatchOutcome {
    /// Creates an outcome of these executions alone.
    #[must_use]
    pub fn new(executions: Vec<ToolExecution>, ended: Option<BatchEnd>) -> Self {
        let usage = Usage::default();
        let deferred = Vec::new();
        let first_calls = Vec::new();
        let tools = Vec::new();
        Self { executions, ended, usage, program_calls: 0, deferred, first_calls, tools, answer: None }
    }
}

/// The usage of a batch that was stopped before its end, as far as it is known.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct StoppedBatch {
    /// Number of calls that programs made.
    #[serde(default)]
    pub program_calls: u32,
    /// The fuel of the calls that had ended.
    #[serde(default)]
    pub fuel: u64,
    /// The first calls of tools that the session had not called before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first_calls: Vec<PastCall>,
}

/// An executor of calls. Each call has its own result: the failure of one never fails another.
pub trait ToolExecutor: Send + Sync {
    /// Returns the tools that a model sees within this scope: exactly those that it may call.
    fn specs(&self, scope: &Scope) -> Vec<ToolSpec>;

    /// Returns the settings of a run of this message within this scope: those of its skill and of its channel. There are
    /// none by default.
    fn run_settings(&self, message: &str, scope: &Scope) -> RunSettings {
        let _ = (message, scope);
        RunSettings::default()
    }

    /// Returns the names of the tools of whose calls nothing may be saved. There are none by default.
    fn withheld_tools(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether a person can be asked now about calls that need approval.
    fn can_ask(&self) -> bool {
        false
    }

    /// Runs the calls of one batch. Their effects have no order among each other; the results have that of the calls.
    /// Dropping the future stops the tools.
    fn execute<'a>(&'a self, calls: Vec<ToolIntent>, scope: &'a Scope) -> BoxFuture<'a, BatchOutcome>;
}
