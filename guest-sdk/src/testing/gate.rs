//! The host's checks of a tool's definition, arguments and result, by the same code.

use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::tool::definition::{Annotations, DefinitionLimits, RawDefinition, ToolDefinition};
use serde_json::Value;

use crate::{Content, Tool, ToolError};

/// Validates the arguments, calls a tool, and validates its result.
pub(super) fn call<T: Tool>(arguments: &Value) -> Result<Vec<Content>, ToolError> {
    let definition = definition::<T>()?;
    let gate = Gate::for_arguments(definition.input_schema.expose_raw(), GateLimits::default());
    let gate = gate.map_err(|error| load_error(format!("the schema of its arguments is refused: {error}")))?;
    gate.check(arguments).map_err(ToolError::invalid_arguments)?;
    let parts = T::call(&arguments.to_string())?;
    if let Some(schema) = &definition.output_schema {
        let gate = Gate::for_results(schema.expose_raw(), GateLimits::default());
        let gate = gate.map_err(|error| load_error(format!("the schema of its result is refused: {error}")))?;
        check_result(&gate, &parts)?;
    }
    Ok(parts)
}

fn definition<T: Tool>() -> Result<ToolDefinition, ToolError> {
    let crate::Definition { name, title, description, input_schema, output_schema, annotations } = T::definition();
    let crate::Annotations { read_only, destructive, idempotent, open_world } = annotations;
    let raw = RawDefinition {
        name,
        title,
        description,
        input_schema: input_schema.to_string(),
        output_schema: output_schema.map(|schema| schema.to_string()),
        annotations: Annotations { read_only, destructive, idempotent, open_world },
    };
    raw.parse(&DefinitionLimits::default()).map_err(|error| load_error(error.to_string()))
}

fn load_error(why: String) -> ToolError {
    ToolError::failed(format!("a host does not load this tool: {why}"))
}

fn check_result(gate: &Gate, parts: &[Content]) -> Result<(), ToolError> {
    let mut values = parts.iter().filter_map(|part| match part {
        Content::Json(value) => Some(value),
        Content::Text(_) | Content::Blob(_) | Content::Link(_) => None,
    });
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(ToolError::failed(
            "a host refuses this result: a tool with an output schema returns one JSON value",
        ));
    };
    let result_error = |violations| {
        ToolError::failed(format!("a host refuses this result: it does not match the output schema: {violations}"))
    };
    gate.check(value).map_err(result_error)
}
