//! Tools as clients see them.

use std::borrow::Cow;

use axum::response::Result;
use fumehood_core::tool::definition::Annotations;
use fumehood_core::tool::{Tool, unknown_tool};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::http_api::extract::Name;
use crate::http_api::problem::Problem;
use crate::http_api::response::{self, Response};
use crate::http_api::state::Caller;

/// A tool that can be called.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolDescription<'a> {
    /// The full name, `component__tool`.
    name: &'a str,
    /// The name, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<Cow<'a, str>>,
    /// A description of what the tool does and when to use it.
    description: Cow<'a, str>,
    /// JSON Schema (2020-12) of its arguments.
    #[schema(value_type = Value)]
    input_schema: Cow<'a, Value>,
    /// JSON Schema (2020-12) of the value of its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    output_schema: Option<Cow<'a, Value>>,
    /// The effects that it declares: `read_only`, `destructive`, `idempotent`, `open_world`.
    #[schema(value_type = Object)]
    annotations: Annotations,
    /// Its powers beyond computing, one phrase for each, such as `read files in /docs`.
    granted: &'a [String],
    /// The digest that identifies its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
}

/// All tools that can be called.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ToolList<'a> {
    /// The tools, by name.
    tools: Vec<ToolDescription<'a>>,
}

impl<'a> ToolDescription<'a> {
    fn new(tool: &'a Tool) -> Self {
        let definition = tool.definition();
        Self {
            name: tool.full_name(),
            title: definition.title.as_ref().map(|title| title.to_sanitized()),
            description: definition.description.to_sanitized(),
            input_schema: definition.input_schema.to_sanitized(),
            output_schema: definition.output_schema.as_ref().map(|schema| schema.to_sanitized()),
            annotations: definition.annotations,
            granted: tool.powers(),
            digest: tool.digest().map(|digest| digest.to_string()),
        }
    }
}

/// Returns the problem of a name that no tool has.
pub(crate) fn unknown(caller: &Caller, name: &str) -> Problem<'static> {
    let known = caller.tools.tools();
    Problem::of_error(&unknown_tool(name, known.iter().filter(|tool| tool.is_approved()).map(|tool| tool.full_name())))
}

/// Lists the tools that can be called.
#[utoipa::path(
    get, path = "/v1/tools", operation_id = "listTools", tag = "tools",
    responses((status = 200, description = "The tools", body = ToolList<'static>))
)]
pub(crate) async fn list(caller: Caller) -> Response {
    let tools = caller.tools.tools();
    let approved = tools.iter().filter(|tool| tool.is_approved());
    response::json(&ToolList { tools: approved.map(|tool| ToolDescription::new(tool)).collect() })
}

/// Describes one tool.
#[utoipa::path(
    get, path = "/v1/tools/{name}", operation_id = "getTool", tag = "tools",
    params(("name" = String, Path, description = "The full name of the tool")),
    responses((status = 200, description = "The tool", body = ToolDescription<'static>))
)]
pub(crate) async fn get(caller: Caller, Name(name): Name) -> Result<Response> {
    let tool = caller.tools.find(&name).ok_or_else(|| unknown(&caller, &name))?;
    match tool.refusal() {
        Some(refusal) => Err(Problem::of_error(refusal).into()),
        None => Ok(response::json(&ToolDescription::new(&tool))),
    }
}
