//! Executions that no executor made: calls that the session rejected or interrupted, and failed decisions.

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::chat::ToolIntent;
use fumehood_core::time::Timestamp;

use super::budget::BudgetKind;
use crate::drivers::driver::DecisionError;
use crate::execution::{Status, ToolExecution};

/// The result of a call beyond the limit on calls for one user message.
pub(crate) const BUDGET_EXHAUSTED: &str = "[budget exhausted — tool call limit reached for this turn]";

/// The reason for which a call has no result of its own.
pub(super) enum Reason {
    /// The driver refused it with this message.
    Driver(String),
    /// A limit was reached.
    Budget(BudgetKind),
    /// It was requested in this number of consecutive replies.
    Repeated(u32),
    /// The batch ended before it.
    Skipped,
    /// It was running when the run was cancelled or ran out of time.
    Interrupted,
    /// It was under way when the program stopped.
    ProgramStopped,
    /// It waited for a person's answer when the run ended.
    NotAnswered,
}

impl Reason {
    fn into_parts(self) -> (Status, CallError) {
        match self {
            Self::Driver(message) => (Status::RejectedSchema, CallError::new(ErrorKind::InvalidArguments, message)),
            Self::Budget(budget) => {
                let message = match budget {
                    BudgetKind::Calls => BUDGET_EXHAUSTED.to_owned(),
                    other => format!("[budget exhausted — no {other} left]"),
                };
                let error = CallError::new(ErrorKind::BudgetExhausted, message);
                (Status::RejectedBudget, error.with_hint("answer with what you have"))
            }
            Self::Repeated(times) => {
                let message = format!("the same call with the same arguments was requested {times} times in a row");
                let error = CallError::new(ErrorKind::Denied, message);
                (Status::RejectedDenied, error.with_hint("use the earlier results, or try something else"))
            }
            Self::Skipped => {
                let message = "the call was not made: the batch had ended before it";
                (Status::Skipped, CallError::new(ErrorKind::Cancelled, message))
            }
            Self::Interrupted => {
                let message = "the call was stopped while it ran; it may have had an effect";
                (Status::HandlerError, CallError::new(ErrorKind::Cancelled, message))
            }
            Self::NotAnswered => {
                let message = "the call was not made: the run ended while it waited for approval";
                (Status::RejectedDenied, CallError::new(ErrorKind::NeedsApproval, message))
            }
            Self::ProgramStopped => {
                let message = "interrupted: the program stopped during the call, which may have had an effect";
                let error = CallError::new(ErrorKind::Cancelled, message);
                (Status::HandlerError, error.with_hint("check the current state before you repeat it"))
            }
        }
    }
}

/// Creates the execution of a call that has no result of its own.
pub(super) fn rejected_call(id: String, call: ToolIntent, reason: Reason, now: Timestamp) -> ToolExecution {
    let (status, error) = reason.into_parts();
    failed_execution(id, call, status, error, now)
}

/// Creates the pseudo-execution of a reply that is no decision.
pub(super) fn failed_decision(id: String, failure: &DecisionError, reply: &str, now: Timestamp) -> ToolExecution {
    let arguments = serde_json::Value::from(reply).to_string();
    let call = ToolIntent { id: id.clone(), name: failure.fault.as_str().to_owned(), arguments };
    let error = CallError::new(ErrorKind::BadResult, failure.message.clone());
    failed_execution(id, call, Status::RejectedSchema, error, now)
}

fn failed_execution(id: String, call: ToolIntent, status: Status, error: CallError, now: Timestamp) -> ToolExecution {
    let result =
        CallResult { id: call.id.clone(), tool: call.name.clone(), outcome: Err(error), metadata: Metadata::default() };
    ToolExecution { id, call, status, result, started_at: now, completed_at: now, modified: None }
}
