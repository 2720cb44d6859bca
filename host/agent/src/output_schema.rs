//! The schema of the answer of a run.

use std::fmt;
use std::sync::Arc;

use fumehood_core::chat::StopReason;
use fumehood_core::schema::gate::{Gate, GateLimits, SchemaError};
use fumehood_core::schema::json::to_compact_text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::drivers::recover::{Closing, recover, strip_thoughts};

/// Maximum number of times that the model is asked to correct an answer, in one run.
pub(crate) const MAX_REPAIRS: u32 = 2;

/// A JSON Schema that the final answer of each run must match. Cheap to clone.
///
/// The model is told the schema in the system prompt. Its answer passes the same gate as the results of tools
/// ([`Gate::for_results`]): JSON alone, or in a Markdown fence. An answer that does not match is sent back with all
/// violations, at most twice; then the run ends with
/// [`Ending::InvalidAnswer`](crate::transcript::Ending::InvalidAnswer).
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "Value")]
pub struct OutputSchema {
    schema: Arc<Value>,
    gate: Arc<Gate>,
}

impl OutputSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// If it is not valid in draft 2020-12, refers to anything outside itself, or exceeds a limit of the gate.
    pub fn new(schema: Value) -> Result<Self, SchemaError> {
        // An answer may be one long text, which nothing but the budget limits.
        let limits = GateLimits::default().with_string_bytes(GateLimits::default().document_bytes);
        let gate = Gate::for_results(&schema, limits)?;
        Ok(Self { schema: Arc::new(schema), gate: Arc::new(gate) })
    }

    /// Compiles the schema of a type.
    ///
    /// # Errors
    /// If the schema that the type describes is not one that [`Self::new`] accepts.
    pub fn of<T: JsonSchema>() -> Result<Self, SchemaError> {
        let mut schema = schemars::schema_for!(T).to_value();
        if let Some(keywords) = schema.as_object_mut() {
            keywords.remove("$schema");
        }
        Self::new(schema)
    }

    /// Returns the schema.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Returns the part of the system prompt that asks for such an answer.
    pub(crate) fn instruction(&self) -> String {
        format!(
            "Your final answer must be one JSON value and nothing else, without a fence and without text around it. It \
             must match this JSON Schema:\n{}",
            to_compact_text(&self.schema)
        )
    }

    /// Reads an answer. Returns it as compact JSON text.
    ///
    /// # Errors
    /// If it is no JSON, or does not match the schema: a message for the model.
    pub(crate) fn read(&self, answer: &str, stop: StopReason) -> Result<String, String> {
        let found = recover(strip_thoughts(answer), Closing::from(stop)).map_err(|error| error.to_string())?;
        let value = self.gate.parse(found.json.expose_raw()).map_err(|violations| violations.to_string())?;
        Ok(to_compact_text(&value))
    }
}

impl OutputSchema {
    /// Checks the result of a call, which is taken as JSON, or else as a string. Returns it as compact JSON text.
    ///
    /// # Errors
    /// If it does not match the schema: a message for a person.
    pub(crate) fn check_result(&self, result: &str) -> Result<String, String> {
        let as_json = self.gate.parse(result).map_err(|violations| violations.to_string());
        let checked = as_json.or_else(|problem| {
            let as_string = self.gate.parse(&Value::from(result).to_string());
            let is_json = serde_json::from_str::<serde::de::IgnoredAny>(result).is_ok();
            as_string.map_err(|violations| if is_json { problem } else { violations.to_string() })
        });
        checked.map(|value| to_compact_text(&value))
    }
}

impl TryFrom<Value> for OutputSchema {
    type Error = SchemaError;

    fn try_from(schema: Value) -> Result<Self, SchemaError> {
        Self::new(schema)
    }
}

impl From<OutputSchema> for Value {
    fn from(output: OutputSchema) -> Self {
        Arc::unwrap_or_clone(output.schema)
    }
}

impl PartialEq for OutputSchema {
    fn eq(&self, other: &Self) -> bool {
        self.schema == other.schema
    }
}

impl Eq for OutputSchema {}

impl fmt::Debug for OutputSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OutputSchema").field(&self.schema).finish()
    }
}

/// Returns the message that sends an answer back to the model.
pub(crate) fn repair_request(problem: &str) -> String {
    format!(
        "Your answer does not match the schema that it must match:\n{problem}\nAnswer again with the corrected JSON value \
         and nothing else."
    )
}
