//! The inputs of a session and its actions.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::chat::{ModelError, Request, Response, ToolIntent, ToolSpec};
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::approval::PendingCall;
use super::budget::BudgetKind;
use super::transcript::Ending;
use crate::deferred::GivenAnswer;
use crate::executor::{BatchOutcome, StoppedBatch};
use crate::run_settings::RunSettings;

/// An input of a session: an event that just happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A message from the person or program on whose behalf the session runs. It starts a run.
    UserMessage {
        /// The text. It reaches the model word for word.
        text: String,
        /// The tools that may be used in this run.
        tools: Vec<ToolSpec>,
        /// The settings of the skill and of the channel in use.
        #[serde(default, skip_serializing_if = "RunSettings::is_default")]
        settings: RunSettings,
    },
    /// A response of the model.
    ModelAnswered {
        /// The response.
        response: Response,
        /// The time that the model spent writing, from the first piece on.
        streamed: Duration,
    },
    /// A request that the model did not answer.
    ModelFailed {
        /// The error.
        error: ModelError,
        /// The time that the model had spent writing.
        streamed: Duration,
    },
    /// The end of a batch of calls.
    ToolsFinished {
        /// The outcome of the batch.
        outcome: BatchOutcome,
        /// The time that the session waited for the batch.
        blocked: Duration,
    },
    /// The end of a batch that was under way when the program stopped. Calls without an execution may have run.
    ToolsInterrupted {
        /// The outcome of the calls that were repeated.
        outcome: BatchOutcome,
        /// The time that the session waited for them.
        blocked: Duration,
    },
    /// The stop of a batch while it ran, by a limit or a cancellation.
    ToolsStopped {
        /// The usage of the batch until then.
        batch: StoppedBatch,
        /// The limit that was reached; `None` for a cancellation.
        budget: Option<BudgetKind>,
        /// The time that the session waited for the batch.
        blocked: Duration,
    },
    /// The session goes on after the program had stopped. The action is that of the input before.
    Resumed {
        /// The time since the input before, which no limit counts.
        away: Duration,
    },
    /// A person's answer to a call that waits. It takes effect once the call is resumed.
    CallAnswered {
        /// The id of the pending call.
        id: String,
        /// The answer.
        answer: GivenAnswer,
    },
    /// Calls that waited go on: they pass every check again, with the answers that were given.
    CallsResumed {
        /// The ids of the model's calls.
        calls: Vec<String>,
    },
    /// A limit that was reached: the model was stopped, or the tools were not started.
    RanOut {
        /// The limit.
        budget: BudgetKind,
        /// The text that the model had written.
        text: String,
        /// The time that the model had spent writing.
        after: Duration,
    },
    /// The approver's answer to a question.
    ApproverAnswered {
        /// True if the answer was yes.
        yes: bool,
    },
    /// A cancellation while the model writes.
    Interrupted {
        /// The text that the model had written.
        text: String,
        /// The time that the model had spent writing.
        after: Duration,
    },
    /// A cancellation. The work in progress has been stopped.
    Cancelled,
}

impl Input {
    /// Returns the description of the input for messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::UserMessage { .. } => "a user message",
            Self::ModelAnswered { .. } => "an answer of the model",
            Self::ModelFailed { .. } => "a failure of the model",
            Self::ToolsFinished { .. } => "the results of a batch",
            Self::ToolsInterrupted { .. } => "the rest of a batch",
            Self::ToolsStopped { .. } => "the stop of a batch",
            Self::Resumed { .. } => "a resumption",
            Self::CallAnswered { .. } => "an answer to a call",
            Self::CallsResumed { .. } => "calls that go on",
            Self::RanOut { .. } => "a limit that was reached",
            Self::ApproverAnswered { .. } => "a person's answer",
            Self::Interrupted { .. } => "an interruption of the model",
            Self::Cancelled => "a cancellation",
        }
    }
}

/// A question to the approver about a limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BudgetQuestion {
    /// The limit.
    pub about: BudgetKind,
    /// The question, for a person. The answer is yes or no.
    pub text: String,
}

/// The next action of a session. Its outcome is the next input.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Send this request to the model.
    AskModel(Arc<Request>),
    /// Run these calls. There is at least one, and their ids are unique.
    RunTools(Vec<ToolIntent>),
    /// Ask the approver.
    AskApprover(BudgetQuestion),
    /// Wait until a person has answered these calls, perhaps in another process. The next input is an answer, or that
    /// calls are resumed.
    AwaitAnswers(Vec<PendingCall>),
    /// End the run. The next input is a user message.
    Finish(Ending),
}

/// An input with its time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RecordedInput {
    /// The time of the input.
    pub at: Timestamp,
    /// The input.
    pub input: Input,
}

/// Errors of [`Session::step`](super::Session::step). The session is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The input is not the one that the session waits for.
    #[error("the session expected {expected}, got {found}; pass the outcome of its last action")]
    Unexpected {
        /// The description of the input that it waits for.
        expected: &'static str,
        /// The description of the input.
        found: &'static str,
    },
}
