//! One call that a model asked for, and what became of it.

use fumehood_core::chat::ToolIntent;
use fumehood_core::content::Content;
use fumehood_core::result::{CallError, CallResult};
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// What became of a call, for whoever keeps records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The tool ran and succeeded.
    Ok,
    /// The tool ran and failed, was stopped or crashed.
    HandlerError,
    /// The tool is not on the allowlist.
    RejectedAllowlist,
    /// There is no such tool.
    RejectedNotFound,
    /// The arguments do not fit its schema.
    RejectedSchema,
    /// The actor may not make this call.
    RejectedUnauthorized,
    /// A guardrail or a person denied it, or wants to be asked.
    RejectedDenied,
    /// A hook blocked it.
    Blocked,
    /// A budget had run out.
    RejectedBudget,
    /// An earlier call of the batch ended the batch.
    Skipped,
}

impl Status {
    /// Whether the tool itself was reached.
    #[must_use]
    pub fn ran(self) -> bool {
        matches!(self, Self::Ok | Self::HandlerError)
    }
}

/// One call and its result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolExecution {
    /// Identifies the execution. The two messages that tell of it carry this.
    pub id: String,
    /// What the model asked for. Its id is never empty here.
    pub call: ToolIntent,
    /// What became of it.
    pub status: Status,
    /// The result, as the model may see it.
    pub result: CallResult,
    /// When it was taken up.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Timestamp,
    /// What a guardrail changed in the arguments, for the model to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
}

impl ToolExecution {
    /// The name that the model used.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.call.name
    }

    /// The arguments as the model wrote them.
    #[must_use]
    pub fn args(&self) -> &str {
        &self.call.arguments
    }

    /// The parts of the result, if the call succeeded.
    #[must_use]
    pub fn value(&self) -> Option<&[Content]> {
        self.result.outcome.as_deref().ok()
    }

    /// Why it failed, if it did.
    #[must_use]
    pub fn error(&self) -> Option<&CallError> {
        self.result.outcome.as_ref().err()
    }

    /// Whether it failed, for whatever reason.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.result.outcome.is_err()
    }

    /// Why it failed; empty if it succeeded.
    #[must_use]
    pub fn error_message(&self) -> &str {
        self.error().map_or("", |error| &error.message)
    }

    /// Whether a hook blocked it.
    #[must_use]
    pub fn was_blocked(&self) -> bool {
        self.status == Status::Blocked
    }
}
