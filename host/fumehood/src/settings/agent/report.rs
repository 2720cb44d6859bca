//! The report of a run, for the program around its agent.

use fumehood_agent::agent::Outcome;
use fumehood_agent::execution::{Status, ToolExecution};
use fumehood_agent::transcript::Ending;
use fumehood_core::call::result::CallResult;
use fumehood_core::chat::Usage;

/// The report of a run.
#[derive(Debug, Clone)]
pub struct AgentReport {
    /// The answer, or the last text of the model; empty if there is none.
    pub text: String,
    /// The way the run ended, such as `answered`.
    pub status: &'static str,
    /// The reason why there is no answer; `None` if there is one.
    pub reason: Option<String>,
    /// The number of requests to the model.
    pub turns: usize,
    /// The tokens of these requests, as the model reported them.
    pub usage: Usage,
    /// The calls that the model requested, in their order, refused ones included.
    pub calls: Vec<CallReport>,
}

/// A call that a model requested.
#[derive(Debug, Clone)]
pub struct CallReport {
    /// The id that the model gave the call.
    pub id: String,
    /// The full name of the tool, or the name that the model wrote if there is no such tool.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// The status of the call, such as [`Status::RejectedSchema`].
    pub status: Status,
    /// The result, as the model may see it.
    pub result: CallResult,
}

impl From<Outcome> for AgentReport {
    fn from(outcome: Outcome) -> Self {
        let mut usage = Usage::default();
        let mut turns = 0_usize;
        let mut calls = Vec::new();
        for step in &outcome.run.steps {
            usage += step.usage;
            turns = turns.saturating_add(step.requests());
            calls.extend(step.calls().map(CallReport::from));
        }
        Self {
            text: outcome.text().to_owned(),
            status: outcome.ending.as_str(),
            reason: reason(&outcome.ending),
            turns,
            usage,
            calls,
        }
    }
}

impl From<&ToolExecution> for CallReport {
    fn from(execution: &ToolExecution) -> Self {
        Self {
            id: execution.call.id.clone(),
            tool: execution.call.name.clone(),
            arguments: execution.call.arguments.clone(),
            status: execution.status,
            result: execution.result.clone(),
        }
    }
}

/// Returns the reason why a run ended without an answer.
fn reason(ending: &Ending) -> Option<String> {
    Some(match ending {
        Ending::Answered { .. } => return None,
        Ending::IncompleteAnswer { stop, .. } => stop.describe().to_owned(),
        Ending::InvalidAnswer { message, .. } | Ending::DecisionFailed { message, .. } => message.clone(),
        Ending::BudgetExhausted { budget, .. } => format!("a limit was reached: {budget}"),
        Ending::ModelFailed { error } => error.message.clone(),
        Ending::ToolFailed { tool, message } => format!("the tool `{tool}` failed: {message}"),
        Ending::Stopped { reason } => reason.clone(),
        Ending::CircuitOpen { text } => text.clone(),
        Ending::LoopDetected { tool, times } => format!("the model requested the same call of `{tool}` {times} times"),
        Ending::WaitingForApproval { .. } => "calls wait for the answer of a person".to_owned(),
        Ending::Suspended => "the run was suspended".to_owned(),
        Ending::Cancelled => "the run was cancelled".to_owned(),
    })
}
