//! The form of Gemini's `generateContent`.

use serde_json::{Map, Value, json};

use super::calls::{ARGUMENTS, CallIds};
use super::frames::Output;
use super::{ReplyForm, ReplyNotes, is_significant, take_error, take_list, text_of};

/// Fields of an event that may have no content.
const FACTS: [&str; 4] = ["usageMetadata", "promptFeedback", "modelVersion", "responseId"];

/// Fields in the other spelling of the protocol buffers' JSON.
const SNAKE_CASE: [(&str, &str); 9] = [
    ("usage_metadata", "usageMetadata"),
    ("prompt_feedback", "promptFeedback"),
    ("model_version", "modelVersion"),
    ("response_id", "responseId"),
    ("block_reason", "blockReason"),
    ("finish_reason", "finishReason"),
    ("finish_message", "finishMessage"),
    ("function_call", "functionCall"),
    ("thought_signature", "thoughtSignature"),
];
/// The first reasons by their numbers.
const REASONS: [&str; 5] = ["STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER"];

/// A reply in this form.
#[derive(Debug, Default)]
pub(super) struct GeminiForm {
    ids: CallIds,
    /// The reason for the end of the reply. It is written last: some servers send one with every event, and the library reads
    /// nothing after the first.
    reason: Option<String>,
    usage: Value,
    is_done: bool,
}

impl ReplyForm for GeminiForm {
    fn translate(&mut self, name: &str, mut value: Value, notes: &mut ReplyNotes, output: &mut Output) {
        if self.is_done {
            return;
        }
        // Some gateways put each event into an object.
        let wrapped = value.get_mut("response").filter(|response| response.is_object()).map(Value::take);
        value = wrapped.unwrap_or(value);
        if let Some(error) = take_error(name, &mut value, "candidates") {
            output.write_json("", &json!({"error": error}));
            notes.error = Some(error);
            self.is_done = true;
            return;
        }
        let Some(event) = value.as_object_mut() else { return };
        to_camel_case(event);
        add_candidates(event, notes);
        // The library takes an event without candidates for an error.
        if !event.contains_key("candidates") {
            return;
        }
        if let Some(usage) = event.get("usageMetadata").filter(|usage| is_significant(usage)) {
            self.usage = usage.clone();
        }
        let mut candidates = take_list(event, "candidates");
        for candidate in &mut candidates {
            if let Value::Object(candidate) = candidate {
                self.translate_candidate(candidate, notes);
            }
        }
        event.insert("candidates".to_owned(), join_candidates(candidates));
        output.write_json("", &value);
    }

    fn finish(&mut self, output: &mut Output) {
        if let Some(reason) = self.reason.take().filter(|_| !self.is_done) {
            self.is_done = true;
            let end = json!({"content": {"parts": []}, "finishReason": reason});
            output.write_json("", &json!({"candidates": [end], "usageMetadata": self.usage}));
        }
    }
}

impl GeminiForm {
    /// Creates an empty reply.
    pub(super) fn new(ids: CallIds) -> Self {
        Self { ids, ..Self::default() }
    }

    fn translate_candidate(&mut self, candidate: &mut Map<String, Value>, notes: &mut ReplyNotes) {
        to_camel_case(candidate);
        // The library takes an empty reason for the end.
        if let Some(reason) = candidate.remove("finishReason").filter(is_significant) {
            notes.is_finished = true;
            self.note_reason(&reason);
            let message = text_of(candidate, "finishMessage");
            if !message.is_empty() {
                notes.reason = Some(message.to_owned());
            }
        }
        let content = candidate.entry("content").or_insert_with(|| json!({}));
        if !content.is_object() {
            *content = json!({"parts": content_parts(content.take())});
        }
        let Some(content) = content.as_object_mut() else { return };
        let mut parts = take_list(content, "parts");
        for part in &mut parts {
            translate_part(part);
            if let Some(call) = part.get_mut("functionCall").and_then(Value::as_object_mut) {
                self.translate_call(call);
            }
        }
        content.insert("parts".to_owned(), Value::Array(join_thoughts(parts)));
    }

    /// Notes the reason for the end. An end that makes the reply incomplete stays.
    fn note_reason(&mut self, reason: &Value) {
        let number = reason.as_u64().and_then(|number| usize::try_from(number).ok()?.checked_sub(1));
        let reason = match number {
            Some(number) => REASONS.get(number).copied().unwrap_or("OTHER"),
            None => reason.as_str().unwrap_or("STOP"),
        };
        if self.reason.as_deref().is_none_or(|before| before.eq_ignore_ascii_case("STOP")) {
            self.reason = Some(reason.to_owned());
        }
    }

    fn translate_call(&mut self, call: &mut Map<String, Value>) {
        if call.get("args").is_none_or(Value::is_null) {
            let arguments = ARGUMENTS.iter().find_map(|field| call.remove(*field).filter(|value| !value.is_null()));
            call.insert("args".to_owned(), arguments.unwrap_or_else(|| json!({})));
        }
        // The library sends an id of this form back to no provider.
        let name = text_of(call, "name");
        let id = self.ids.assign(text_of(call, "id"), |number| format!("call#{name}#{number}"));
        call.insert("id".to_owned(), Value::String(id));
    }
}

/// Returns the parts of a content that is no object: a text, or a list of contents or parts.
fn content_parts(content: Value) -> Vec<Value> {
    let Value::Array(items) = content else {
        return if is_significant(&content) { vec![content] } else { Vec::new() };
    };
    let parts = items.into_iter().map(|mut item| match item.get_mut("parts").map(Value::take) {
        Some(Value::Array(parts)) => parts,
        Some(part) => vec![part],
        None => vec![item],
    });
    parts.flatten().collect()
}

fn translate_part(part: &mut Value) {
    match part {
        Value::String(_) => *part = json!({"text": part.take()}),
        Value::Object(part) => to_camel_case(part),
        _ => {}
    }
}

/// Moves the calls of further candidates to the first one, which the library reads. No more than one is asked for, so that they
/// are parts of the same reply. Texts of others are the same answer in other words.
fn join_candidates(candidates: Vec<Value>) -> Value {
    let mut candidates = candidates.into_iter();
    let Some(mut first) = candidates.next() else { return json!([]) };
    let is_call = |part: &Value| part.get("functionCall").is_some();
    let parts = candidates.filter_map(|mut candidate| match candidate.pointer_mut("/content/parts")?.take() {
        Value::Array(parts) => Some(parts),
        _ => None,
    });
    let calls: Vec<Value> = parts.flatten().filter(is_call).collect();
    if let Some(Value::Array(parts)) = first.pointer_mut("/content/parts") {
        parts.extend(calls);
    }
    json!([first])
}

fn to_camel_case(object: &mut Map<String, Value>) {
    for (snake, camel) in SNAKE_CASE {
        if let Some(value) = object.remove(snake) {
            object.entry(camel).or_insert(value);
        }
    }
}

/// Adds the candidates that the library requires to an event without any. A prompt that was blocked has one that ends at once.
fn add_candidates(event: &mut Map<String, Value>, notes: &mut ReplyNotes) {
    if event.get("candidates").is_some_and(is_significant) {
        return;
    }
    let feedback = event.get_mut("promptFeedback").and_then(Value::as_object_mut);
    let reason = feedback.and_then(|feedback| {
        to_camel_case(feedback);
        feedback.get("blockReason")?.as_str()
    });
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

fn is_thought(part: &Value) -> bool {
    part.get("thought") == Some(&Value::Bool(true)) && part.get("text").is_some()
}
