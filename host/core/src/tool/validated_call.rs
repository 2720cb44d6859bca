//! Calls that passed the gate.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::Tool;
use crate::call::error_kind::ErrorKind;
use crate::call::result::CallError;
use crate::schema::gate::Violations;
use crate::schema::json;

/// A tool with arguments that match its schema. Only [`Tool::validate`] makes one, so that nobody has to check twice.
/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct ValidatedCall {
    tool: Arc<Tool>,
    arguments: Arc<ValidatedArguments>,
}

#[derive(Debug, Clone)]
struct ValidatedArguments {
    value: Value,
    /// Their compact text, if the caller wrote it.
    text: Option<String>,
}

impl ValidatedCall {
    /// `text` is the compact text of `value`, if there is one already.
    pub(super) fn new(tool: Arc<Tool>, value: Value, text: Option<String>) -> Self {
        Self { tool, arguments: Arc::new(ValidatedArguments { value, text }) }
    }

    /// Returns the tool.
    #[must_use]
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the arguments, which match the schema.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.arguments.value
    }

    /// Returns the arguments as compact JSON text: what a guest receives, however the caller wrote them.
    #[must_use]
    pub fn to_text(&self) -> Cow<'_, str> {
        match &self.arguments.text {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(json::to_compact_text(&self.arguments.value)),
        }
    }

    /// Returns the arguments, without a copy if nobody else holds them.
    #[must_use]
    pub fn into_arguments(self) -> Value {
        Arc::unwrap_or_clone(self.arguments).value
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
