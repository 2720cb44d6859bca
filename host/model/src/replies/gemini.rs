//! The form of Gemini's `generateContent`.

use serde_json::{Map, Value, json};

use super::calls::CallIds;
use super::frames::Output;
use super::{ReplyForm, ReplyNotes, is_significant, take_error, take_list, text_of};

/// Fields of an event that may have no content.
const FACTS: [&str; 4] = ["usageMetadata", "promptFeedback", "modelVersion", "responseId"];

/// A reply in this form.
#[derive(Debug, Default)]
pub(super) struct GeminiForm {
    ids: CallIds,
    is_done: bool,
}

impl ReplyForm for GeminiForm {
    fn translate(&mut self, name: &str, mut value: Value, notes: &mut ReplyNotes, output: &mut Output) {
        if self.is_done {
            return;
        }
        if let Some(error) = take_error(name, &mut value, "candidates") {
            output.write_json("", &json!({"error": error}));
            notes.error = Some(error);
            self.is_done = true;
            return;
        }
        if let Some(event) = value.as_object_mut() {
            add_candidates(event, notes);
        }
        // The library takes an event without candidates for an error.
        if value.get("candidates").is_none() {
            return;
        }
        if let Some(candidate) = value.pointer_mut("/candidates/0").and_then(Value::as_object_mut) {
            self.translate_candidate(candidate, notes);
        }
        output.write_json("", &value);
    }
}

impl GeminiForm {
    /// Creates an empty reply.
    pub(super) fn new(ids: CallIds) -> Self {
        Self { ids, ..Self::default() }
    }

    fn translate_candidate(&mut self, candidate: &mut Map<String, Value>, notes: &mut ReplyNotes) {
        if candidate.get("finishReason").is_some_and(is_significant) {
            notes.is_finished = true;
            let message = text_of(candidate, "finishMessage");
            if !message.is_empty() {
                notes.reason = Some(message.to_owned());
            }
        } else {
            // The library takes an empty reason for the end.
            candidate.remove("finishReason");
        }
        let Some(content) = candidate.get_mut("content").and_then(Value::as_object_mut) else { return };
        let mut parts = take_list(content, "parts");
        for part in &mut parts {
            if let Some(call) = part.get_mut("functionCall").and_then(Value::as_object_mut) {
                self.translate_call(call);
            }
        }
        content.insert("parts".to_owned(), Value::Array(join_thoughts(parts)));
    }

    fn translate_call(&mut self, call: &mut Map<String, Value>) {
        if call.get("args").is_none_or(Value::is_null) {
            call.insert("args".to_owned(), json!({}));
        }
        // The library sends an id of this form back to no provider.
        let name = text_of(call, "name");
        let id = self.ids.assign(text_of(call, "id"), |number| format!("call#{name}#{number}"));
        call.insert("id".to_owned(), Value::String(id));
    }
}

/// Adds the candidates that the library requires to an event without any. A prompt that was blocked has one that ends at once.
fn add_candidates(event: &mut Map<String, Value>, notes: &mut ReplyNotes) {
    if event.get("candidates").is_some_and(is_significant) {
        return;
    }
    let reason = event.get("promptFeedback").and_then(|feedback| feedback.get("blockReason")?.as_str());
    if let Some(reason) = reason {
        notes.reason = Some(format!("the prompt was blocked, with the reason {reason}"));
        let candidate = json!({"content": {"parts": []}, "finishReason": "PROHIBITED_CONTENT"});
        event.insert("candidates".to_owned(), json!([candidate]));
    } else if FACTS.iter().any(|field| event.contains_key(*field)) {
        event.insert("candidates".to_owned(), json!([]));
    }
}

/// Joins adjacent thoughts, of which the library reads the last one of an event.
fn join_thoughts(parts: Vec<Value>) -> Vec<Value> {
    let is_thought = |part: &Value| part.get("thought") == Some(&Value::Bool(true)) && part.get("text").is_some();
    let mut joined: Vec<Value> = Vec::with_capacity(parts.len());
    for part in parts {
        let before = joined.last_mut().filter(|before| is_thought(before) && is_thought(&part));
        match (before.and_then(|before| before.get_mut("text")), part.get("text")) {
            (Some(Value::String(before)), Some(Value::String(more))) => before.push_str(more),
            _ => joined.push(part),
        }
    }
    joined
}
