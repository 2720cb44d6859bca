//! What is kept of a call in the records. The model sees the whole result whatever is kept.

use std::fmt;
use std::sync::Arc;

use fumehood_core::result::CallResult;
use serde_json::Value;

/// Makes of arguments what may be kept of them.
type KeepArguments = Arc<dyn Fn(&Value) -> Value + Send + Sync>;

/// Makes of a result, and the arguments that led to it, what may be kept; `None`: nothing.
type KeepResult = Arc<dyn Fn(&Value, &CallResult) -> Option<Value> + Send + Sync>;

/// What is kept of the calls of a tool.
#[derive(Clone, Default)]
pub enum Persist {
    /// The arguments, and the result as the model sees it.
    #[default]
    Full,
    /// What these functions make of them.
    Redact {
        /// Sees the arguments. They may be anything that the schema allows, or what a model wrote instead: a string.
        arguments: KeepArguments,
        /// Sees the arguments and the result as the tool gave it.
        result: KeepResult,
    },
    /// That the call was made and how it ended, nothing else.
    Nothing,
}

impl Persist {
    /// Keeps what these functions make of arguments and result. They must not block.
    pub fn redact(
        arguments: impl Fn(&Value) -> Value + Send + Sync + 'static,
        result: impl Fn(&Value, &CallResult) -> Option<Value> + Send + Sync + 'static,
    ) -> Self {
        Self::Redact { arguments: Arc::new(arguments), result: Arc::new(result) }
    }

    /// What to keep of arguments, with the names of every object in order: the same call is the same text in every
    /// record, however a model wrote it.
    #[must_use]
    pub fn arguments(&self, arguments: &Value) -> Option<Value> {
        let mut kept = match self {
            Self::Full => arguments.clone(),
            Self::Redact { arguments: keep, .. } => keep(arguments),
            Self::Nothing => return None,
        };
        kept.sort_all_objects();
        Some(kept)
    }

    /// What to keep of a result: `given` is what the tool gave, `shown` what the model sees.
    #[must_use]
    pub fn result(&self, arguments: &Value, given: &CallResult, shown: &CallResult) -> Option<Value> {
        match self {
            Self::Full => serde_json::to_value(shown).ok(),
            Self::Redact { result: keep, .. } => keep(arguments, given),
            Self::Nothing => None,
        }
    }

    /// Whether all may be kept.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

impl fmt::Debug for Persist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "Full",
            Self::Redact { .. } => "Redact",
            Self::Nothing => "Nothing",
        })
    }
}
