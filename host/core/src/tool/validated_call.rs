//! Calls that passed the gate.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::Tool;
use crate::call::error_kind::ErrorKind;
use crate::call::result::CallError;
use crate::schema::gate::{Repair, RepairedArguments, Violations};
use crate::schema::json;

/// A tool with arguments that match its schema. Only [`Tool::validate`] makes one, so that nobody has to check twice.
/// Cheap to clone.
///
/// ```
/// # use std::sync::Arc;
/// # use fumehood_core::schema::gate::{Gate, GateLimits};
/// # use fumehood_core::tool::Tool;
/// # use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let schema = serde_json::json!({"type": "object", "properties": {"text": {"type": "string"}}});
/// # let raw = RawDefinition { name: "count".to_owned(), input_schema: schema.to_string(), ..RawDefinition::default() };
/// # let gate = Gate::for_arguments(&schema, GateLimits::default())?;
/// # let tool = Arc::new(Tool::new(raw.parse(&DefinitionLimits::default())?, gate));
/// let call = tool.validate(r#"{ "text": "one two" }"#.into())?;
/// assert_eq!(call.tool().full_name(), "count");
/// assert_eq!(call.arguments()["text"], "one two");
/// // What a guest receives.
/// assert_eq!(call.to_text(), r#"{"text":"one two"}"#);
/// # Ok(())
/// # }
/// ```
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
    /// Repairs that were made before the gate accepted them.
    repairs: Vec<Repair>,
}

impl ValidatedCall {
    /// `text` is the compact text of `value`, if there is one already.
    pub(super) fn new(tool: Arc<Tool>, value: Value, text: Option<String>) -> Self {
        Self { tool, arguments: Arc::new(ValidatedArguments { value: value.into(), text, repairs: Vec::new() }) }
    }

    /// `text` is compact, and the gate has accepted it.
    pub(super) fn of_compact_text(tool: Arc<Tool>, text: String) -> Self {
        let arguments = ValidatedArguments { value: OnceLock::new(), text: Some(text), repairs: Vec::new() };
        Self { tool, arguments: Arc::new(arguments) }
    }

    /// The gate has accepted the arguments after these repairs.
    pub(super) fn of_repaired(tool: Arc<Tool>, repaired: RepairedArguments) -> Self {
        let RepairedArguments { value, repairs } = repaired;
        Self { tool, arguments: Arc::new(ValidatedArguments { value: value.into(), text: None, repairs }) }
    }

    /// Returns the repairs that were made before the gate accepted the arguments.
    #[must_use]
    pub fn repairs(&self) -> &[Repair] {
        &self.arguments.repairs
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

    /// Returns whether the arguments have more than about this many bytes of JSON. Looks at no more than that.
    #[must_use]
    pub fn is_larger_than(&self, bytes: usize) -> bool {
        match (&self.arguments.text, self.arguments.value.get()) {
            (Some(text), _) => text.len() > bytes,
            (None, Some(value)) => {
                let mut left = bytes;
                !fits(value, &mut left)
            }
            (None, None) => false,
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

/// Returns whether a value has at most `left` bytes of text in it, and takes them away.
fn fits(value: &Value, left: &mut usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => take_bytes(left, 2),
        Value::String(text) => take_bytes(left, text.len().saturating_add(2)),
        Value::Array(items) => take_bytes(left, 2) && items.iter().all(|item| fits(item, left)),
        Value::Object(members) => {
            take_bytes(left, 2)
                && members.iter().all(|(name, value)| {
                    *left = left.saturating_sub(name.len().saturating_add(2));
                    fits(value, left)
                })
        }
    }
}

fn take_bytes(left: &mut usize, bytes: usize) -> bool {
    *left = left.saturating_sub(bytes);
    *left > 0
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_of_values_are_bounded_from_below() {
        fn is_within(value: Value, bytes: usize) -> bool {
            fits(&value, &mut { bytes })
        }

        let list = Value::from(vec![1; 1000]);
        assert!(is_within(list.clone(), 10_000));
        assert!(!is_within(list, 1000));
        assert!(!is_within(json!({"a": "x".repeat(100)}), 100));
        assert!(!is_within(json!({"x".repeat(100): 1}), 100));
        assert!(is_within(json!({"a": [null, true, "x"]}), 100));
    }
}
