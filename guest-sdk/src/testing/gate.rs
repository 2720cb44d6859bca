//! The host's checks of a tool's definition, arguments and result, by the same code.

use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::tool::definition::{Annotations, DefinitionLimits, RawDefinition, ToolDefinition};
use fumehood_core::tool::resource::{RawPage, RawResource};
use serde_json::Value;

use crate::{AsyncTool, Content, Resource, ToolError};

/// Validates the arguments of a tool.
pub(super) fn check_arguments<T: AsyncTool>(arguments: &Value) -> Result<(), ToolError> {
    let definition = definition::<T>()?;
    let gate = Gate::for_arguments(definition.input_schema.expose_raw(), GateLimits::default());
    let gate = gate.map_err(|error| load_error(format!("the schema of its arguments is refused: {error}")))?;
    gate.check(arguments).map_err(ToolError::invalid_arguments)
}

/// Validates the result of a tool.
pub(super) fn check_parts<T: AsyncTool>(parts: &[Content]) -> Result<(), ToolError> {
    let definition = definition::<T>()?;
    let Some(schema) = &definition.output_schema else { return Ok(()) };
    let gate = Gate::for_results(schema.expose_raw(), GateLimits::default());
    let gate = gate.map_err(|error| load_error(format!("the schema of its result is refused: {error}")))?;
    check_result(&gate, parts)
}

fn definition<T: AsyncTool>() -> Result<ToolDefinition, ToolError> {
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

/// Validates the definition of a resource. The tools of a page have to be checked with those of its component.
pub(super) fn check_resource<R: Resource>() -> Result<(), ToolError> {
    let crate::ResourceDefinition { uri, name, title, description, mime_type, page } = R::definition();
    let page = page.map(|page| RawPage {
        tools: page.tools,
        connect_domains: page.connect_domains,
        resource_domains: page.resource_domains,
        frame_domains: page.frame_domains,
        base_uri_domains: page.base_uri_domains,
        prefers_border: page.prefers_border,
    });
    let raw = RawResource { uri, name, title, description, mime_type, page };
    let parsed = raw.parse();
    parsed.map(drop).map_err(|error| ToolError::failed(format!("a host does not load this resource: {error}")))
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
