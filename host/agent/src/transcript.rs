//! What a session has done so far: runs, their steps and phases, and how each run ended. Values that are only ever
//! added to: a step that has ended is never touched again.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::chat::{Message, ModelError, Request, Response, ToolChoice, Usage};
use fumehood_core::time::Timestamp;
use serde::Serialize;

use crate::budget::BudgetKind;
use crate::driver::DecisionFault;
use crate::execution::{Status, ToolExecution};

/// How a run ended. Whatever was said and done before is in its steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "ending", rename_all = "snake_case")]
pub enum Ending {
    /// The model answered.
    Answered {
        /// The answer; never blank.
        text: String,
    },
    /// A limit was reached.
    BudgetExhausted {
        /// Which one.
        budget: BudgetKind,
        /// The last thing that the model had said until then; may be empty.
        text: String,
    },
    /// The model's replies could not be taken for decisions.
    DecisionFailed {
        /// Which part of taking them so failed.
        fault: DecisionFault,
        /// What was wrong.
        message: String,
    },
    /// The model gave no answer.
    ModelFailed {
        /// Why.
        error: ModelError,
    },
    /// A call failed, and failures were to end the run.
    ToolFailed {
        /// The name that the model used.
        tool: String,
        /// What was wrong.
        message: String,
    },
    /// A tool, a hook or a policy ended the run.
    Stopped {
        /// What it said.
        reason: String,
    },
    /// Too many batches failed in a row.
    CircuitOpen {
        /// What the person is told.
        text: String,
    },
    /// The model asked for the same call again and again.
    LoopDetected {
        /// The name that the model used.
        tool: String,
        /// How many times in a row it asked.
        times: u32,
    },
    /// The caller gave up.
    Cancelled,
}

impl Ending {
    /// The name that programs see: the same as in JSON.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Answered { .. } => "answered",
            Self::BudgetExhausted { .. } => "budget_exhausted",
            Self::DecisionFailed { .. } => "decision_failed",
            Self::ModelFailed { .. } => "model_failed",
            Self::ToolFailed { .. } => "tool_failed",
            Self::Stopped { .. } => "stopped",
            Self::CircuitOpen { .. } => "circuit_open",
            Self::LoopDetected { .. } => "loop_detected",
            Self::Cancelled => "cancelled",
        }
    }

    /// What the person was told at the end and later requests repeat, if it was anything.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Answered { text } | Self::CircuitOpen { text } | Self::BudgetExhausted { text, .. } => {
                Some(text.as_str()).filter(|text| !text.trim().is_empty())
            }
            _ => None,
        }
    }
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// Calls, and what became of them.
    ToolCalls,
    /// The final answer.
    FinalResponse,
    /// Neither.
    Error(String),
}

/// What the model was asked: a request without what the one before it had said already, so that a long session is kept
/// in proportion to its length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestDelta {
    /// How many messages at the beginning were those of the last request of the step before.
    pub repeated: usize,
    /// The messages after those.
    pub messages: Vec<Message>,
    /// How many tools it offered.
    pub tools: usize,
    /// Whether the model might, had to or must not call them.
    pub tool_choice: ToolChoice,
    /// Which model; `None`: the one that the client is set up for.
    pub model: Option<String>,
}

impl RequestDelta {
    /// What `request` says that `before` did not.
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

/// One decision of the model and what came of it. It took one request, or several where earlier replies were no
/// decisions.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// Which step of its run, from 1.
    pub number: u32,
    /// What the model was asked last.
    pub input: RequestDelta,
    /// Replies that were no decisions and were asked again about, oldest first.
    pub attempts: Vec<Response>,
    /// The reply that was decided on; none if the model gave none.
    pub response: Option<Response>,
    /// What it said: the answer, or the text beside the calls.
    pub text: String,
    /// The calls and their results, in the order of the calls.
    pub executions: Vec<ToolExecution>,
    /// Positions among the executions of those that the session itself made up: they never reached the executor, or
    /// never came back from it.
    pub own: Vec<usize>,
    /// What the step adds to the conversation.
    pub output: Vec<Message>,
    /// What it came to.
    pub kind: StepKind,
    /// Tokens of all its requests.
    pub usage: Usage,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
}

impl Step {
    /// The executions of calls: all but the one that stands for a failed decision.
    pub fn calls(&self) -> impl Iterator<Item = &ToolExecution> {
        let names = [DecisionFault::Extraction, DecisionFault::Validation].map(DecisionFault::as_str);
        let executions = self.executions.iter().enumerate();
        let calls = executions.filter(move |(index, execution)| {
            // A model may call a tool of that name; the session did not make that one up.
            !(self.own.contains(index) && execution.call.id == execution.id && names.contains(&execution.name()))
        });
        calls.map(|(_, execution)| execution)
    }
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseKind {
    /// The model makes up its mind.
    Deliberate,
    /// Tools run.
    Execute,
}

/// One row of the phases of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Phase {
    /// What the session was doing.
    pub kind: PhaseKind,
    /// The calls of the phase, in order.
    pub calls: Vec<PhaseCall>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; none while it lasts.
    pub ended_at: Option<Timestamp>,
}

/// A call in a row of phases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PhaseCall {
    /// [`ToolExecution::id`].
    pub execution: String,
    /// The id of the call.
    pub call: String,
    /// The name that the model used.
    pub tool: String,
    /// What became of it.
    pub status: Status,
}

/// Everything from one user message to its ending.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    /// Identifies the run within its session.
    pub id: String,
    /// What the person said, word for word.
    pub message: Message,
    /// The steps, oldest first.
    pub steps: Vec<Arc<Step>>,
    /// The phases, oldest first; deliberate and execute take turns.
    pub phases: Vec<Phase>,
    /// What an operator should know, such as that tools had to be left out.
    pub warnings: Vec<String>,
    /// How it ended; none while it lasts.
    pub ending: Option<Ending>,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended; none while it lasts.
    pub ended_at: Option<Timestamp>,
}

impl Run {
    /// A run that begins with this message.
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

    /// All calls of the run, oldest first.
    pub fn executions(&self) -> impl Iterator<Item = &ToolExecution> {
        self.steps.iter().flat_map(|step| &step.executions)
    }

    /// How long it took; nothing while it lasts.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.ended_at.map_or(Duration::ZERO, |end| end.since(self.started_at))
    }

    /// Ends the current phase and begins one of this kind.
    pub(crate) fn enter(&mut self, kind: PhaseKind, now: Timestamp) {
        self.leave(now);
        self.phases.push(Phase { kind, calls: Vec::new(), started_at: now, ended_at: None });
    }

    fn leave(&mut self, now: Timestamp) {
        if let Some(phase) = self.phases.last_mut() {
            phase.ended_at.get_or_insert(now);
        }
    }

    /// Appends the calls to the row of the current phase.
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

/// The runs of a session that have ended, oldest first. A clone is a snapshot: it shares what there is and never
/// changes.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Transcript {
    /// The runs.
    pub runs: Vec<Arc<Run>>,
}
