//! The room of tenants in the event log: what their calls write, and who is refused first when its disk fills.

use std::fmt;
use std::sync::Arc;

use fumehood_core::call::Arguments;
use fumehood_core::call::content::Content;
use fumehood_core::call::result::CallResult;
use fumehood_core::tool::PendingCall;
use serde_json::Value;

/// Size of the records of a call without its arguments and its result, in bytes: three rows with their indexes.
const RECORD_BYTES: u64 = 2048;

/// Returns whether arguments and results of a tool are recorded, by its full name.
type RecordPredicate = Arc<dyn Fn(&str) -> bool + Send + Sync>;
/// Returns whether the disk of the log is nearly full.
type ScarcityPredicate = Arc<dyn Fn() -> bool + Send + Sync>;

/// The event log of a server, as its tenants share it.
#[derive(Clone)]
pub struct LogBudget {
    is_recorded: RecordPredicate,
    is_scarce: ScarcityPredicate,
}

impl fmt::Debug for LogBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogBudget").finish_non_exhaustive()
    }
}

impl LogBudget {
    /// Creates the budget of a log. `is_recorded` returns whether arguments and results of a tool are in it, by its full
    /// name; `is_scarce` whether its disk is nearly full. Neither may block.
    pub fn new(
        is_recorded: impl Fn(&str) -> bool + Send + Sync + 'static,
        is_scarce: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { is_recorded: Arc::new(is_recorded), is_scarce: Arc::new(is_scarce) }
    }

    /// Returns the bytes that the start of a call writes.
    pub(crate) fn bytes_of_call(&self, call: &PendingCall) -> u64 {
        let recorded = if (self.is_recorded)(call.tool_name()) { argument_bytes(call) } else { 0 };
        RECORD_BYTES.saturating_add(recorded)
    }

    /// Returns the bytes that the end of a call writes.
    pub(crate) fn bytes_of_result(&self, result: &CallResult) -> u64 {
        if !(self.is_recorded)(&result.tool) {
            return 0;
        }
        result.content().iter().map(|part| Content::bytes(part) as u64).sum()
    }

    pub(crate) fn is_scarce(&self) -> bool {
        (self.is_scarce)()
    }
}

fn argument_bytes(call: &PendingCall) -> u64 {
    match call {
        PendingCall::Validated(call, _) => json_bytes(call.arguments()),
        PendingCall::Unchecked(call) => match &call.arguments {
            Arguments::Text(text) => text.len() as u64,
            Arguments::Value(value) => json_bytes(value),
        },
    }
}

/// Returns about the size of a value as JSON text, in bytes. The nesting of arguments is bounded where they are read.
fn json_bytes(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 6,
        Value::Number(_) => 8,
        Value::String(string) => text_bytes(string),
        Value::Array(items) => items.iter().map(json_bytes).sum::<u64>().saturating_add(2),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| text_bytes(name).saturating_add(json_bytes(value)))
            .sum::<u64>()
            .saturating_add(2),
    }
}

/// Returns the bytes of a text with its quotation marks and a separator.
fn text_bytes(text: &str) -> u64 {
    text.len() as u64 + 3
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::Call;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_counts_with_what_is_recorded_of_it() {
        let budget = LogBudget::new(|tool| tool != "private__a", || false);
        let bytes = |tool: &str| {
            budget
                .bytes_of_call(&PendingCall::Unchecked(Call::new(tool, format!("{{\"x\":\"{}\"}}", "y".repeat(9000)))))
        };
        assert!(bytes("open__a") > 9000 + RECORD_BYTES);
        assert_eq!(bytes("private__a"), RECORD_BYTES);
        for value in [json!({"a": [1, true, null, "text"], "b": {"c": 1.5}}), json!("x".repeat(500)), json!([])] {
            let about = json_bytes(&value) as f64;
            let exact = value.to_string().len() as f64;
            assert!(about >= exact * 0.7 && about <= exact * 2.0 + 8.0, "{about} for {exact}");
        }
    }
}
