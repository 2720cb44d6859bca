//! Translation of a request to the client library's types.

use fumehood_core::chat::{ModelError, ModelFailure, Request, ToolChoice, ToolSpec};
use genai::chat::{ChatOptions, ChatRequest, Tool, ToolName};
use serde_json::{Value, json};

use super::messages::translate_messages;
use super::names::ToolNames;
use super::options::translate_options;
use super::parameter::{Adjustments, Parameter};
use crate::config::ProviderConfig;
use crate::spec::Service;

/// Names that the client library takes for built-in tools of Gemini.
const GEMINI_BUILT_IN: &[&str] = &["googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"];

/// Suffixes of a model's name that the client library removes, and sends as a reasoning effort.
const EFFORT_SUFFIXES: &[&str] = &["none", "zero", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A request in the client library's types.
pub(crate) struct PreparedRequest {
    /// The messages and tools.
    pub(crate) chat: ChatRequest,
    /// The options of the answer.
    pub(crate) options: ChatOptions,
    /// True if the request has tools. Otherwise tool calls in the answer are ignored.
    pub(crate) with_tools: bool,
    /// The tool names that were sent.
    pub(crate) names: ToolNames,
    /// The parameters that could be left out.
    pub(crate) parameters: Vec<Parameter>,
}

/// Translates a request to the model called `name`.
///
/// # Errors
/// If the request contains something that cannot be sent to this provider.
pub(crate) fn prepare(
    service: Service,
    config: &ProviderConfig,
    name: &str,
    request: &Request,
    adjustments: &Adjustments,
) -> Result<PreparedRequest, ModelError> {
    let names = ToolNames::from_request(request);
    let tools = if config.supports_tools { translate_tools(service, request, &names)? } else { Vec::new() };
    let with_tools = !tools.is_empty();
    let mut chat = ChatRequest::from_messages(translate_messages(service, config, request, &names, adjustments));
    if with_tools {
        chat = chat.with_tools(tools);
    }
    let (mut options, parameters) =
        translate_options(service, config, request, with_tools.then_some(&names), adjustments)?;
    if matches!(service, Service::OpenAi | Service::Compatible) {
        preserve_model_name(&mut options, name);
    }
    Ok(PreparedRequest { chat, options, with_tools, names, parameters })
}

/// Translates the tools of a request. Ollama's protocol has no tool choice: instead of "none" no tools are sent to it,
/// and instead of a specific one only that tool.
fn translate_tools(service: Service, request: &Request, names: &ToolNames) -> Result<Vec<Tool>, ModelError> {
    let is_sent = |tool: &&ToolSpec| match (service, &request.tool_choice) {
        (Service::Ollama, ToolChoice::None) => false,
        (Service::Ollama, ToolChoice::Specific(name)) => tool.name == *name,
        _ => true,
    };
    let mut tools = Vec::with_capacity(request.tools.len());
    for spec in request.tools.iter().filter(is_sent) {
        if service == Service::Gemini && GEMINI_BUILT_IN.contains(&spec.name.as_str()) {
            let message = format!("the tool `{}` is named like one of Gemini's own; give it another name", spec.name);
            return Err(ModelError::new(ModelFailure::Setup, message));
        }
        let tool = Tool::new(ToolName::Custom(names.to_wire(&spec.name).to_owned()));
        tools.push(tool.with_description(spec.description.as_str()).with_schema(spec.parameters.clone()));
    }
    Ok(tools)
}

/// Sends a name such as `mistral-medium` unchanged: the library would send `mistral` and a reasoning effort that was
/// not requested.
fn preserve_model_name(options: &mut ChatOptions, name: &str) {
    // With an explicit effort the library leaves the name alone.
    let has_suffix = name.rsplit_once('-').is_some_and(|(_, suffix)| EFFORT_SUFFIXES.contains(&suffix));
    if options.reasoning_effort.is_some() || !has_suffix {
        return;
    }
    let extra = options.extra_body.get_or_insert_with(|| json!({}));
    if let Some(extra) = extra.as_object_mut() {
        extra.insert("model".to_owned(), Value::from(name));
        extra.entry("reasoning_effort").or_insert(Value::Null);
    }
}
