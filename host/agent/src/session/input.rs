//! What goes into a session and what comes out of it.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::chat::{ModelError, Request, Response, ToolIntent, ToolSpec};
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::budget::BudgetKind;
use crate::executor::BatchOutcome;
use crate::transcript::Ending;

/// What has just happened.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A person, or a program on whose behalf the session runs, said something. Begins a run.
    UserMessage {
        /// What was said. It reaches the model word for word.
        text: String,
        /// The tools that may be used in this run.
        tools: Vec<ToolSpec>,
    },
    /// The model answered.
    ModelAnswered {
        /// The answer.
        response: Response,
        /// The time that the model wrote, from the first piece on.
        streamed: Duration,
    },
    /// The model gave no answer.
    ModelFailed {
        /// Why.
        error: ModelError,
        /// The time that the model wrote until then.
        streamed: Duration,
    },
    /// The calls have ended.
    ToolsFinished {
        /// What became of them.
        outcome: BatchOutcome,
        /// How long the session was kept waiting for them.
        blocked: Duration,
    },
    /// A limit was reached while the model wrote or tools ran, and that was stopped; or before they were started.
    RanOut {
        /// Which limit.
        budget: BudgetKind,
        /// The text that the model had written until then.
        text: String,
        /// The time that the model had written, or the tools had run.
        after: Duration,
    },
    /// A person answered a question.
    ApproverAnswered {
        /// Whether the answer was yes.
        yes: bool,
    },
    /// The caller gives up while the model writes.
    Interrupted {
        /// The text that the model had written until then.
        text: String,
        /// The time that the model had written.
        after: Duration,
    },
    /// The caller gives up. What was under way has been stopped.
    Cancelled,
}

impl Input {
    /// What it is called in messages.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::UserMessage { .. } => "a user message",
            Self::ModelAnswered { .. } => "an answer of the model",
            Self::ModelFailed { .. } => "a failure of the model",
            Self::ToolsFinished { .. } => "the results of a batch",
            Self::RanOut { .. } => "a limit that was reached",
            Self::ApproverAnswered { .. } => "a person's answer",
            Self::Interrupted { .. } => "an interruption of the model",
            Self::Cancelled => "a cancellation",
        }
    }
}

/// What a person is asked about a limit that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BudgetQuestion {
    /// What it is about.
    pub about: BudgetKind,
    /// In words. Yes or no is the answer.
    pub text: String,
}

/// What to do next. Its outcome is the next input.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Ask the model.
    AskModel(Arc<Request>),
    /// Run these calls; there is at least one, each with an id that no other of them has.
    RunTools(Vec<ToolIntent>),
    /// Ask a person.
    AskApprover(BudgetQuestion),
    /// The run has ended; the next input is a user message.
    Finish(Ending),
}

/// One input and when it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Recorded {
    /// When.
    pub at: Timestamp,
    /// What.
    pub input: Input,
}

/// Why a session took no step. It is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StepError {
    /// The input is not one that it waits for.
    #[error("the session waits for {expected}, not for {found}; give it the outcome of its last action")]
    Unexpected {
        /// What it waits for.
        expected: &'static str,
        /// What came.
        found: &'static str,
    },
}
