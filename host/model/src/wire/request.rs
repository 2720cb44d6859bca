//! A request, in the client library's terms.

use fumehood_core::chat::{Message, ModelError, ModelFailure, Request, Role, ToolChoice, ToolIntent, ToolSpec};
use genai::chat::{
    CacheControl, ChatMessage, ChatOptions, ChatRequest, ChatResponseFormat, ContentPart, MessageContent, Tool,
    ToolCall, ToolName, ToolResponse,
};
use serde_json::{Map, Value, json};

use super::names::Names;
use crate::config::ProviderConfig;
use crate::spec::Service;

/// Settings of a provider that would replace what the rest of the request says.
const RESERVED: &[&str] = &[
    "model",
    "messages",
    "contents",
    "system",
    "systemInstruction",
    "tools",
    "tool_choice",
    "toolConfig",
    "functions",
    "function_call",
    "stream",
];

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
) -> Result<Prepared, ModelError> {
    let names = Names::of(request);
    let tools = if config.supports_tools { offered(service, request, &names)? } else { Vec::new() };
    let with_tools = !tools.is_empty();
    let cached = if service == Service::Anthropic { request.cached_messages } else { 0 };
    let messages = request.messages.iter().enumerate().filter_map(|(index, said)| {
        let cache = index + 1 == cached;
        let message = message(said, &names)?;
        Some(if cache { message.with_options(CacheControl::Ephemeral) } else { message })
    });
    let mut chat = ChatRequest::from_messages(messages.collect());
    if with_tools {
        chat = chat.with_tools(tools);
    }
    let mut options = options(service, config, request, with_tools.then_some(&names))?;
    if matches!(service, Service::OpenAi | Service::Compatible) {
        keep_name(&mut options, name);
    }
    Ok(Prepared { chat, options, with_tools, names })
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

/// One message, with the names of tools that the provider knows; `None` if it says nothing, which some providers refuse.
fn message(said: &Message, names: &Names) -> Option<ChatMessage> {
    let text = || MessageContent::from_text(said.content.as_str());
    match said.role {
        Role::System => (!said.content.is_empty()).then(|| ChatMessage::system(text())),
        Role::User => Some(ChatMessage::user(text())),
        Role::Assistant => {
            let text = (!said.content.is_empty()).then(|| ContentPart::from_text(said.content.as_str()));
            let calls = said.tool_calls.iter().map(|intent| ContentPart::ToolCall(call(intent, names)));
            let parts: Vec<ContentPart> = text.into_iter().chain(calls).collect();
            (!parts.is_empty()).then(|| ChatMessage::assistant(MessageContent::from_parts(parts)))
        }
        Role::Tool => {
            let id = said.tool_call_id.clone().unwrap_or_default();
            Some(ChatMessage::from(ToolResponse::new(id, said.content.as_str())))
        }
    }
}

/// A call of an earlier answer. Providers refuse arguments that are no object, so those are shown to the model inside
/// one.
fn call(intent: &ToolIntent, names: &Names) -> ToolCall {
    let arguments = match serde_json::from_str::<Value>(&intent.arguments) {
        Ok(arguments @ Value::Object(_)) => arguments,
        _ => json!({ "malformed_arguments": intent.arguments }),
    };
    ToolCall {
        call_id: intent.id.clone(),
        fn_name: names.theirs(&intent.name).to_owned(),
        fn_arguments: arguments,
        thought_signatures: None,
    }
}

fn options(
    service: Service,
    config: &ProviderConfig,
    request: &Request,
    names: Option<&Names>,
) -> Result<ChatOptions, ModelError> {
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_stream_header_timeout(config.timeouts.first_byte)
        .with_stream_read_timeout(config.timeouts.between_chunks);
    options.temperature = request.temperature.or(config.temperature);
    options.max_tokens = request.max_tokens;
    if let Some(names) = names.filter(|_| service != Service::Ollama) {
        options.tool_choice = match &request.tool_choice {
            // What a provider does when nothing is said.
            ToolChoice::Auto => None,
            ToolChoice::Required => Some(genai::chat::ToolChoice::Required),
            ToolChoice::None => Some(genai::chat::ToolChoice::None),
            ToolChoice::Specific(name) => Some(genai::chat::ToolChoice::tool(names.theirs(name))),
        };
    }
    if request.json {
        options.response_format = Some(ChatResponseFormat::JsonMode);
    }
    if let Some(name) = request.options.keys().find(|name| RESERVED.contains(&name.as_str())) {
        return Err(no_option(name, "the request itself says that; set it there"));
    }
    let mut extra = request.options.clone();
    match service {
        Service::Ollama => ollama_options(&mut options, &extra)?,
        _ => {
            // The library knows JSON for Gemini only with a schema, and Gemini allows it only without tools.
            if service == Service::Gemini && request.json && names.is_none() {
                gemini_json(&options, &mut extra);
            }
            options.extra_body = (!extra.is_empty()).then_some(Value::Object(extra));
        }
    }
    Ok(options)
}

/// Sends a name such as `mistral-medium` as it is: the library would send `mistral` and an effort that nobody asked for.
fn keep_name(options: &mut ChatOptions, name: &str) {
    if !name.rsplit_once('-').is_some_and(|(_, ending)| EFFORTS.contains(&ending)) {
        return;
    }
    let extra = options.extra_body.get_or_insert_with(|| json!({}));
    if let Some(extra) = extra.as_object_mut() {
        extra.insert("model".to_owned(), Value::from(name));
        extra.entry("reasoning_effort").or_insert(Value::Null);
    }
}

/// An extra field replaces the library's own of that name, so that it has to say again what the library would.
fn gemini_json(options: &ChatOptions, extra: &mut Map<String, Value>) {
    let generation = extra.entry("generationConfig").or_insert_with(|| json!({}));
    let Some(generation) = generation.as_object_mut() else {
        return;
    };
    let known = [
        ("responseMimeType", Some(json!("application/json"))),
        ("temperature", options.temperature.map(Value::from)),
        ("maxOutputTokens", options.max_tokens.map(Value::from)),
    ];
    for (name, value) in known {
        if let Some(value) = value {
            generation.entry(name).or_insert(value);
        }
    }
}

/// The library sends no others to Ollama. Nothing is dropped in silence.
fn ollama_options(options: &mut ChatOptions, extra: &Map<String, Value>) -> Result<(), ModelError> {
    for (name, value) in extra {
        let taken = match name.as_str() {
            "top_p" => value.as_f64().map(|top_p| options.top_p = Some(top_p)),
            "seed" => value.as_u64().map(|seed| options.seed = Some(seed)),
            "stop" => serde_json::from_value(value.clone()).ok().map(|stop| options.stop_sequences = stop),
            _ => return Err(no_option(name, "Ollama can be told `top_p`, `seed` and `stop`; remove it")),
        };
        taken.ok_or_else(|| no_option(name, "its value is of the wrong type"))?;
    }
    Ok(())
}

fn no_option(name: &str, why: &str) -> ModelError {
    ModelError::new(ModelFailure::Setup, format!("the option `{name}` can not be sent: {why}"))
}
