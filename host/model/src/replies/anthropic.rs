//! The form of Anthropic's messages.

use std::collections::VecDeque;

use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

use super::calls::CallIds;
use super::frames::Output;
use super::{ReplyForm, ReplyNotes, is_significant, take_error, text_of};

/// A reply in this form. Its blocks come one after the other for the library: what belongs to a later one waits until the
/// call before it has ended.
#[derive(Debug, Default)]
pub(super) struct AnthropicForm {
    block: Option<Block>,
    waiting: VecDeque<WaitingBlock>,
    ids: CallIds,
    /// The blocks that have ended, for a turn that is paused.
    turn: Vec<Value>,
    has_stop: bool,
    is_done: bool,
}

/// A block that has not ended.
#[derive(Debug)]
struct Block {
    kind: BlockKind,
    index: Option<u64>,
    /// The block so far, without its input.
    content: Map<String, Value>,
    /// The pieces of the input.
    input: String,
}

/// A block that began before the one ahead of it ended.
#[derive(Debug)]
struct WaitingBlock {
    index: Option<u64>,
    content: Map<String, Value>,
    deltas: Vec<Map<String, Value>>,
    has_ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    ToolUse,
    /// Thoughts, readable or not.
    Thinking,
    /// A block that the library does not read, such as the use of a tool of the provider's own.
    Other,
}

impl BlockKind {
    fn of(name: &str) -> Self {
        match name {
            "text" => Self::Text,
            "tool_use" => Self::ToolUse,
            "thinking" | "redacted_thinking" => Self::Thinking,
            _ => Self::Other,
        }
    }
}

impl Block {
    /// Returns whether the input is complete.
    fn is_complete(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.input).is_ok()
    }
}

impl ReplyForm for AnthropicForm {
    fn translate(&mut self, name: &str, mut value: Value, notes: &mut ReplyNotes, output: &mut Output) {
        if self.is_done {
            return;
        }
        // The name of an event repeats its type, and some servers leave it out.
        let is_message = value.get("role").is_some() && value.get("content").is_some();
        let unnamed = if name.is_empty() && is_message { "message" } else { name };
        let kind = value.get("type").and_then(Value::as_str).unwrap_or(unnamed).to_owned();
        let index = value.get("index").and_then(Value::as_u64);
        let content = if kind == "error" { "" } else { "type" };
        if let Some(error) = take_error(&kind, &mut value, content) {
            output.write_json("error", &json!({"type": "error", "error": error}));
            notes.error = Some(error);
            self.is_done = true;
            return;
        }
        match kind.as_str() {
            "content_block_start" => self.begin_block(index, take_object(&mut value, "content_block"), output),
            "content_block_delta" => {
                let delta = take_object(&mut value, "delta");
                match self.waiting_block(index) {
                    Some(block) => block.deltas.push(delta),
                    None => self.add_delta(&delta, output),
                }
            }
            "content_block_stop" => match self.waiting_block(index) {
                Some(block) => block.has_ended = true,
                None => self.end_block(output),
            },
            "message_delta" => self.end_message(value, notes, output),
            "message_stop" => self.stop(output),
            "message" => self.translate_whole(value, notes, output),
            "message_start" => self.start_message(value, output),
            "ping" => write(output, &kind, value),
            // The library reads no others.
            _ => {}
        }
    }

    fn finish(&mut self, output: &mut Output) {
        if self.has_stop && !self.is_done {
            self.stop(output);
        }
    }
}

impl AnthropicForm {
    /// Creates an empty reply.
    pub(super) fn new(ids: CallIds) -> Self {
        Self { ids, ..Self::default() }
    }

    fn start_message(&mut self, mut value: Value, output: &mut Output) {
        let content = value.pointer_mut("/message/content").map(Value::take).unwrap_or_default();
        write(output, "message_start", value);
        self.translate_content(content, output);
        self.end_block(output);
    }

    /// Begins a block, or lets it wait if the input of the call before it is not complete.
    fn begin_block(&mut self, index: Option<u64>, content: Map<String, Value>, output: &mut Output) {
        let has_open_call = self.block.as_ref().is_some_and(|block| {
            block.kind == BlockKind::ToolUse && block.index.is_some() && block.index != index && !block.is_complete()
        });
        if has_open_call && index.is_some() {
            self.waiting.push_back(WaitingBlock { index, content, deltas: Vec::new(), has_ended: false });
        } else {
            self.end_all(output);
            self.start_block(index, content, output);
        }
    }

    /// Returns the block with this index, if it waits.
    fn waiting_block(&mut self, index: Option<u64>) -> Option<&mut WaitingBlock> {
        index.and_then(|index| self.waiting.iter_mut().rev().find(|block| block.index == Some(index)))
    }

    /// Starts the next block that waits, and ends it if its end was sent.
    fn advance(&mut self, output: &mut Output) {
        while self.block.is_none()
            && let Some(next) = self.waiting.pop_front()
        {
            self.start_block(next.index, next.content, output);
            for delta in &next.deltas {
                self.add_delta(delta, output);
            }
            if next.has_ended {
                self.close_block(output);
            }
        }
    }

    fn end_all(&mut self, output: &mut Output) {
        while self.block.is_some() {
            self.end_block(output);
        }
    }

    fn end_block(&mut self, output: &mut Output) {
        self.close_block(output);
        self.advance(output);
    }

    fn start_block(&mut self, index: Option<u64>, mut content: Map<String, Value>, output: &mut Output) {
        self.close_block(output);
        if content.is_empty() {
            return;
        }
        let kind = BlockKind::of(text_of(&content, "type"));
        if kind == BlockKind::ToolUse {
            let id = self.ids.assign(text_of(&content, "id"), |number| format!("call_{number}"));
            let name = text_of(&content, "name").to_owned();
            content.extend([("id".to_owned(), Value::String(id)), ("name".to_owned(), Value::String(name))]);
        }
        if kind != BlockKind::Other {
            write(output, "content_block_start", json!({"content_block": content}));
        }
        // The library reads no text at the start of a block.
        let text = text_of(&content, "text");
        if kind == BlockKind::Text && !text.is_empty() {
            write_delta(output, "text_delta", "text", text);
        }
        self.block = Some(Block { kind, index, content, input: String::new() });
    }

    fn add_delta(&mut self, delta: &Map<String, Value>, output: &mut Output) {
        if self.block.is_none() && delta.contains_key("text") {
            self.start_block(None, Map::from_iter([("type".to_owned(), json!("text"))]), output);
        }
        let Some(block) = &mut self.block else { return };
        let fields: &[(&str, &str)] = match block.kind {
            BlockKind::Text => &[("text_delta", "text")],
            BlockKind::Thinking => &[("thinking_delta", "thinking"), ("signature_delta", "signature")],
            BlockKind::ToolUse | BlockKind::Other => &[],
        };
        for (kind, field) in fields {
            let piece = text_of(delta, field);
            if !piece.is_empty() {
                let text = block.content.entry(*field).or_insert_with(|| json!(""));
                match text {
                    Value::String(text) => text.push_str(piece),
                    other => *other = json!(piece),
                }
                write_delta(output, kind, field, piece);
            }
        }
        let input = match delta.get("partial_json") {
            Some(Value::String(text)) => text.clone(),
            Some(value) if is_significant(value) => value.to_string(),
            _ => return,
        };
        if block.kind == BlockKind::ToolUse {
            write_delta(output, "input_json_delta", "partial_json", &input);
        }
        block.input.push_str(&input);
    }

    fn close_block(&mut self, output: &mut Output) {
        let Some(Block { kind, mut content, input, .. }) = self.block.take() else { return };
        if kind == BlockKind::ToolUse && input.is_empty() {
            // Some servers send the input whole, with the start of its block.
            if let Some(whole) = content.get("input").filter(|input| is_significant(input)) {
                let whole = whole.as_str().map_or_else(|| whole.to_string(), str::to_owned);
                write_delta(output, "input_json_delta", "partial_json", &whole);
            }
        }
        if kind != BlockKind::Other {
            write(output, "content_block_stop", json!({}));
        }
        if let Ok(input @ Value::Object(_)) = serde_json::from_str(&input) {
            content.insert("input".to_owned(), input);
        }
        if kind != BlockKind::Text || !text_of(&content, "text").is_empty() {
            self.turn.push(Value::Object(content));
        }
    }

    fn end_message(&mut self, mut value: Value, notes: &mut ReplyNotes, output: &mut Output) {
        self.end_all(output);
        if let Some(reason) = value.pointer_mut("/delta/stop_reason").filter(|reason| is_significant(reason)) {
            self.has_stop = true;
            *reason = json!(reason.as_str().unwrap_or_default().to_ascii_lowercase());
            if *reason == "pause_turn" {
                notes.turn = std::mem::take(&mut self.turn);
                trim_end(&mut notes.turn);
            }
        }
        write(output, "message_delta", value);
    }

    fn stop(&mut self, output: &mut Output) {
        self.end_all(output);
        self.is_done = true;
        write(output, "message_stop", json!({}));
    }

    /// Translates blocks that were sent whole. The last one stays open.
    fn translate_content(&mut self, content: Value, output: &mut Output) {
        let blocks = match content {
            Value::Array(blocks) => blocks,
            Value::String(text) => vec![json!({"type": "text", "text": text})],
            _ => Vec::new(),
        };
        for block in blocks {
            if let Value::Object(block) = block {
                self.start_block(None, block, output);
            }
        }
    }

    /// Translates the reply of a server that does not stream.
    fn translate_whole(&mut self, mut message: Value, notes: &mut ReplyNotes, output: &mut Output) {
        let content = message.get_mut("content").map(Value::take).unwrap_or_default();
        let usage = message.get("usage").cloned();
        let reason = message.get("stop_reason").cloned();
        write(output, "message_start", json!({"message": {"usage": usage}}));
        self.translate_content(content, output);
        self.end_message(json!({"delta": {"stop_reason": reason}, "usage": usage}), notes, output);
        self.stop(output);
    }
}

fn write(output: &mut Output, kind: &str, mut value: Value) {
    if let Value::Object(event) = &mut value {
        event.insert("type".to_owned(), json!(kind));
    }
    output.write_json(kind, &value);
}

fn write_delta(output: &mut Output, kind: &str, field: &str, piece: &str) {
    write(output, "content_block_delta", json!({"delta": {"type": kind, field: piece}}));
}

/// Removes white space from the end of a turn, which the provider refuses to continue with it.
fn trim_end(turn: &mut Vec<Value>) {
    let Some(Value::String(text)) = turn.last_mut().and_then(|block| block.get_mut("text")) else { return };
    text.truncate(text.trim_end().len());
    if text.is_empty() {
        turn.pop();
    }
}

fn take_object(value: &mut Value, field: &str) -> Map<String, Value> {
    match value.get_mut(field).map(Value::take) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}
