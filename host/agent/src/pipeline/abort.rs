//! How a call ends before it ran, and the words for it.

use fumehood_core::error_kind::ErrorKind;
use fumehood_core::record::RecordError;
use fumehood_core::result::CallError;
use fumehood_core::sanitize::{printable, truncate_str};
use fumehood_core::untrusted::PrintableText;
use serde_json::Value;

use crate::execution::Status;
use crate::names::{did_you_mean, suggestions};
use crate::registry::Stop;

/// Bytes of a name that messages and records repeat.
const NAME_BYTES: usize = 130;

/// A call does not run.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: Status,
    pub(super) error: CallError,
}

/// A call does not go on.
#[derive(Debug)]
pub(super) enum Abort {
    /// The model is told why.
    Refused(Box<Refusal>),
    /// The whole run ends.
    Stop(Stop),
}

impl Abort {
    pub(super) fn refused(status: Status, error: CallError) -> Self {
        Self::Refused(Box::new(Refusal { status, error }))
    }

    pub(super) fn denied(message: impl Into<PrintableText>) -> Self {
        Self::refused(Status::RejectedDenied, CallError::new(ErrorKind::Denied, message))
    }
}

impl From<RecordError> for Abort {
    /// What cannot be recorded does not run.
    fn from(error: RecordError) -> Self {
        let error = CallError::new(ErrorKind::Host, format!("the call was not made: {error}"))
            .with_hint("calls run again once the event log takes records");
        Self::refused(Status::RejectedDenied, error)
    }
}

/// A name as the model wrote it, fit for messages and records.
pub(super) fn legible(name: &str) -> String {
    let name = printable(name);
    truncate_str(&name, NAME_BYTES).to_owned()
}

/// Refuses a name that may be called and that no tool has. `allowed` are the names that may be called.
pub(super) fn unknown(name: &str, allowed: &[String]) -> Abort {
    let message = format!("[error: tool '{name}' not found in registry]");
    let error = CallError::new(ErrorKind::UnknownTool, message);
    Abort::refused(Status::RejectedNotFound, with_suggestion(error, name, allowed))
}

/// Refuses a name that may not be called, in these words, whether or not there is such a tool.
pub(super) fn not_allowed(name: &str, allowed: &[String], words: String) -> Abort {
    let error = CallError::new(ErrorKind::NotAllowed, words);
    Abort::refused(Status::RejectedAllowlist, with_suggestion(error, name, allowed))
}

fn with_suggestion(error: CallError, name: &str, allowed: &[String]) -> CallError {
    match did_you_mean(&suggestions(name, allowed.iter().map(String::as_str))) {
        Some(question) => error.with_hint(question),
        None => error,
    }
}

pub(super) fn unauthorized(name: &str) -> Abort {
    let message = format!("[error: not authorized to call tool '{name}']");
    Abort::refused(Status::RejectedUnauthorized, CallError::new(ErrorKind::Unauthorized, message))
}

/// `schema` is that of the arguments, `given` what was given, if it is JSON, and `wrong` what the gate says about it.
pub(super) fn mismatch(schema: &Value, given: Option<&Value>, wrong: &str) -> CallError {
    let missing = given.map(|given| missing(schema, given)).unwrap_or_default();
    let missing = if missing.is_empty() {
        String::new()
    } else {
        format!("Missing required parameters: {}\n", missing.join(", "))
    };
    CallError::new(ErrorKind::InvalidArguments, format!("arguments did not match schema\n{missing}{wrong}"))
        .with_hint("repair the arguments and call the tool again")
}

/// All of them, in the order of the schema. The gate lists what is wrong up to a cap, and in its own words.
fn missing<'s>(schema: &'s Value, given: &Value) -> Vec<&'s str> {
    let Some(given) = given.as_object() else { return Vec::new() };
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    required.iter().filter_map(Value::as_str).filter(|name| !given.contains_key(*name)).collect()
}
