//! Calls and results as messages, for providers with and without support for tools.

use fumehood_core::chat::{Message, ToolIntent};
use fumehood_core::tool::name::MAX_FULL_NAME_BYTES;
use serde_json::{Value, json};

use crate::drivers::render::{format_execution, images_of};
use crate::execution::ToolExecution;

/// Maximum length of a tool's name that all providers accept, in characters.
const MAX_NAME_CHARS: usize = 64;

/// Converts an execution to two messages: the assistant's call, and the tool's result.
///
/// Each execution has its own two messages, also if one reply had several calls: a message carries the id of one
/// execution, the result of every call is the message right after it even if the batch ended early, and all providers
/// accept such a history. `text` is the text of the model before the call.
#[must_use]
pub(crate) fn to_tool_messages(execution: &ToolExecution, text: &str) -> [Message; 2] {
    let call = ToolIntent {
        id: execution.call.id.clone(),
        name: sanitize_name(&execution.call.name),
        arguments: sanitize_arguments(&execution.call.arguments),
    };
    let id = Some(execution.id.clone());
    let answer = format_execution(execution, "Error in tool call: ");
    [
        Message { tool_calls: vec![call], tool_execution_id: id.clone(), ..Message::assistant(text) },
        Message {
            tool_execution_id: id,
            is_error: execution.has_error(),
            images: images_of(execution),
            ..Message::tool(execution.call.id.clone(), answer)
        },
    ]
}

/// Converts an execution to two messages without tool calls, for a provider without support for tools: the assistant
/// states the call, and the user reports the result.
#[must_use]
pub(crate) fn to_prose_messages(execution: &ToolExecution) -> [Message; 2] {
    let id = Some(execution.id.clone());
    let call = format!("I called the tool `{}` with {}.", execution.name(), execution.args());
    let answer = format!("Result of the tool: {}", format_execution(execution, "Error in tool call: "));
    [
        Message { tool_execution_id: id.clone(), ..Message::assistant(call) },
        Message { tool_execution_id: id, images: images_of(execution), ..Message::user(answer) },
    ]
}

/// Replaces characters of a name that providers do not accept, and truncates it.
///
/// Providers reject a whole conversation for one name outside of their alphabet, and a model may have written anything.
/// The result of such a call names the problem. A valid full name of a tool is unchanged: the provider's client maps
/// it.
fn sanitize_name(name: &str) -> String {
    let is_full = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    if !name.is_empty() && name.len() <= MAX_FULL_NAME_BYTES && name.chars().all(is_full) {
        return name.to_owned();
    }
    let fitting = name.chars().take(MAX_NAME_CHARS).map(|c| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => c,
        _ => '_',
    });
    let name: String = fitting.collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// Wraps arguments that are no JSON object in one, because providers reject anything else. Empty arguments become `{}`.
fn sanitize_arguments(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => arguments.to_owned(),
        _ if arguments.trim().is_empty() => "{}".to_owned(),
        _ => json!({ "not_a_json_object": arguments }).to_string(),
    }
}
