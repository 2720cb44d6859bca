//! The transcript of a session: runs, their steps and phases, and their endings. Append-only: a step that has ended
//! never changes.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::call::history::PastCall;
use fumehood_core::chat::{Message, ModelError, Request, Response, StopReason, ToolChoice, Usage};
use fumehood_core::time::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::budget::BudgetKind;
use crate::drivers::driver::DecisionFault;
use crate::execution::{Status, ToolExecution};

/// The ending of a run. Everything before it is in the steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum Ending {
    /// The model answered.
    Answered {
        /// The answer; never blank, unless it is the result of a skill that no model runs.
        text: String,
    },
    /// The model's last reply is incomplete: it was cut, filtered, refused or paused, or it failed. Calls in it were not made.
    IncompleteAnswer {
        /// The reason why the reply ended.
        stop: StopReason,
        /// The text of the reply; may be empty.
        text: String,
    },
    /// The answer does not match the session's [`OutputSchema`](super::OutputSchema), after all repairs.
    InvalidAnswer {
        /// The last answer.
        text: String,
        /// The violations of the schema.
        message: String,
    },
    /// A limit was reached.
    BudgetExhausted {
        /// The limit.
        budget: BudgetKind,
        /// The last text of the model until then; may be empty.
        text: String,
    },
    /// The replies of the model were not valid decisions.
    DecisionFailed {
        /// The part that failed.
        fault: DecisionFault,
        /// The message of the error.
        message: String,
    },
    /// The model returned an error.
    ModelFailed {
        /// The error.
        error: ModelError,
    },
    /// A call failed, and failures end the run.
    ToolFailed {
        /// The name of the tool, as the model wrote it.
        tool: String,
        /// The message of the error.
        message: String,
    },
    /// A tool, a hook or a policy ended the run.
    Stopped {
        /// The reason.
        reason: String,
    },
    /// Too many consecutive batches failed.
    CircuitOpen {
        /// The message for the person.
        text: String,
    },
    /// The model requested the same call too many times in a row.
    LoopDetected {
        /// The name of the tool, as the model wrote it.
        tool: String,
        /// The number of requests in a row.
        times: u32,
    },
    /// Calls wait for the answers of a person. The run has not ended: it goes on once they are there.
    WaitingForApproval {
        /// The calls, as they may be recorded.
        waiting: Vec<WaitingCall>,
    },
    /// The caller suspended the run. It has not ended: it goes on when the session is resumed.
    Suspended,
    /// The caller cancelled the run.
    Cancelled,
}

/// A call that waits for the answer of a person, as it may be recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitingCall {
    /// The id by which it is answered.
    pub id: String,
    /// The id of the model's call.
    pub call: String,
    /// The full name of the tool.
    pub tool: String,
    /// The arguments; `None` where the policy of the tool excludes them from records.
    pub arguments: Option<Value>,
    /// The source of the question, such as a rule.
    pub from: String,
    /// The question.
    pub question: String,
}

impl Ending {
    /// Returns the name of the ending, as in JSON.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Answered { .. } => "answered",
            Self::IncompleteAnswer { .. } => "incomplete_answer",
            Self::InvalidAnswer { .. } => "invalid_answer",
            Self::BudgetExhausted { .. } => "budget_exhausted",
            Self::DecisionFailed { .. } => "decision_failed",
            Self::ModelFailed { .. } => "model_failed",
            Self::ToolFailed { .. } => "tool_failed",
            Self::Stopped { .. } => "stopped",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::LoopDetected { .. } => "loop_detected",
            Self::WaitingForApproval { .. } => "waiting_for_approval",
            Self::Suspended => "suspended",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the final text for the person, which later requests repeat, if there is one.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Answered { text }
            | Self::IncompleteAnswer { text, .. }
            | Self::CircuitOpen { text }
            | Self::BudgetExhausted { text, .. } => Some(text.as_str()).filter(|text| !text.trim().is_empty()),
            _ => None,
        }
    }
}

/// The kind of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Calls and their results.
    ToolCalls,
    /// The final answer.
    FinalResponse,
    /// Neither calls nor an answer, with the reason.
    Error(String),
}

/// A request without the messages that it shares with the one before, so that the size of a transcript is linear in the
/// length of the session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestDelta {
    /// The number of leading messages that the last request of the previous step has, too.
    pub repeated: usize,
    /// The messages after those.
    pub messages: Vec<Message>,
    /// The number of tools that the request offered.
    pub tools: usize,
    /// The tool choice of the request: the model may, must or must not call tools.
    pub tool_choice: ToolChoice,
    /// The model; `None` for the one that the client is configured with.
    pub model: Option<String>,
}

impl RequestDelta {
    /// Returns the difference between `request` and the one before.
    pub(crate) fn new(request: &Request, before: Option<&Request>) -> Self {
        let before = before.map(|request| request.messages.as_slice()).unwrap_or_default();
        let repeated = request.messages.iter().zip(before).take_while(|(now, then)| now == then).count();
        Self {
            repeated,
            messages: request.messages.get(repeated..).unwrap_or_default().to_vec(),
            tools: request.tools.len(),
            tool_choice: request.tool_choice.clone(),
            model: request.model.clone(),
        }
    }
}

/// One decision of the model and its results. It took one request, or several if earlier replies were no decisions.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// The number of the step in its run, from 1.
    pub number: u32,
    /// The last request to the model; `None` for the call of a skill that no model runs.
    pub input: Option<RequestDelta>,
    /// Replies that were no decisions, after which the model was asked again, oldest first.
    pub attempts: Vec<Response>,
    /// The reply with the decision; `None` if the model gave none.
    pub response: Option<Response>,
    /// The text of the reply: the answer, or the text beside the calls.
    pub text: String,
    /// The calls and their results, in the order of the calls.
    pub executions: Vec<ToolExecution>,
    /// Positions of executions that the session itself made, because the call never reached the executor or never
    /// returned from it.
    pub own: Vec<usize>,
    /// The messages that the step adds to the conversation.
    pub output: Vec<Message>,
    /// The kind of the step.
    pub kind: StepKind,
    /// Tokens of all its requests.
    pub usage: Usage,
    /// The start time.
    pub started_at: Timestamp,
    /// The end time.
    pub ended_at: Timestamp,
}

impl Step {
    /// Returns the number of requests to the model that the step took.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.attempts.len().saturating_add(usize::from(self.input.is_some()))
    }

    /// Returns the executions of calls: all except the one that stands for a failed decision.
    pub fn calls(&self) -> impl Iterator<Item = &ToolExecution> {
        let names = [DecisionFault::Extraction, DecisionFault::Validation].map(DecisionFault::as_str);
        let executions = self.executions.iter().enumerate();
        let calls = executions.filter(move |(index, execution)| {
            // A model may call a tool of that name, which is not an execution that the session made.
            !(self.own.contains(index) && execution.call.id == execution.id && names.contains(&execution.name()))
        });
        calls.map(|(_, execution)| execution)
    }
}

/// The kind of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// The model decides.
    Deliberate,
    /// Tools run.
    Execute,
}

/// A phase of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// The kind of the phase.
    pub kind: PhaseKind,
    /// The calls of the phase, in order.
    pub calls: Vec<PhaseCall>,
    /// The start time.
    pub started_at: Timestamp,
    /// The end time; `None` while it lasts.
    pub ended_at: Option<Timestamp>,
}

/// A call in a phase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseCall {
    /// [`ToolExecution::id`].
    pub execution: String,
    /// The id of the call.
    pub call: String,
    /// The name of the tool, as the model wrote it.
    pub tool: String,
    /// The status.
    pub status: Status,
}

/// A run: everything from one user message to its ending.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// The id of the run within its session.
    pub id: String,
    /// The message of the person, verbatim.
    pub message: Message,
    /// The steps, oldest first.
    pub steps: Vec<Arc<Step>>,
    /// The phases, oldest first. Deliberate and execute alternate.
    pub phases: Vec<Phase>,
    /// Warnings for the operator, such as about tools that had to be left out.
    pub warnings: Vec<String>,
    /// The ending; `None` while the run lasts.
    pub ending: Option<Ending>,
    /// The start time.
    pub started_at: Timestamp,
    /// The end time; `None` while it lasts.
    pub ended_at: Option<Timestamp>,
}

impl Run {
    /// Creates a run that starts with this message.
    #[must_use]
    pub fn new(id: String, text: String, now: Timestamp) -> Self {
        let first = Phase { kind: PhaseKind::Deliberate, calls: Vec::new(), started_at: now, ended_at: None };
        Self {
            id,
            message: Message::user(text),
            steps: Vec::new(),
            phases: vec![first],
            warnings: Vec::new(),
            ending: None,
            started_at: now,
            ended_at: None,
        }
    }

    /// Returns whether no model was to be asked: the run is the call of a skill.
    #[must_use]
    pub fn is_skill_call(&self) -> bool {
        !self.steps.is_empty() && self.steps.iter().all(|step| step.input.is_none())
    }

    /// Returns all executions of the run, oldest first.
    pub fn executions(&self) -> impl Iterator<Item = &ToolExecution> {
        self.steps.iter().flat_map(|step| &step.executions)
    }

    /// Returns the duration; zero while the run lasts.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.ended_at.map_or(Duration::ZERO, |end| end.since(self.started_at))
    }

    /// Ends the current phase and starts one of this kind.
    pub(crate) fn enter(&mut self, kind: PhaseKind, now: Timestamp) {
        self.leave(now);
        self.phases.push(Phase { kind, calls: Vec::new(), started_at: now, ended_at: None });
    }

    /// Ends the current phase.
    fn leave(&mut self, now: Timestamp) {
        if let Some(phase) = self.phases.last_mut() {
            phase.ended_at.get_or_insert(now);
        }
    }

    /// Appends calls to the current phase.
    pub(crate) fn append_calls(&mut self, executions: &[ToolExecution]) {
        if let Some(phase) = self.phases.last_mut() {
            phase.calls.extend(executions.iter().map(|execution| PhaseCall {
                execution: execution.id.clone(),
                call: execution.call.id.clone(),
                tool: execution.call.name.clone(),
                status: execution.status,
            }));
        }
    }

    /// Ends the run.
    pub(crate) fn end(&mut self, ending: Ending, now: Timestamp) {
        self.leave(now);
        self.ending = Some(ending);
        self.ended_at = Some(now);
    }
}

/// The runs of a session that have ended, oldest first. A clone is a snapshot: it shares the runs and never changes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Transcript {
    /// The runs.
    pub runs: Vec<Arc<Run>>,
    /// The first call of each tool that was called, those of programs included.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_calls: Vec<PastCall>,
}
