//! One tool of a host: its definition, the gates before and behind it, and the component that holds it.

use std::sync::Arc;

use fumehood_core::call::Arguments;
use fumehood_core::content::Content;
use fumehood_core::definition::ToolDefinition;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::gate::{Gate, Violations};
use fumehood_core::limits::Limits;
use fumehood_core::name::{Namespace, QualifiedName};
use fumehood_core::result::CallError;
use fumehood_runtime::{Component, Execution, Invocation, Observer};
use serde_json::Value;

/// A tool that can be called. Shared by all calls of it.
pub struct Tool {
    full_name: String,
    definition: ToolDefinition,
    component: Component,
    index: usize,
    arguments: Gate,
    results: Option<Gate>,
    limits: Limits,
}

impl Tool {
    pub(crate) fn new(
        namespace: &Namespace,
        definition: &ToolDefinition,
        component: Component,
        index: usize,
        arguments: Gate,
        results: Option<Gate>,
        limits: Limits,
    ) -> Self {
        let name = QualifiedName { namespace: namespace.clone(), tool: definition.name.clone() };
        let (full_name, definition) = (name.to_string(), definition.clone());
        Self { full_name, definition, component, index, arguments, results, limits }
    }

    /// `component__tool`.
    #[must_use]
    pub fn full_name(&self) -> &str {
        &self.full_name
    }

    /// What it says about itself.
    #[must_use]
    pub fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    /// The component that holds it.
    #[must_use]
    pub fn component(&self) -> &Component {
        &self.component
    }

    /// The limits of its calls, unless a call brings its own.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Arguments that fit the schema, or everything that is wrong with them.
    pub(crate) fn admit(&self, arguments: Arguments) -> Result<Value, CallError> {
        let admitted = match arguments {
            Arguments::Text(text) => self.arguments.parse(&text),
            Arguments::Value(value) => self.arguments.check(&value).map(|()| value),
        };
        admitted.map_err(|violations| refused(&violations))
    }

    /// Runs it, and checks the result against its own schema.
    pub(crate) async fn run(
        &self,
        arguments: &Value,
        invocation: Invocation,
        limits: Limits,
        observer: Option<Arc<dyn Observer>>,
    ) -> Execution {
        let mut execution = self.component.call(self.index, arguments, invocation, limits, observer).await;
        if let (Some(gate), Ok(parts)) = (&self.results, &execution.outcome)
            && let Err(error) = matches(gate, parts)
        {
            execution.outcome = Err(error);
        }
        execution
    }
}

fn refused(violations: &Violations) -> CallError {
    CallError::new(ErrorKind::InvalidArguments, violations.to_string())
        .with_hint("correct the arguments and call again; the tool did not run")
}

/// Whether the result has exactly one JSON part, and that fits the schema.
fn matches(gate: &Gate, parts: &[Content]) -> Result<(), CallError> {
    let bad = |message: String| CallError::new(ErrorKind::BadResult, message);
    let mut values = parts.iter().filter_map(|part| match part {
        Content::Json { value } => Some(value.as_str()),
        Content::Text { .. } | Content::Blob { .. } | Content::Link { .. } => None,
    });
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(bad("the tool has an output schema, so its result needs exactly one `json` part".to_owned()));
    };
    match gate.parse(value) {
        Ok(_) => Ok(()),
        Err(violations) => Err(bad(format!("the result does not match the tool's own output schema:\n{violations}"))),
    }
}
