//! Turns that a provider paused, and that the model goes on with.

use fumehood_core::chat::{Message, Reply, Request, Response, Thought};
use serde_json::Value;

/// Appends a paused turn to the request for the rest of it.
pub(crate) fn continue_turn(request: &mut Request, paused: &Response) {
    let thoughts = paused.thoughts.clone();
    request.messages.push(Message { thoughts, ..Message::assistant("") });
}

/// Joins a paused answer and the rest of it.
pub(crate) fn join_turn(paused: Response, rest: Response) -> Response {
    let Response { reply: before, mut usage, mut notices, thoughts, .. } = paused;
    usage += rest.usage;
    notices.extend(rest.notices);
    let join = |text: &str| format!("{}{text}", before.text());
    let (reply, thoughts) = match rest.reply {
        Reply::Text(text) => (Reply::Text(join(&text)), rest.thoughts),
        // Of the earlier part, only the thoughts are sent back with the calls; its text is before them.
        Reply::ToolCalls { text, calls } => {
            let thoughts = thoughts.into_iter().filter(is_thinking).chain(rest.thoughts).collect();
            (Reply::ToolCalls { text: join(&text), calls }, thoughts)
        }
    };
    Response { reply, usage, notices, thoughts, stop: rest.stop }
}

fn is_thinking(thought: &Thought) -> bool {
    let Thought::Sealed { block } = thought else { return true };
    let block: Value = serde_json::from_str(block).unwrap_or_default();
    let kind = block.get("type").and_then(Value::as_str);
    matches!(kind, Some("thinking" | "redacted_thinking"))
}
