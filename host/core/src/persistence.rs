//! Persistence of calls: the part of arguments and results that is recorded. It does not affect what the model sees.

use std::fmt;
use std::sync::Arc;

use crate::call::result::CallResult;
use serde_json::Value;

/// Redaction of arguments.
type RedactArguments = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// Redaction of a result, given the arguments and the result; `None` if nothing is recorded.
type RedactResult = Arc<dyn Fn(&Value, &CallResult) -> Option<Value> + Send + Sync>;

/// The part of a tool's calls that is recorded.
///
/// ```
/// use fumehood_core::persistence::Persistence;
/// use serde_json::json;
///
/// // Records the title of a note, and no result.
/// let policy = Persistence::redact(|arguments| json!({"title": arguments["title"]}), |_, _| None);
/// let arguments = json!({"title": "milk", "text": "for Ann's surprise"});
/// assert_eq!(policy.arguments(&arguments), Some(json!({"title": "milk"})));
/// assert_eq!(Persistence::Nothing.arguments(&arguments), None);
/// ```
#[derive(Clone, Default)]
pub enum Persistence {
    /// The arguments, and the result as the model sees it.
    #[default]
    Full,
    /// The output of these functions.
    Redact {
        /// Redacts the arguments: any value that the schema allows, or a string if a model wrote something else.
        arguments: RedactArguments,
        /// Redacts the result, given the arguments and the result as the tool returned it.
        result: RedactResult,
    },
    /// Only that the call was made, and its status.
    Nothing,
}

impl Persistence {
    /// Records the output of these functions. They must not block.
    pub fn redact(
        arguments: impl Fn(&Value) -> Value + Send + Sync + 'static,
        result: impl Fn(&Value, &CallResult) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::Redact { arguments: Arc::new(arguments), result: Arc::new(result) }
    }

    /// Returns the arguments to record. The keys of all objects are sorted, so that equal arguments have equal text in
    /// all records.
    #[must_use]
    pub fn arguments(&self, arguments: &Value) -> Option<Value> {
        let mut recorded = match self {
            Self::Full => arguments.clone(),
            Self::Redact { arguments: redact, .. } => redact(arguments),
            Self::Nothing => return None,
        };
        recorded.sort_all_objects();
        Some(recorded)
    }

    /// Returns the result to record: `original` is the result of the tool, `truncated` the one that the model sees.
    #[must_use]
    pub fn result(&self, arguments: &Value, original: &CallResult, truncated: &CallResult) -> Option<Value> {
        match self {
            Self::Full => serde_json::to_value(truncated).ok(),
            Self::Redact { result: redact, .. } => redact(arguments, original),
            Self::Nothing => None,
        }
    }

    /// Returns whether everything is recorded.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

impl fmt::Debug for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "Full",
            Self::Redact { .. } => "Redact",
            Self::Nothing => "Nothing",
        })
    }
}
