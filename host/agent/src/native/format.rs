//! How calls and their results are told in the messages of a provider that knows tools, and of one that does not.

use fumehood_core::chat::{Message, ToolIntent};
use serde_json::{Value, json};

use crate::execution::ToolExecution;
use crate::registry::is_full_name;
use crate::render::format_execution;

/// Longest name of a tool that all providers take.
const MOST_NAME: usize = 64;

/// The assistant's message that asks for one call, and the tool's message that answers it.
///
/// Each execution has its own two messages, also where one reply asked for several calls: a message carries the id of
/// one execution, every call in the history is answered by the message right after it even if the batch ended early,
/// and all providers take such a history. `text` is what the model said before the call.
#[must_use]
pub fn pair(execution: &ToolExecution, text: &str) -> [Message; 2] {
    let call = ToolIntent {
        id: execution.call.id.clone(),
        name: accepted_name(&execution.call.name),
        arguments: accepted_arguments(&execution.call.arguments),
    };
    let id = Some(execution.id.clone());
    let answer = format_execution(execution, "Error in tool call: ");
    [
        Message { tool_calls: vec![call], tool_execution_id: id.clone(), ..Message::assistant(text) },
        Message {
            tool_execution_id: id,
            is_error: execution.has_error(),
            ..Message::tool(execution.call.id.clone(), answer)
        },
    ]
}

/// The same for a model that knows no tools: it said that it makes a call, and was told what came of it.
#[must_use]
pub fn prose(execution: &ToolExecution) -> [Message; 2] {
    let id = Some(execution.id.clone());
    let asked = format!("I called the tool `{}` with {}.", execution.name(), execution.args());
    let answer = format!("Result of the tool: {}", format_execution(execution, "Error in tool call: "));
    [
        Message { tool_execution_id: id.clone(), ..Message::assistant(asked) },
        Message { tool_execution_id: id, ..Message::user(answer) },
    ]
}

/// Providers refuse a whole conversation for one name in it that is not of their alphabet, and a model may have written
/// anything. The result of such a call names what was wrong with it. A name that a tool can have stays: the provider's
/// client finds it again.
fn accepted_name(name: &str) -> String {
    if is_full_name(name) {
        return name.to_owned();
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let name: String = name.chars().take(MOST_NAME).map(|c| if fits(c) { c } else { '_' }).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}

/// The same for arguments that are no JSON object: the model finds what it wrote inside one.
fn accepted_arguments(arguments: &str) -> String {
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => arguments.to_owned(),
        _ if arguments.trim().is_empty() => "{}".to_owned(),
        _ => json!({ "not_a_json_object": arguments }).to_string(),
    }
}
