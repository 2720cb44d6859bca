//! Calls that passed the gate.

use std::sync::Arc;

use serde_json::Value;

use super::Tool;
use crate::call::error_kind::ErrorKind;
use crate::call::result::CallError;
use crate::schema::gate::Violations;

/// A tool with arguments that match its schema. Only [`Tool::validate`] makes one, so that nobody has to check twice.
/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct ValidatedCall {
    tool: Arc<Tool>,
    arguments: Arc<Value>,
}

impl ValidatedCall {
    pub(super) fn new(tool: Arc<Tool>, arguments: Value) -> Self {
        Self { tool, arguments: Arc::new(arguments) }
    }

    /// Returns the tool.
    #[must_use]
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the arguments, which match the schema.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// Returns the arguments, without a copy if nobody else holds them.
    #[must_use]
    pub fn into_arguments(self) -> Value {
        Arc::unwrap_or_clone(self.arguments)
    }
}

/// Errors of [`Tool::validate`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCall {
    /// The tool needs an approval.
    #[error(transparent)]
    Withheld(CallError),
    /// The arguments do not match the schema.
    #[error(transparent)]
    Arguments(Violations),
}

impl From<InvalidCall> for CallError {
    fn from(error: InvalidCall) -> Self {
        match error {
            InvalidCall::Withheld(refusal) => refusal,
            InvalidCall::Arguments(violations) => Self::new(ErrorKind::InvalidArguments, violations.to_string())
                .with_hint("correct the arguments and call again; the tool did not run"),
        }
    }
}
