//! Refusals of calls that do not run, and their messages.

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::record::RecordError;
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_core::tool::Stop;
use fumehood_core::tool::name::MAX_FULL_NAME_BYTES;
use serde_json::Value;

use crate::deferred::DeferredCall;
use crate::execution::Status;
use crate::names::{did_you_mean, suggestions};

/// The hint for a call of a tool that the model was not shown.
const SEARCH_HINT: &str = "find tools with `search_tools` first, and call what it lists in the next step";

/// The status and the error of a call that does not run.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: Status,
    pub(super) error: CallError,
}

/// The reason that a call ends early.
#[derive(Debug)]
pub(super) enum Abort {
    /// The call is refused, with an error for the model.
    Refused(Box<Refusal>),
    /// The call waits for the answers of people: about itself, or about calls of its program.
    Deferred(Vec<DeferredCall>),
    /// The whole run ends.
    Stop(Stop),
}

impl Abort {
    pub(super) fn refusal(status: Status, error: CallError) -> Self {
        Self::Refused(Box::new(Refusal { status, error }))
    }
}

impl From<RecordError> for Abort {
    fn from(error: RecordError) -> Self {
        Self::refusal(Status::RejectedDenied, not_recorded(&error))
    }
}

/// Returns the error of a call that is refused because it cannot be recorded.
pub(super) fn not_recorded(error: &RecordError) -> CallError {
    CallError::new(ErrorKind::Host, format!("the call was not made: {error}"))
        .with_hint("calls can run again when the event log can record")
}

/// Escapes and shortens a name that a model wrote, for messages and records.
pub(super) fn printable_name(name: &str) -> String {
    let name = printable(name);
    truncate_str(&name, MAX_FULL_NAME_BYTES).to_owned()
}

/// Refuses a name that may be called but that no tool has. Suggestions are taken from `allowed`, the names that may be
/// called; without one, the hint is to search if there is a search.
pub(super) fn unknown_tool(name: &str, allowed: &[String], has_search: bool) -> Abort {
    let message = format!("[error: tool '{name}' not found in registry]");
    let mut error = with_suggestion(CallError::new(ErrorKind::UnknownTool, message), name, allowed);
    if has_search && error.hint.is_none() {
        error = error.with_hint(SEARCH_HINT);
    }
    Abort::refusal(Status::RejectedNotFound, error)
}

/// Refuses a tool that no search has shown to the model.
pub(super) fn not_shown(name: &str) -> Abort {
    let message = format!("[error: tool '{name}' was not shown yet in this session]");
    Abort::refusal(Status::RejectedAllowlist, CallError::new(ErrorKind::NotAllowed, message).with_hint(SEARCH_HINT))
}

/// Refuses a name that may not be called, with this message, whether or not there is such a tool.
pub(super) fn not_allowed(name: &str, allowed: &[String], message: String) -> Abort {
    let error = CallError::new(ErrorKind::NotAllowed, message);
    Abort::refusal(Status::RejectedAllowlist, with_suggestion(error, name, allowed))
}

fn with_suggestion(error: CallError, name: &str, allowed: &[String]) -> CallError {
    match did_you_mean(&suggestions(name, allowed.iter().map(String::as_str))) {
        Some(question) => error.with_hint(question),
        None => error,
    }
}

/// Returns the error of a call that the actor may not make.
pub(super) fn unauthorized(name: &str) -> CallError {
    CallError::new(ErrorKind::Unauthorized, format!("[error: not authorized to call tool '{name}']"))
}

/// Returns the error for arguments that do not match their schema.
///
/// `given` is `None` if the arguments are not JSON; `problem` is the message of the gate.
pub(super) fn schema_mismatch(schema: &Value, given: Option<&Value>, problem: &str) -> CallError {
    let missing = given.map(|given| missing_parameters(schema, given)).unwrap_or_default();
    let missing = if missing.is_empty() {
        String::new()
    } else {
        format!("Missing required parameters: {}\n", missing.join(", "))
    };
    CallError::new(ErrorKind::InvalidArguments, format!("arguments did not match schema\n{missing}{problem}"))
        .with_hint("repair the arguments and call the tool again")
}

/// Returns all missing parameters, in the order of the schema. The gate stops at a maximum number of problems.
fn missing_parameters<'s>(schema: &'s Value, given: &Value) -> Vec<&'s str> {
    let Some(given) = given.as_object() else { return Vec::new() };
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    required.iter().filter_map(Value::as_str).filter(|name| !given.contains_key(*name)).collect()
}
