//! The form of Ollama's own interface.

use serde_json::{Map, Value, json};

use super::calls::{ARGUMENTS, CallIds, take_calls};
use super::frames::Output;
use super::{ReplyForm, ReplyNotes, is_significant, take_error, text_of};

/// A reply in this form.
#[derive(Debug, Default)]
pub(super) struct OllamaForm {
    ids: CallIds,
    is_done: bool,
}

impl ReplyForm for OllamaForm {
    fn translate(&mut self, name: &str, mut value: Value, notes: &mut ReplyNotes, output: &mut Output) {
        if self.is_done {
            return;
        }
        // The message of an event is an object, and that of an error a text.
        let content = if value.get("message").is_some_and(Value::is_object) { "message" } else { "done" };
        if let Some(error) = take_error(name, &mut value, content) {
            notes.error = Some(error);
            self.is_done = true;
            // The library knows no errors here.
            output.write_json("", &json!({"done": true}));
            return;
        }
        if let Some(event) = value.as_object_mut() {
            self.is_done = translate_end(event);
            notes.is_finished |= self.is_done;
            // The form of completions.
            if let Some(text) = event.remove("response").filter(|_| !event.contains_key("message")) {
                event.insert("message".to_owned(), json!({"content": text}));
            }
        }
        if let Some(message) = value.get_mut("message").and_then(Value::as_object_mut) {
            if let Some(content) = message.get_mut("content").filter(|content| !content.is_string()) {
                *content = Value::String(content_text(content));
            }
            let single = message.remove("function_call").filter(is_significant);
            let calls = match take_calls(message, "tool_calls") {
                calls if calls.is_empty() => single.into_iter().collect(),
                calls => calls,
            };
            let calls = calls.into_iter().filter_map(|call| self.translate_call(call)).collect::<Vec<_>>();
            message.insert("tool_calls".to_owned(), Value::Array(calls));
        }
        output.write_json("", &value);
    }
}

impl OllamaForm {
    /// Creates an empty reply.
    pub(super) fn new(ids: CallIds) -> Self {
        Self { ids, ..Self::default() }
    }

    fn translate_call(&mut self, call: Value) -> Option<Value> {
        let Value::Object(mut call) = call else { return None };
        let id = self.ids.assign(text_of(&call, "id"), |number| format!("call_{number}"));
        let function = match call.remove("function") {
            Some(Value::Object(function)) => function,
            _ => call,
        };
        let arguments = ARGUMENTS.iter().find_map(|field| function.get(*field));
        let arguments = arguments.filter(|arguments| !arguments.is_null()).cloned();
        let function = json!({"name": text_of(&function, "name"), "arguments": arguments.unwrap_or_else(|| json!({}))});
        Some(json!({"id": id, "function": function}))
    }
}

/// Returns the text of a content that is none: a number, or parts.
fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Array(parts) => parts.iter().map(content_text).collect(),
        Value::Object(part) => text_of(part, "text").to_owned(),
        Value::Null | Value::Bool(_) => String::new(),
    }
}

/// Translates the end of a reply. Returns whether the event has it.
fn translate_end(event: &mut Map<String, Value>) -> bool {
    let reason = text_of(event, "done_reason").trim().to_ascii_lowercase();
    let is_done = match event.get("done") {
        Some(Value::Bool(is_done)) => *is_done,
        Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
        _ => !reason.is_empty(),
    };
    event.insert("done".to_owned(), Value::Bool(is_done));
    if reason.is_empty() {
        event.remove("done_reason");
    } else {
        event.insert("done_reason".to_owned(), Value::String(reason));
    }
    is_done
}
