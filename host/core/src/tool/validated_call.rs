//! Calls that passed the gate.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

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
    /// Parsed when somebody asks, if the gate accepted the text without doing so.
    value: OnceLock<Value>,
    /// Their compact text, if the caller wrote it.
    text: Option<String>,
}

impl ValidatedCall {
    /// `text` is the compact text of `value`, if there is one already.
    pub(super) fn new(tool: Arc<Tool>, value: Value, text: Option<String>) -> Self {
        Self { tool, arguments: Arc::new(ValidatedArguments { value: value.into(), text }) }
    }

    /// `text` is compact, and the gate has accepted it.
    pub(super) fn of_compact_text(tool: Arc<Tool>, text: String) -> Self {
        Self { tool, arguments: Arc::new(ValidatedArguments { value: OnceLock::new(), text: Some(text) }) }
    }

    /// Returns the tool.
    #[must_use]
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the arguments, which match the schema.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        self.arguments.value()
    }

    /// Returns the arguments as compact JSON text: what a guest receives, however the caller wrote them.
    #[must_use]
    pub fn to_text(&self) -> Cow<'_, str> {
        match &self.arguments.text {
            Some(text) => Cow::Borrowed(text),
            None => Cow::Owned(json::to_compact_text(self.arguments.value())),
        }
    }

    /// Returns the arguments, without a copy if nobody else holds them.
    #[must_use]
    pub fn into_arguments(self) -> Value {
        let arguments = Arc::unwrap_or_clone(self.arguments);
        arguments.value();
        arguments.value.into_inner().unwrap_or_default()
    }
}

impl ValidatedArguments {
    fn value(&self) -> &Value {
        // The gate has accepted the text, so it is JSON.
        self.value
            .get_or_init(|| self.text.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
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
