//! Requests that the real services refuse, with their messages.

use serde_json::{Value, json};

use super::service::{ReceivedRequest, Service};

/// A refusal: a status and a body.
pub(crate) struct Refusal(pub(crate) u16, pub(crate) Value);

type CheckResult = Result<(), Refusal>;

/// Checks a request as this service does.
pub(crate) fn check(service: Service, asked: &ReceivedRequest) -> CheckResult {
    match service {
        Service::OpenAi => openai(asked),
        Service::Anthropic => anthropic(asked),
        Service::Ollama => ollama(asked),
    }
}

/// Keys of a request that OpenAI accepts, of those that could be sent.
const OPENAI_KEYS: &[&str] = &[
    "model",
    "messages",
    "tools",
    "tool_choice",
    "stream",
    "stream_options",
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
];

fn refuse_as_openai(message: String, param: Option<&str>) -> CheckResult {
    let error = json!({"message": message, "type": "invalid_request_error", "param": param, "code": null});
    Err(Refusal(400, json!({"error": error})))
}

fn openai(asked: &ReceivedRequest) -> CheckResult {
    if asked.header("authorization").as_deref() != Some("Bearer sk-test") {
        return Err(Refusal(401, json!({"error": {"message": "Incorrect API key provided."}})));
    }
    if asked.path() != "/v1/chat/completions" {
        return Err(Refusal(404, json!({"error": {"message": format!("Invalid URL ({})", asked.path())}})));
    }
    let body = &asked.body;
    if let Some(key) = unknown(body, OPENAI_KEYS) {
        return refuse_as_openai(format!("Unrecognized request argument supplied: {key}"), None);
    }
    let model = body["model"].as_str().unwrap_or_default();
    let reasons = ["gpt-5", "o1", "o3", "o4"].iter().any(|family| model.starts_with(family));
    if reasons && body.get("max_tokens").is_some() {
        let words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.";
        return refuse_as_openai(words.to_owned(), Some("max_tokens"));
    }
    if let Some(temperature) = body["temperature"].as_f64().filter(|temperature| reasons && *temperature != 1.0) {
        let words = format!(
            "Unsupported value: 'temperature' does not support {temperature} with this model. Only the default (1) value is supported."
        );
        return refuse_as_openai(words, Some("temperature"));
    }
    if !reasons && body.get("reasoning_effort").is_some() {
        return refuse_as_openai("Unrecognized request argument supplied: reasoning_effort".to_owned(), None);
    }
    let (key, most) = if reasons { ("max_completion_tokens", 128_000) } else { ("max_tokens", 16_384) };
    if let Some(tokens) = body[key].as_u64().filter(|tokens| *tokens > most) {
        let words = format!(
            "{key} is too large: {tokens}. This model supports at most {most} completion tokens, whereas you provided {tokens}."
        );
        return refuse_as_openai(words, Some(key));
    }
    let tools = body.get("tools").map(|tools| tools.as_array().unwrap().clone());
    if tools.as_ref().is_some_and(Vec::is_empty) {
        return refuse_as_openai("Invalid 'tools': empty array.".to_owned(), Some("tools"));
    }
    if tools.is_none() && body.get("tool_choice").is_some() {
        let words = "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.";
        return refuse_as_openai(words.to_owned(), Some("tool_choice"));
    }
    for (at, tool) in tools.iter().flatten().enumerate() {
        if !is_name(tool.pointer("/function/name"), 64) {
            let words = format!("Invalid 'tools[{at}].function.name': string does not match pattern.");
            return refuse_as_openai(words, Some("tools"));
        }
        if tool.pointer("/function/parameters/type") != Some(&json!("object")) {
            let words = format!("Invalid schema for function {}: schema must be of type object.", tool["function"]);
            return refuse_as_openai(words, Some("tools"));
        }
    }
    openai_messages(body["messages"].as_array().unwrap()).or_else(|words| refuse_as_openai(words, Some("messages")))
}

/// Checks that all calls are answered, directly after them, and that no other id is.
fn openai_messages(messages: &[Value]) -> Result<(), String> {
    let mut open: Vec<&Value> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let Some(at) = open.iter().position(|id| **id == message["tool_call_id"]) else {
                return Err(
                    "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.".into()
                );
            };
            open.remove(at);
            continue;
        }
        if !open.is_empty() {
            break;
        }
        let content = &message["content"];
        open = message["tool_calls"].as_array().iter().copied().flatten().map(|call| &call["id"]).collect();
        if open.is_empty() && content.is_null() {
            return Err("Invalid value for 'content': expected a string, got null.".to_owned());
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    let words =
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.";
    Err(words.to_owned())
}

/// Keys of a request that Anthropic accepts, of those that could be sent.
const ANTHROPIC_KEYS: &[&str] = &[
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "thinking",
    "output_config",
    "stop_sequences",
];

/// Maximum tokens of an answer of Claude Sonnet 4.5.
const ANTHROPIC_MOST: u64 = 64_000;

fn refuse_as_anthropic(message: String) -> CheckResult {
    let error = json!({"type": "invalid_request_error", "message": message});
    Err(Refusal(400, json!({"type": "error", "error": error})))
}

fn anthropic(asked: &ReceivedRequest) -> CheckResult {
    if asked.header("x-api-key").as_deref() != Some("sk-test") || asked.header("anthropic-version").is_none() {
        return Err(Refusal(401, json!({"type": "error", "error": {"message": "invalid x-api-key"}})));
    }
    if asked.path() != "/v1/messages" {
        return Err(Refusal(404, json!({"type": "error", "error": {"message": "Not found"}})));
    }
    let body = &asked.body;
    if let Some(key) = unknown(body, ANTHROPIC_KEYS) {
        return refuse_as_anthropic(format!("{key}: Extra inputs are not permitted"));
    }
    let Some(most) = body["max_tokens"].as_u64() else {
        return refuse_as_anthropic("max_tokens: Field required".to_owned());
    };
    if most > ANTHROPIC_MOST {
        let words = "which is the maximum allowed number of output tokens for claude-sonnet-4-5";
        return refuse_as_anthropic(format!("max_tokens: {most} > {ANTHROPIC_MOST}, {words}"));
    }
    let thinks = is_thinking(body);
    if let Some(temperature) = body["temperature"].as_f64() {
        if temperature > 1.0 {
            return refuse_as_anthropic("temperature: range: 0..1".to_owned());
        }
        if thinks && temperature < 1.0 {
            return refuse_as_anthropic("`temperature` may only be set to 1 when thinking is enabled.".to_owned());
        }
    }
    if body.pointer("/thinking/budget_tokens").and_then(Value::as_u64).is_some_and(|budget| budget >= most) {
        return refuse_as_anthropic("`max_tokens` must be greater than `thinking.budget_tokens`.".to_owned());
    }
    let tools = body.get("tools").and_then(Value::as_array);
    if tools.is_none() && body.get("tool_choice").is_some() {
        return refuse_as_anthropic("tool_choice: may only be specified while providing tools".to_owned());
    }
    if tools.into_iter().flatten().any(|tool| !is_name(tool.get("name"), 128)) {
        return refuse_as_anthropic(
            "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'".to_owned(),
        );
    }
    anthropic_messages(body["messages"].as_array().unwrap(), tools.is_some(), thinks).or_else(refuse_as_anthropic)
}

/// Returns whether this request to Anthropic asks for thoughts.
pub(crate) fn is_thinking(body: &Value) -> bool {
    matches!(body.pointer("/thinking/type").and_then(Value::as_str), Some("enabled" | "adaptive"))
}

fn blocks_of(message: &Value, kind: &str) -> Vec<Value> {
    let blocks = message["content"].as_array().cloned().unwrap_or_default();
    blocks.into_iter().filter(|block| block["type"] == kind).collect()
}

fn anthropic_messages(messages: &[Value], has_tools: bool, thinks: bool) -> Result<(), String> {
    if messages.first().is_none_or(|message| message["role"] != "user") {
        return Err("messages: first message must use the \"user\" role".to_owned());
    }
    for (at, message) in messages.iter().enumerate() {
        if !matches!(message["role"].as_str(), Some("user" | "assistant")) {
            return Err(format!("messages: Unexpected role \"{}\".", message["role"]));
        }
        let texts = blocks_of(message, "text");
        if message["content"] == "" || texts.iter().any(|block| block["text"].as_str().is_none_or(str::is_empty)) {
            return Err("messages: text content blocks must be non-empty".to_owned());
        }
        let uses = blocks_of(message, "tool_use");
        if !has_tools && (!uses.is_empty() || !blocks_of(message, "tool_result").is_empty()) {
            return Err("Requests which include `tool_use` or `tool_result` blocks must define tools".to_owned());
        }
        let first = message.pointer("/content/0/type").and_then(Value::as_str);
        if thinks && !uses.is_empty() && first != Some("thinking") {
            return Err(format!(
                "messages.{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found {first:?}."
            ));
        }
        let is_sealed = |block: &Value| block["signature"].as_str().is_some_and(|it| it.starts_with("sealed-"));
        if !blocks_of(message, "thinking").iter().all(is_sealed) {
            return Err(format!("messages.{at}.content.0: Invalid `signature` in `thinking` block"));
        }
        let results = messages.get(at + 1).map(|next| blocks_of(next, "tool_result")).unwrap_or_default();
        let is_answered = |call: &Value| results.iter().any(|result| result["tool_use_id"] == call["id"]);
        if let Some(call) = uses.iter().find(|call| !is_answered(call)) {
            return Err(format!(
                "messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {}.",
                call["id"]
            ));
        }
    }
    Ok(())
}

fn refuse_as_ollama(message: String) -> CheckResult {
    Err(Refusal(400, json!({"error": message})))
}

fn ollama(asked: &ReceivedRequest) -> CheckResult {
    if asked.path() != "/api/chat" {
        return Err(Refusal(404, json!("404 page not found")));
    }
    let model = asked.body["model"].as_str().unwrap_or_default();
    match model {
        "llama3.2" if asked.body.get("think").is_some_and(|think| *think != false) => {
            refuse_as_ollama(format!("\"{model}\" does not support thinking"))
        }
        "gemma2" if asked.body["tools"].as_array().is_some_and(|tools| !tools.is_empty()) => {
            refuse_as_ollama(format!("registry.ollama.ai/library/{model}:latest does not support tools"))
        }
        "llama3.2" | "gemma2" => Ok(()),
        _ => Err(Refusal(404, json!({"error": format!("model '{model}' not found")}))),
    }
}

fn unknown<'a>(body: &'a Value, known: &[&str]) -> Option<&'a String> {
    body.as_object().unwrap().keys().find(|key| !known.contains(&key.as_str()))
}

fn is_name(name: Option<&Value>, longest: usize) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    name.and_then(Value::as_str).is_some_and(|name| (1..=longest).contains(&name.len()) && name.chars().all(known))
}
