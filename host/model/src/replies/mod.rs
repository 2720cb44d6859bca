//! Translation of a provider's reply to the form that the client library reads.
//!
//! The library reads the usual form of each provider, and drops or refuses whatever else a server sends. A translation stands
//! between the relay and the library. It has a module for each form, and takes what can be understood without a guess. Each
//! event is parsed once, and nothing is held back but what later events need.

mod anthropic;
mod calls;
mod frames;
mod gemini;
mod ollama;
mod openai;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::text::json::repair;
use fumehood_transport::Translation;
use serde_json::{Map, Value, json};

use self::calls::CallIds;
use self::frames::{Event, Framing, Output};
use crate::spec::Service;

/// The data of the last event in OpenAI's form.
const DONE: &str = "[DONE]";

/// The fields with the message of an error that is alone in its event.
const ERROR_MESSAGES: [&str; 4] = ["message", "msg", "error_msg", "error_message"];

/// Facts about a reply that the library does not report.
#[derive(Debug, Default)]
pub(crate) struct ReplyNotes {
    /// True if the provider itself ended the reply. Noted for the forms whose end the library does not check.
    pub(crate) is_finished: bool,
    /// The error that the provider sent in place of a reply, or in the middle of one.
    pub(crate) error: Option<Value>,
    /// The provider's explanation of the end of the reply.
    pub(crate) reason: Option<String>,
    /// The content of a paused turn, which is sent back unchanged.
    pub(crate) turn: Vec<Value>,
}

/// The notes on one reply, shared with the translation that writes them.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedNotes(Arc<Mutex<ReplyNotes>>);

impl SharedNotes {
    /// Returns the notes so far.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ReplyNotes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One wire form of replies.
trait ReplyForm: Send {
    /// Translates one event. `name` is the event's own; empty if it has none.
    fn translate(&mut self, name: &str, value: Value, notes: &mut ReplyNotes, output: &mut Output);

    /// Notes the end that some forms send as text. The default ignores it.
    fn translate_done(&mut self, output: &mut Output) {
        let _ = output;
    }

    /// Writes the end that the library waits for, if the reply is complete and has none. The default writes nothing.
    fn finish(&mut self, output: &mut Output) {
        let _ = output;
    }
}

pub(crate) struct ReplyTranslation {
    framing: Framing,
    form: Box<dyn ReplyForm>,
    notes: SharedNotes,
}

impl ReplyTranslation {
    /// Creates the translation of a reply, and the notes that it makes.
    pub(crate) fn new(service: Service) -> (Self, SharedNotes) {
        let ids = CallIds::random();
        let form: Box<dyn ReplyForm> = match service {
            Service::OpenAi | Service::Compatible => Box::new(openai::OpenAiForm::new(ids)),
            Service::Anthropic => Box::new(anthropic::AnthropicForm::new(ids)),
            Service::Gemini => Box::new(gemini::GeminiForm::new(ids)),
            Service::Ollama => Box::new(ollama::OllamaForm::new(ids)),
        };
        let framing = if service == Service::Ollama { Framing::Lines } else { Framing::ServerSent };
        let notes = SharedNotes::default();
        (Self { framing, form, notes: notes.clone() }, notes)
    }

    fn translate_event(&mut self, event: &Event<'_>, output: &mut Output) {
        let data = event.data.as_ref();
        if let Some(value) = parse(data) {
            self.translate_value(event.name, value, output);
        } else if lines(data).all(|line| is_done(line) || parse(line).is_some()) {
            // Some servers put no empty line between events.
            for line in lines(data) {
                match parse(line) {
                    Some(value) => self.translate_value(event.name, value, output),
                    None => self.form.translate_done(output),
                }
            }
        } else if event.name == "error" {
            self.translate_value(event.name, json!({"message": data}), output);
        } else if data.trim_start().starts_with(['{', '[', '"']) {
            // The rest of a reply that was cut: the library says what is wrong.
            output.write(event.name, data);
        }
    }

    fn translate_value(&mut self, name: &str, value: Value, output: &mut Output) {
        let notes = &mut self.notes.lock();
        match value {
            // Some servers send all events of a stream as one array.
            Value::Array(values) => {
                for value in values {
                    self.form.translate(name, value, notes, output);
                }
            }
            Value::String(text) if is_done(&text) => self.form.translate_done(output),
            Value::Object(_) => self.form.translate(name, value, notes, output),
            // A sign of life.
            _ => {}
        }
    }
}

/// Parses JSON, and text that is almost JSON.
fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).or_else(|_| serde_json::from_str(&repair(text))).ok()
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty())
}

fn is_done(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case(DONE)
}

impl Translation for ReplyTranslation {
    fn translate(&mut self, piece: &[u8]) -> Vec<u8> {
        // Event streams are decoded with replacement characters (HTML Standard, section 9.2.6).
        let text = String::from_utf8_lossy(piece);
        let mut output = Output::new(self.framing);
        frames::for_each_event(self.framing, &text, |event| self.translate_event(event, &mut output));
        output.into_bytes()
    }

    fn finish(&mut self) -> Vec<u8> {
        let mut output = Output::new(self.framing);
        self.form.finish(&mut output);
        output.into_bytes()
    }
}

/// Takes the error out of an event, if it is one. `content` is the field that every event with a part of a reply has.
fn take_error(name: &str, value: &mut Value, content: &str) -> Option<Value> {
    let object = value.as_object_mut()?;
    // Some servers send an empty one with every event.
    if let Some(error) = object.remove("error").filter(is_significant) {
        return Some(error);
    }
    if object.get(content).is_some_and(|content| !content.is_null()) {
        return None;
    }
    if let Some(error) = take_list(object, "errors").into_iter().find(is_significant) {
        return Some(error);
    }
    // The state of a reply, of which zero is a success.
    let state = object.get("base_resp").filter(|state| state.get("status_code").is_some_and(|code| *code != json!(0)));
    if let Some(state) = state {
        return Some(state.clone());
    }
    let says_so = name == "error" || ["object", "type"].iter().any(|field| has_text(object, field, "error"));
    let has_message = ERROR_MESSAGES.iter().any(|field| object.get(*field).is_some_and(Value::is_string));
    // RFC 9457, section 3.1.
    let is_problem = object.contains_key("title") && object.get("status").is_some_and(Value::is_number);
    let is_error = says_so || has_message || is_problem || object.contains_key("detail");
    is_error.then(|| value.take())
}

fn has_text(object: &Map<String, Value>, field: &str, text: &str) -> bool {
    object.get(field).and_then(Value::as_str) == Some(text)
}

/// Returns whether a value says anything: it is not null, false, an empty text, an empty list or an empty object.
fn is_significant(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(_) => true,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Returns the text of a field; empty if there is none.
fn text_of<'a>(object: &'a Map<String, Value>, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Takes a list out of a field. A single object is a list of one.
fn take_list(object: &mut Map<String, Value>, field: &str) -> Vec<Value> {
    match object.remove(field) {
        Some(Value::Array(items)) => items,
        Some(item @ Value::Object(_)) => vec![item],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SERVICES: [Service; 4] = [Service::Compatible, Service::Anthropic, Service::Gemini, Service::Ollama];

    /// Returns an event in each form, with all that a translation looks at.
    fn events(service: Service) -> Vec<Value> {
        let function = json!({"name": "add", "arguments": "{}"});
        match service {
            Service::OpenAi | Service::Compatible => vec![
                json!({"choices": [{
                    "delta": {"content": "a", "refusal": "r", "reasoning": "t", "function_call": function,
                        "tool_calls": [{"index": 0, "id": "a", "function": function}]},
                    "message": {"content": "a"}, "error": null, "finish_reason": "stop",
                }], "error": null, "usage": {}}),
                json!("[DONE]"),
            ],
            Service::Anthropic => vec![
                json!({"type": "content_block_start", "content_block": {"type": "tool_use", "id": "a", "name": "add", "input": {}}}),
                json!({"type": "content_block_delta", "delta": {"text": "a", "thinking": "t", "signature": "s", "partial_json": "{}"}}),
                json!({"type": "content_block_stop"}),
                json!({"type": "message_delta", "delta": {"stop_reason": "pause_turn"}}),
                json!({"type": "message", "content": [{"type": "text", "text": "a"}], "stop_reason": "end_turn"}),
            ],
            Service::Gemini => vec![json!({
                "candidates": [{"content": {"parts": [
                    {"functionCall": {"name": "add", "args": {}, "id": "a"}},
                    {"text": "t", "thought": true}, {"text": "t", "thought": true},
                ]}, "finishReason": "STOP", "finishMessage": "m"}],
                "promptFeedback": {"blockReason": "SAFETY"},
            })],
            Service::Ollama => vec![json!({
                "message": {"content": "a", "tool_calls": [{"id": "a", "function": function}]},
                "done": true, "done_reason": "stop", "error": null,
            })],
        }
    }

    /// Returns the value with each of its parts replaced by this one, and with each left out.
    fn variants(value: &Value, other: &Value) -> Vec<Value> {
        let mut found = vec![other.clone()];
        match value {
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    found.extend(variants(item, other).into_iter().map(|changed| {
                        let mut items = items.clone();
                        items[at] = changed;
                        Value::Array(items)
                    }));
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    let mut without = fields.clone();
                    without.remove(name);
                    found.push(Value::Object(without.clone()));
                    found.extend(variants(field, other).into_iter().map(|changed| {
                        without.insert(name.clone(), changed);
                        Value::Object(without.clone())
                    }));
                }
            }
            _ => {}
        }
        found
    }

    #[test]
    fn translates_any_value_in_any_place() {
        let others = [
            json!(null),
            json!(""),
            json!("x"),
            json!(-1),
            json!(true),
            json!([]),
            json!([null]),
            json!({}),
            json!({"a": 1}),
        ];
        for service in SERVICES {
            for event in events(service) {
                for changed in others.iter().flat_map(|other| variants(&event, other)) {
                    let (mut translation, _) = ReplyTranslation::new(service);
                    let mut output = Vec::new();
                    for event in [&changed, &event, &changed] {
                        let piece = if service == Service::Ollama {
                            format!("{event}\n")
                        } else {
                            format!("data: {event}\n\n")
                        };
                        output.extend(translation.translate(piece.as_bytes()));
                    }
                    output.extend(translation.finish());
                    let output = String::from_utf8(output).unwrap();
                    frames::for_each_event(translation.framing, &output, |event| {
                        let is_json = serde_json::from_str::<Value>(&event.data).is_ok();
                        assert!(is_json || event.data == "[DONE]", "{changed}: {output}");
                    });
                }
            }
        }
    }

    #[test]
    fn passes_on_events_that_were_cut_and_no_other_text() {
        let (mut translation, _) = ReplyTranslation::new(Service::Compatible);
        assert_eq!(translation.translate(b"data: {\"cho\n\n"), b"data: {\"cho\n\n");
        assert_eq!(translation.translate(b"data: \xff\n\ndata: ping\n\ndata: null\n\ndata: 1\n\n"), b"");
        assert_eq!(translation.translate(b"<html>\n\n"), b"");
        assert_eq!(translation.finish(), b"");
    }

    #[test]
    fn finds_errors_by_their_usual_fields() {
        fn error(mut value: Value) -> Option<Value> {
            take_error("", &mut value, "choices")
        }

        for value in [
            json!({"error": "x"}),
            json!({"success": false, "errors": [{"message": "x"}]}),
            json!({"choices": null, "base_resp": {"status_code": 1004, "status_msg": "x"}}),
            json!({"code": 1, "msg": "x"}),
            json!({"error_code": 1, "error_msg": "x"}),
            json!({"title": "x", "status": 504}),
            json!({"detail": "x"}),
        ] {
            let found = error(value.clone()).unwrap_or_else(|| panic!("{value}"));
            assert!(found.to_string().contains("\"x\""), "{value}: {found}");
        }
        for value in [
            json!({"choices": [], "msg": "x", "errors": []}),
            json!({"choices": [], "base_resp": {"status_code": 1}}),
            json!({"base_resp": {"status_code": 0, "status_msg": "x"}}),
            json!({"usage": {}, "errors": null}),
            json!({}),
        ] {
            assert_eq!(error(value.clone()), None, "{value}");
        }
    }
}
