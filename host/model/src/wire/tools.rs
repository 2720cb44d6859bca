//! The tools of a request as they are sent.

use std::borrow::Cow;

use fumehood_core::chat::{ModelError, ModelFailure, Reply, Request, Response, ToolChoice, ToolSpec};
use genai::chat::{Tool, ToolName};

use super::names::{GEMINI_BUILT_IN, ToolNames};
use super::parameter::Adjustments;
use crate::spec::Service;
use crate::tool_schema::{ArgumentShape, Dialect, adapt};

/// A tool of a request.
#[derive(Debug)]
pub(crate) struct SentTool {
    /// The tool as the request has it.
    pub(crate) spec: ToolSpec,
    /// The name that was sent.
    pub(crate) wire_name: String,
    /// The difference between its arguments on the wire and those of its schema.
    pub(crate) shape: ArgumentShape,
}

/// Returns the notices about the tools of a request that the provider refused before.
pub(crate) fn refusal_notices(request: &Request, adjustments: &Adjustments) -> Vec<String> {
    request.tools.iter().filter_map(|tool| adjustments.refusal_notice(tool).map(str::to_owned)).collect()
}

/// Returns a request without the tools that the provider refused before.
pub(super) fn without_refused<'a>(request: &'a Request, adjustments: &Adjustments) -> Cow<'a, Request> {
    if refusal_notices(request, adjustments).is_empty() {
        return Cow::Borrowed(request);
    }
    let mut request = request.clone();
    request.tools.retain(|tool| adjustments.refusal_notice(tool).is_none());
    // A choice that the remaining tools cannot meet would be refused with the whole request.
    let is_possible = match &request.tool_choice {
        ToolChoice::Auto | ToolChoice::None => true,
        ToolChoice::Required => !request.tools.is_empty(),
        ToolChoice::Specific(name) => request.tools.iter().any(|tool| tool.name == *name),
    };
    if !is_possible {
        request.tool_choice = ToolChoice::Auto;
    }
    Cow::Owned(request)
}

/// Translates the tools of a request. Ollama's protocol has no tool choice: instead of "none" no tools are sent to it,
/// and instead of a specific one only that tool.
pub(super) fn translate_tools(
    service: Service,
    request: &Request,
    names: &ToolNames,
) -> Result<(Vec<Tool>, Vec<SentTool>), ModelError> {
    let is_sent = |tool: &&ToolSpec| match (service, &request.tool_choice) {
        (Service::Ollama, ToolChoice::None) => false,
        (Service::Ollama, ToolChoice::Specific(name)) => tool.name == *name,
        _ => true,
    };
    let mut tools = Vec::with_capacity(request.tools.len());
    let mut sent = Vec::with_capacity(request.tools.len());
    for spec in request.tools.iter().filter(is_sent) {
        if service == Service::Gemini && GEMINI_BUILT_IN.contains(&spec.name.as_str()) {
            let message = format!("the name of the tool `{}` is reserved by Gemini; rename it", spec.name);
            return Err(ModelError::new(ModelFailure::Setup, message));
        }
        let wire_name = names.to_wire(&spec.name).to_owned();
        let adapted = adapt(&spec.parameters, Dialect::of(service));
        let tool = Tool::new(ToolName::Custom(wire_name.clone())).with_description(adapted.describe(&spec.description));
        tools.push(tool.with_schema(adapted.schema));
        sent.push(SentTool { spec: spec.clone(), wire_name, shape: adapted.shape });
    }
    Ok((tools, sent))
}

/// Returns the response with the arguments of its calls in the form that the schemas of the tools describe.
pub(crate) fn restore_arguments(mut response: Response, tools: &[SentTool]) -> Response {
    if let Reply::ToolCalls { calls, .. } = &mut response.reply {
        for call in calls {
            let tool = tools.iter().find(|tool| tool.spec.name == call.name && !tool.shape.is_same());
            if let Some(Cow::Owned(arguments)) = tool.map(|tool| tool.shape.to_original(&call.arguments)) {
                call.arguments = arguments;
            }
        }
    }
    response
}
