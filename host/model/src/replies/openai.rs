//! The form of OpenAI's chat completions, which most servers offer.

use serde_json::{Map, Value, json};

use super::calls::{CallIds, CallTracker, take_calls};
use super::frames::Output;
use super::{DONE, ReplyForm, ReplyNotes, is_significant, take_error, take_list, text_of};

/// The fields with a model's thoughts. The library reads the first two.
const THOUGHTS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// A reply in this form.
#[derive(Debug, Default)]
pub(super) struct OpenAiForm {
    calls: CallTracker,
    has_text: bool,
    has_thoughts: bool,
    is_refused: bool,
    /// True if calls come in the field of a single one, which is older.
    is_legacy: bool,
    /// True if pieces come in the usual field.
    has_delta: bool,
    has_finish: bool,
    is_done: bool,
}

impl ReplyForm for OpenAiForm {
    fn translate(&mut self, name: &str, mut value: Value, notes: &mut ReplyNotes, output: &mut Output) {
        if self.is_done {
            return;
        }
        if let Some(error) = take_error(name, &mut value, "choices").or_else(|| take_choice_error(&mut value)) {
            output.write_json("", &json!({"error": error}));
            notes.error = Some(error);
            self.is_done = true;
            return;
        }
        let is_reply = value.get("object").and_then(Value::as_str) == Some("chat.completion");
        let Some(event) = value.as_object_mut() else { return };
        let mut choices = take_list(event, "choices");
        let mut is_first = true;
        for choice in &mut choices {
            if let Value::Object(choice) = choice {
                self.translate_choice(choice, is_reply, is_first);
                is_first = false;
            }
        }
        // The library reads the first choice of an event. No more are asked for: further ones are parts of the same reply.
        let last = choices.pop();
        for choice in choices {
            output.write_json("", &json!({"choices": [choice]}));
        }
        event.insert("choices".to_owned(), last.into_iter().collect());
        output.write_json("", &value);
    }

    fn translate_done(&mut self, output: &mut Output) {
        if !self.is_done {
            self.is_done = true;
            output.write("", DONE);
        }
    }

    fn finish(&mut self, output: &mut Output) {
        if self.has_finish && !self.is_done {
            self.is_done = true;
            output.write("", DONE);
        }
    }
}

impl OpenAiForm {
    /// Creates an empty reply.
    pub(super) fn new(ids: CallIds) -> Self {
        Self { calls: CallTracker::new(ids), ..Self::default() }
    }

    fn translate_choice(&mut self, choice: &mut Map<String, Value>, is_reply: bool, is_first: bool) {
        let message = take_object(choice, "message");
        let is_message = !choice.contains_key("delta") && !message.is_empty();
        // A server that does not stream sends a message alone, which needs no reason to be complete.
        let is_whole = is_message && (is_reply || !choice.contains_key("finish_reason"));
        let mut delta = take_object(choice, "delta");
        if is_message && !self.has_delta {
            delta = message;
        } else {
            self.has_delta = true;
            self.fill(&mut delta, message);
        }
        move_fields(choice, &mut delta);
        if !is_first && self.has_text {
            // The same answer in other words.
            delta.remove("content");
        }
        self.translate_thoughts(&mut delta);
        self.translate_refusal(&mut delta);
        let pieces = self.take_pieces(&mut delta);
        let calls = self.calls.translate(pieces);
        if !calls.is_empty() {
            delta.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        if let Some(content) = delta.get_mut("content") {
            self.has_text |= is_significant(content);
            translate_content(content);
        }
        let reason = choice.get("finish_reason").filter(|reason| is_significant(reason));
        let reason = reason.cloned().or_else(|| delta.remove("finish_reason")).unwrap_or_default();
        choice.insert("delta".to_owned(), Value::Object(delta));
        let reason = self.finish_reason(reason_text(&reason), is_whole);
        self.has_finish |= reason.is_some();
        choice.insert("finish_reason".to_owned(), reason.map_or(Value::Null, Value::String));
    }

    /// Adds what the stream did not have so far from a message: some servers send the calls, or everything, in a last message.
    fn fill(&self, delta: &mut Map<String, Value>, mut message: Map<String, Value>) {
        let kinds: [(&[&str], bool); 4] = [
            (&["content"], self.has_text),
            (&THOUGHTS, self.has_thoughts),
            (&["refusal"], self.is_refused),
            (&["tool_calls", "function_call"], !self.calls.is_empty()),
        ];
        for (fields, was_sent) in kinds {
            let is_sent = fields.iter().any(|field| delta.get(*field).is_some_and(is_significant));
            if was_sent || is_sent {
                continue;
            }
            let found = fields.iter().filter_map(|field| message.remove_entry(*field));
            delta.extend(found.collect::<Vec<_>>());
        }
    }

    fn translate_thoughts(&mut self, delta: &mut Map<String, Value>) {
        let [first, second, third] = THOUGHTS;
        let is_sent = [first, second].iter().any(|field| !text_of(delta, field).is_empty());
        if let Some(thoughts @ Value::String(_)) = delta.remove(third)
            && !is_sent
        {
            delta.insert(first.to_owned(), thoughts);
        }
        self.has_thoughts |= [first, second].iter().any(|field| !text_of(delta, field).is_empty());
    }

    /// Makes the text of a refusal the text of the reply, whose end then says that it is one.
    fn translate_refusal(&mut self, delta: &mut Map<String, Value>) {
        let Some(Value::String(refusal)) = delta.remove("refusal").filter(is_significant) else { return };
        self.is_refused = true;
        let text = format!("{}{refusal}", text_of(delta, "content"));
        delta.insert("content".to_owned(), Value::String(text));
    }

    fn take_pieces(&mut self, delta: &mut Map<String, Value>) -> Vec<Value> {
        let pieces = take_calls(delta, "tool_calls");
        let call = take_object(delta, "function_call");
        // Some servers send the same call in both fields.
        self.is_legacy |= !call.is_empty() && pieces.is_empty() && self.calls.is_empty();
        if self.is_legacy && !call.is_empty() { vec![Value::Object(call)] } else { pieces }
    }

    fn finish_reason(&self, reason: &str, is_whole: bool) -> Option<String> {
        let reason = reason.trim().to_ascii_lowercase();
        let reason = if reason.is_empty() && is_whole { "stop".to_owned() } else { reason };
        if self.is_refused && reason == "stop" {
            return Some("refusal".to_owned());
        }
        Some(reason).filter(|reason| !reason.is_empty())
    }
}

/// Moves what some servers send beside the usual field into it: calls, and the text of the older completions.
fn move_fields(choice: &mut Map<String, Value>, delta: &mut Map<String, Value>) {
    for (from, to) in [("tool_calls", "tool_calls"), ("function_call", "function_call"), ("text", "content")] {
        let is_sent = delta.get(to).is_some_and(is_significant);
        if let Some(value) = choice.remove(from).filter(|value| !is_sent && is_significant(value)) {
            delta.insert(to.to_owned(), value);
        }
    }
}

/// Translates content to a text or to a list of parts, which the library reads.
fn translate_content(content: &mut Value) {
    match content {
        Value::Number(number) => *content = Value::String(number.to_string()),
        Value::Object(_) => *content = Value::Array(vec![content.take()]),
        Value::Array(parts) => {
            for part in parts.iter_mut().filter(|part| part.is_string()) {
                *part = json!({"type": "text", "text": part.take()});
            }
        }
        _ => {}
    }
}

/// Returns the name of a reason, which may have details beside it.
fn reason_text(reason: &Value) -> &str {
    let named = || ["type", "reason"].iter().find_map(|field| reason.get(field)?.as_str());
    reason.as_str().or_else(named).unwrap_or_default()
}

/// Takes an error out of the choice, where some routers put it.
fn take_choice_error(value: &mut Value) -> Option<Value> {
    let error = value.pointer_mut("/choices/0/error")?.take();
    Some(error).filter(is_significant)
}

/// Takes an object out of a field; empty if there is none.
fn take_object(object: &mut Map<String, Value>, field: &str) -> Map<String, Value> {
    match object.remove(field) {
        Some(Value::Object(found)) => found,
        _ => Map::new(),
    }
}
