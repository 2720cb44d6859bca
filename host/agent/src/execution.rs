//! Executions: calls that a model requested, with their status and result.

use fumehood_core::call::content::Content;
use fumehood_core::call::result::{CallError, CallResult};
use fumehood_core::chat::ToolIntent;
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The status of a call, for records.
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
    /// The arguments do not match its schema.
    RejectedSchema,
    /// The actor may not make this call.
    RejectedUnauthorized,
    /// A guardrail or a person denied it, or it needs approval.
    RejectedDenied,
    /// A hook blocked it.
    Blocked,
    /// A budget was exhausted.
    RejectedBudget,
    /// An earlier call of the batch ended the batch.
    Skipped,
}

impl Status {
    /// Returns the name of the status, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::HandlerError => "handler_error",
            Self::RejectedAllowlist => "rejected_allowlist",
            Self::RejectedNotFound => "rejected_not_found",
            Self::RejectedSchema => "rejected_schema",
            Self::RejectedUnauthorized => "rejected_unauthorized",
            Self::RejectedDenied => "rejected_denied",
            Self::Blocked => "blocked",
            Self::RejectedBudget => "rejected_budget",
            Self::Skipped => "skipped",
        }
    }

    /// Returns whether the tool was run.
    #[must_use]
    pub fn has_run(self) -> bool {
        matches!(self, Self::Ok | Self::HandlerError)
    }
}

/// A call and its result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolExecution {
    /// The id of the execution, which both messages about it have.
    pub id: String,
    /// The call that the model requested. Its id is never empty here.
    pub call: ToolIntent,
    /// The status.
    pub status: Status,
    /// The result, as the model may see it.
    pub result: CallResult,
    /// The time at which the call was accepted for execution, before its checks.
    pub started_at: Timestamp,
    /// The time at which it ended.
    pub completed_at: Timestamp,
    /// A description of the changes that guardrails made to the arguments, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modified: Option<String>,
}

impl ToolExecution {
    /// Returns the name of the tool, as the model wrote it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.call.name
    }

    /// Returns the arguments as the model wrote them.
    #[must_use]
    pub fn args(&self) -> &str {
        &self.call.arguments
    }

    /// Returns the content of the result if the call succeeded.
    #[must_use]
    pub fn value(&self) -> Option<&[Content]> {
        self.result.outcome.as_deref().ok()
    }

    /// Returns the error if the call failed.
    #[must_use]
    pub fn error(&self) -> Option<&CallError> {
        self.result.outcome.as_ref().err()
    }

    /// Returns whether the call failed, for any reason.
    #[must_use]
    pub fn has_error(&self) -> bool {
        self.result.outcome.is_err()
    }

    /// Returns the message of the error; empty if the call succeeded.
    #[must_use]
    pub fn error_message(&self) -> &str {
        self.error().map_or("", |error| &error.message)
    }

    /// Returns whether a hook blocked the call.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.status == Status::Blocked
    }
}
