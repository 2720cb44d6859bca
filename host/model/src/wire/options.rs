//! Options of an answer, in the client library's terms.

use std::time::Duration;

use fumehood_core::chat::{ModelError, ModelFailure, Request, ToolChoice};
use genai::chat::{ChatOptions, ChatResponseFormat, JsonSpec};
use serde_json::{Map, Value, json};

use super::names::Names;
use super::parameter::{Adjustments, Parameter};
use crate::config::{ProviderConfig, ReasoningEffort};
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

/// The time that the library waits longer than this crate.
const SLACK: Duration = Duration::from_secs(1);

/// The name of the JSON Schema of an answer, which some providers want to have.
const SCHEMA_NAME: &str = "answer";

/// Translates how a request is to be answered. `names` if it mentions tools. Also returns the parameters that could be left
/// out.
pub(super) fn options(
    service: Service,
    config: &ProviderConfig,
    request: &Request,
    names: Option<&Names>,
    adjustments: &Adjustments,
) -> Result<(ChatOptions, Vec<Parameter>), ModelError> {
    let mut sent = Sent { adjustments, parameters: Vec::new() };
    // `Provider` itself keeps the times between pieces, and knows which of the two it is.
    let patience = config.timeouts.first_token.max(config.timeouts.between_chunks).saturating_add(SLACK);
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        // Only then are its thoughts told with their signatures.
        .with_capture_reasoning_content(service == Service::Anthropic)
        .with_stream_header_timeout(config.timeouts.first_token)
        .with_stream_read_timeout(patience);
    options.temperature = sent.unless_left_out(Parameter::Temperature, request.temperature.or(config.temperature));
    options.max_tokens = sent.unless_left_out(Parameter::MaxTokens, request.max_tokens.or(config.max_tokens));
    let effort = sent.unless_left_out(Parameter::ReasoningEffort, config.reasoning_effort);
    options.reasoning_effort = effort.map(in_library_terms);
    if let Some(names) = names.filter(|_| service != Service::Ollama) {
        options.tool_choice = match &request.tool_choice {
            // What a provider does when nothing is said.
            ToolChoice::Auto => None,
            ToolChoice::Required => Some(genai::chat::ToolChoice::Required),
            ToolChoice::None => Some(genai::chat::ToolChoice::None),
            ToolChoice::Specific(name) => Some(genai::chat::ToolChoice::tool(names.theirs(name))),
        };
    }
    let mut extra = extra(config, request, &mut sent)?;
    if service == Service::Ollama {
        ollama_options(&mut options, &extra)?;
        extra.clear();
    }
    format(service, request, names.is_some(), &mut sent, &mut options, &mut extra);
    options.extra_body = (!extra.is_empty()).then_some(Value::Object(extra));
    Ok((options, sent.parameters))
}

/// The parameters that are sent.
struct Sent<'a> {
    adjustments: &'a Adjustments,
    parameters: Vec<Parameter>,
}

impl Sent<'_> {
    /// Returns the value, and notes that it is sent, unless the model refused it before.
    fn unless_left_out<T>(&mut self, parameter: Parameter, value: Option<T>) -> Option<T> {
        let value = value.filter(|_| self.adjustments.allows(&parameter))?;
        self.parameters.push(parameter);
        Some(value)
    }
}

fn in_library_terms(effort: ReasoningEffort) -> genai::chat::ReasoningEffort {
    match effort {
        ReasoningEffort::None => genai::chat::ReasoningEffort::Zero,
        ReasoningEffort::Minimal => genai::chat::ReasoningEffort::Minimal,
        ReasoningEffort::Low => genai::chat::ReasoningEffort::Low,
        ReasoningEffort::Medium => genai::chat::ReasoningEffort::Medium,
        ReasoningEffort::High => genai::chat::ReasoningEffort::High,
        ReasoningEffort::ExtraHigh => genai::chat::ReasoningEffort::XHigh,
        ReasoningEffort::Max => genai::chat::ReasoningEffort::Max,
    }
}

/// The settings that are sent as they are: those of the request, and then those of the provider.
fn extra(config: &ProviderConfig, request: &Request, sent: &mut Sent<'_>) -> Result<Map<String, Value>, ModelError> {
    let mut all = config.options.clone();
    all.extend(request.options.clone());
    if let Some(name) = all.keys().find(|name| RESERVED.contains(&name.as_str())) {
        return Err(no_option(name, "the request itself says that; set it there"));
    }
    let kept = all.into_iter().filter_map(|(name, value)| {
        let value = sent.unless_left_out(Parameter::Option(name.clone()), Some(value))?;
        Some((name, value))
    });
    Ok(kept.collect())
}

/// Says in the provider's own way that the answer is JSON, and of which schema.
fn format(
    service: Service,
    request: &Request,
    with_tools: bool,
    sent: &mut Sent<'_>,
    options: &mut ChatOptions,
    extra: &mut Map<String, Value>,
) {
    // Gemini takes neither beside tools. Ollama could take a schema, but the library has no way to send it one.
    let is_openai = matches!(service, Service::OpenAi | Service::Compatible);
    let takes_schema = is_openai || (service == Service::Gemini && !with_tools);
    let schema = request.json_schema.as_ref().filter(|_| request.json && takes_schema);
    if let Some(schema) = sent.unless_left_out(Parameter::JsonSchema, schema) {
        if is_openai {
            // Not the library's own: that is `strict`, which knows a part of JSON Schema only.
            let format = json!({"name": SCHEMA_NAME, "strict": false, "schema": schema});
            extra.entry("response_format").or_insert(json!({"type": "json_schema", "json_schema": format}));
        } else {
            options.response_format = Some(JsonSpec::new(SCHEMA_NAME, schema.clone()).into());
        }
        return;
    }
    if sent.unless_left_out(Parameter::Json, request.json.then_some(())).is_none() {
        return;
    }
    options.response_format = Some(ChatResponseFormat::JsonMode);
    // The library knows JSON for Gemini only with a schema.
    if service == Service::Gemini && !with_tools {
        gemini_json(options, extra);
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
    let error = ModelError::new(ModelFailure::Setup, format!("the option `{name}` can not be sent: {why}"));
    ModelError { setting: Some(format!("options.{name}")), ..error }
}
