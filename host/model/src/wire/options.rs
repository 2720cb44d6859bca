//! Translation of a request's options to the client library's types.

use std::time::Duration;

use fumehood_core::chat::{ModelError, ModelFailure, Request, ToolChoice};
use genai::chat::{ChatOptions, ChatResponseFormat, JsonSpec};
use serde_json::{Map, Value, json};

use super::names::ToolNames;
use super::parameter::{Adjustments, Parameter};
use crate::config::{ProviderConfig, ReasoningEffort};
use crate::spec::Service;

/// Fields that a free-form option may not set, because it would replace another part of the request.
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

/// Time by which the library's timeouts exceed those of this crate, which then fire first.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(1);

/// The name of the JSON Schema of an answer, which some providers require.
const SCHEMA_NAME: &str = "answer";

/// Translates the options of a request, and returns the parameters among them that could be left out. `names` is `None`
/// if the request has no tools.
pub(super) fn translate_options(
    service: Service,
    config: &ProviderConfig,
    request: &Request,
    names: Option<&ToolNames>,
    adjustments: &Adjustments,
) -> Result<(ChatOptions, Vec<Parameter>), ModelError> {
    let mut sent = SentParameters { adjustments, parameters: Vec::new() };
    // `Provider` enforces both timeouts itself, and so can name the setting of the one that expired.
    let read_timeout = config.timeouts.first_token.max(config.timeouts.between_chunks).saturating_add(TIMEOUT_MARGIN);
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        // The library passes thoughts on with their signatures only if it captures them.
        .with_capture_reasoning_content(service == Service::Anthropic)
        .with_stream_header_timeout(config.timeouts.first_token)
        .with_stream_read_timeout(read_timeout);
    options.temperature = sent.unless_left_out(Parameter::Temperature, request.temperature.or(config.temperature));
    options.max_tokens = sent.unless_left_out(Parameter::MaxTokens, request.max_tokens.or(config.max_tokens));
    let effort = sent.unless_left_out(Parameter::ReasoningEffort, config.reasoning_effort);
    options.reasoning_effort = effort.map(translate_effort);
    if let Some(names) = names.filter(|_| service != Service::Ollama) {
        options.tool_choice = match &request.tool_choice {
            // The default of every provider.
            ToolChoice::Auto => None,
            ToolChoice::Required => Some(genai::chat::ToolChoice::Required),
            ToolChoice::None => Some(genai::chat::ToolChoice::None),
            ToolChoice::Specific(name) => Some(genai::chat::ToolChoice::tool(names.to_wire(name))),
        };
    }
    let mut extra = extra_fields(config, request, &mut sent)?;
    if service == Service::Ollama {
        set_ollama_options(&mut options, &extra)?;
        extra.clear();
    }
    set_response_format(service, request, names.is_some(), &mut sent, &mut options, &mut extra);
    options.extra_body = (!extra.is_empty()).then_some(Value::Object(extra));
    Ok((options, sent.parameters))
}

/// The parameters that are sent, without those that the model rejected before.
struct SentParameters<'a> {
    adjustments: &'a Adjustments,
    parameters: Vec<Parameter>,
}

impl SentParameters<'_> {
    /// Returns the value and records the parameter as sent, unless the model rejected it before.
    fn unless_left_out<T>(&mut self, parameter: Parameter, value: Option<T>) -> Option<T> {
        let value = value.filter(|_| self.adjustments.allows(&parameter))?;
        self.parameters.push(parameter);
        Some(value)
    }
}

fn translate_effort(effort: ReasoningEffort) -> genai::chat::ReasoningEffort {
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

/// Returns the options that are sent unchanged. Those of the request take precedence over those of the provider.
fn extra_fields(
    config: &ProviderConfig,
    request: &Request,
    sent: &mut SentParameters<'_>,
) -> Result<Map<String, Value>, ModelError> {
    let mut all = config.options.clone();
    all.extend(request.options.clone());
    if let Some(name) = all.keys().find(|name| RESERVED.contains(&name.as_str())) {
        return Err(option_error(name, "the request already has it; set it there"));
    }
    let fields = all.into_iter().filter_map(|(name, value)| {
        let value = sent.unless_left_out(Parameter::Option(name.clone()), Some(value))?;
        Some((name, value))
    });
    Ok(fields.collect())
}

/// Requests an answer in JSON, with its schema, in the provider's own way.
fn set_response_format(
    service: Service,
    request: &Request,
    with_tools: bool,
    sent: &mut SentParameters<'_>,
    options: &mut ChatOptions,
    extra: &mut Map<String, Value>,
) {
    // Gemini accepts neither together with tools. Ollama accepts a schema, but the library cannot send it one.
    let is_openai = matches!(service, Service::OpenAi | Service::Compatible);
    let takes_schema = is_openai || (service == Service::Gemini && !with_tools);
    let schema = request.json_schema.as_ref().filter(|_| request.json && takes_schema);
    if let Some(schema) = sent.unless_left_out(Parameter::JsonSchema, schema) {
        if is_openai {
            // The library's own format is `strict`, which supports only a subset of JSON Schema.
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
    // For Gemini the library supports JSON only with a schema.
    if service == Service::Gemini && !with_tools {
        set_gemini_json(options, extra);
    }
}

/// Requests JSON from Gemini. The extra field replaces the library's field of that name, so its other values are
/// repeated here.
fn set_gemini_json(options: &ChatOptions, extra: &mut Map<String, Value>) {
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

/// Sets the options that the library can send to Ollama. Any other is an error, so that none is dropped silently.
fn set_ollama_options(options: &mut ChatOptions, extra: &Map<String, Value>) -> Result<(), ModelError> {
    for (name, value) in extra {
        let applied = match name.as_str() {
            "top_p" => value.as_f64().map(|top_p| options.top_p = Some(top_p)),
            "seed" => value.as_u64().map(|seed| options.seed = Some(seed)),
            "stop" => serde_json::from_value(value.clone()).ok().map(|stop| options.stop_sequences = stop),
            _ => return Err(option_error(name, "Ollama accepts only `top_p`, `seed` and `stop`; remove it")),
        };
        applied.ok_or_else(|| option_error(name, "its value is of the wrong type"))?;
    }
    Ok(())
}

fn option_error(name: &str, why: &str) -> ModelError {
    let error = ModelError::new(ModelFailure::Setup, format!("cannot send the option `{name}`: {why}"));
    ModelError { setting: Some(format!("options.{name}")), ..error }
}
