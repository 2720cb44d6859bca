//! A request, in the client library's terms.

use fumehood_core::chat::{ModelError, ModelFailure, Request, ToolChoice, ToolSpec};
use genai::chat::{ChatOptions, ChatRequest, Tool, ToolName};
use serde_json::{Value, json};

use super::messages::messages;
use super::names::Names;
use super::options::options;
use super::parameter::{Adjustments, Parameter};
use crate::config::ProviderConfig;
use crate::spec::Service;

/// Names that the client library takes for tools of Gemini's own instead of ours.
const GEMINI_OWN: &[&str] = &["googleSearch", "googleSearchRetrieval", "codeExecution", "urlContext"];

/// Endings that the client library takes off a model's name, as a reasoning effort.
const EFFORTS: &[&str] = &["none", "zero", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A request that can be sent.
pub(crate) struct Prepared {
    /// What is said.
    pub(crate) chat: ChatRequest,
    /// How it is to be answered.
    pub(crate) options: ChatOptions,
    /// Whether tools are mentioned. If not, calls are not looked for in the answer.
    pub(crate) with_tools: bool,
    /// What its tools are called there.
    pub(crate) names: Names,
    /// The parameters that could be left out.
    pub(crate) parameters: Vec<Parameter>,
}

/// Translates a request to the model of that name.
///
/// # Errors
/// If the request has what this provider can not be sent.
pub(crate) fn prepare(
    service: Service,
    config: &ProviderConfig,
    name: &str,
    request: &Request,
    adjustments: &Adjustments,
) -> Result<Prepared, ModelError> {
    let names = Names::of(request);
    let tools = if config.supports_tools { offered(service, request, &names)? } else { Vec::new() };
    let with_tools = !tools.is_empty();
    let mut chat = ChatRequest::from_messages(messages(service, request, &names, adjustments));
    if with_tools {
        chat = chat.with_tools(tools);
    }
    let (mut options, parameters) = options(service, config, request, with_tools.then_some(&names), adjustments)?;
    if matches!(service, Service::OpenAi | Service::Compatible) {
        keep_name(&mut options, name);
    }
    Ok(Prepared { chat, options, with_tools, names, parameters })
}

/// The tools to mention. Ollama's protocol has no tool choice, so none means no tools there, and a specific one means
/// no others.
fn offered(service: Service, request: &Request, names: &Names) -> Result<Vec<Tool>, ModelError> {
    let chosen = |tool: &&ToolSpec| match (service, &request.tool_choice) {
        (Service::Ollama, ToolChoice::None) => false,
        (Service::Ollama, ToolChoice::Specific(name)) => tool.name == *name,
        _ => true,
    };
    let mut tools = Vec::with_capacity(request.tools.len());
    for spec in request.tools.iter().filter(chosen) {
        if service == Service::Gemini && GEMINI_OWN.contains(&spec.name.as_str()) {
            let message = format!("the tool `{}` is named like one of Gemini's own; give it another name", spec.name);
            return Err(ModelError::new(ModelFailure::Setup, message));
        }
        let tool = Tool::new(ToolName::Custom(names.theirs(&spec.name).to_owned()));
        tools.push(tool.with_description(spec.description.as_str()).with_schema(spec.parameters.clone()));
    }
    Ok(tools)
}

/// Sends a name such as `mistral-medium` as it is: the library would send `mistral` and an effort that nobody asked for.
fn keep_name(options: &mut ChatOptions, name: &str) {
    // Where an effort is asked for, the library leaves the name alone.
    if options.reasoning_effort.is_some() || !name.rsplit_once('-').is_some_and(|(_, ending)| EFFORTS.contains(&ending))
    {
        return;
    }
    let extra = options.extra_body.get_or_insert_with(|| json!({}));
    if let Some(extra) = extra.as_object_mut() {
        extra.insert("model".to_owned(), Value::from(name));
        extra.entry("reasoning_effort").or_insert(Value::Null);
    }
}
