//! Translation of a request to the client library's types.

use fumehood_core::chat::{ModelError, Request};
use genai::chat::{ChatOptions, ChatRequest};
use serde_json::{Value, json};

use super::messages::translate_messages;
use super::names::ToolNames;
use super::options::translate_options;
use super::parameter::{Adjustments, Parameter};
use super::tools::{SentTool, translate_tools, without_refused};
use crate::config::ProviderConfig;
use crate::spec::Service;

/// Suffixes of a model's name that the client library removes, and sends as a reasoning effort.
const EFFORT_SUFFIXES: &[&str] = &["none", "zero", "minimal", "low", "medium", "high", "xhigh", "max"];

/// A request in the client library's types.
pub(crate) struct PreparedRequest {
    /// The messages and tools.
    pub(crate) chat: ChatRequest,
    /// The options of the answer.
    pub(crate) options: ChatOptions,
    /// The tools that were sent. If there are none, tool calls in the answer are ignored.
    pub(crate) tools: Vec<SentTool>,
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
    let request = without_refused(request, adjustments);
    let request = request.as_ref();
    let names = ToolNames::from_request(request);
    let (translated, tools) =
        if config.supports_tools { translate_tools(service, request, &names)? } else { Default::default() };
    let with_tools = !tools.is_empty();
    let messages = translate_messages(service, config, request, &names, &tools, adjustments);
    let mut chat = ChatRequest::from_messages(messages);
    if with_tools {
        chat = chat.with_tools(translated);
    }
    let (mut options, parameters) =
        translate_options(service, config, request, with_tools.then_some(&names), adjustments)?;
    if matches!(service, Service::OpenAi | Service::Compatible) {
        preserve_model_name(&mut options, name);
    }
    Ok(PreparedRequest { chat, options, tools, names, parameters })
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
