//! The form of Ollama's own interface.

use serde_json::{Map, Value, json};

use super::calls::{ARGUMENTS, CallIds};
use super::frames::Output;
use super::{ReplyForm, ReplyNotes, take_error, take_list, text_of};

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
        }
        if let Some(message) = value.get_mut("message").and_then(Value::as_object_mut) {
            let calls = take_list(message, "tool_calls");
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

/// Translates the end of a reply. Returns whether the event has it.
fn translate_end(event: &mut Map<String, Value>) -> bool {
    let reason = text_of(event, "done_reason").trim().to_ascii_lowercase();
    let is_done = event.get("done").and_then(Value::as_bool).unwrap_or(!reason.is_empty());
    event.insert("done".to_owned(), Value::Bool(is_done));
    if reason.is_empty() {
        event.remove("done_reason");
    } else {
        event.insert("done_reason".to_owned(), Value::String(reason));
    }
    is_done
}
