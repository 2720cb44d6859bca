//! Records of the event log, each in a line.

use std::time::Duration;

use fumehood::event_log::StoredRecord;
use fumehood::record::{Record, RecordKind};
use serde_json::Value;

use super::quotation::one_line;
use super::{BAD, FAINT, GOOD, styled};
use crate::moment;

/// Maximum length of the text in a line, in characters.
const MAX_TEXT_CHARS: usize = 100;

/// Describes a record in a line, with its number, time and session.
pub(crate) fn to_line(row: &StoredRecord) -> String {
    let when = format!("{:>6}  {}  {}", row.seq, moment::format_second(row.record.at), one_line(&row.record.session));
    format!("{}  {}", styled(FAINT, &when), describe(&row.record))
}

/// Describes a record: its kind, tool, call, status and text.
pub(crate) fn describe(record: &Record) -> String {
    let mut parts = vec![format!("{:<16}", record.kind.as_str())];
    parts.extend(record.tool.as_deref().map(one_line));
    parts.extend(record.call.as_deref().map(|call| styled(FAINT, &one_line(call))));
    parts.extend(record.status.as_deref().map(style_status));
    parts.extend(summarize(record).map(|text| truncate(&text, MAX_TEXT_CHARS)).filter(|text| !text.is_empty()));
    parts.join("  ").trim_end().to_owned()
}

/// Colours a status by whether it is a success.
pub(crate) fn style_status(status: &str) -> String {
    let good = matches!(status, "ok" | "allow" | "answered" | "tool_calls" | "final_response");
    styled(if good { GOOD } else { BAD }, &one_line(status))
}

/// Joins a text to one line, and truncates it to a number of characters.
pub(crate) fn truncate(text: &str, max_chars: usize) -> String {
    let text = one_line(text);
    match text.char_indices().nth(max_chars).and_then(|(end, _)| text.get(..end)) {
        Some(start) => format!("{start} …"),
        None => text,
    }
}

/// Returns the duration in the body of a record, if it has one.
pub(crate) fn duration_of(body: &Value) -> Option<Duration> {
    let millis = body.get("duration_ms")?.as_f64().filter(|millis| millis.is_finite() && *millis >= 0.0)?;
    Duration::try_from_secs_f64(millis / 1e3).ok()
}

/// Returns the text of a record: its message, arguments, duration or outcome.
fn summarize(record: &Record) -> Option<String> {
    let body = &record.body;
    let text = |field: &str| body.get(field).and_then(Value::as_str).map(str::to_owned);
    let json = |field: &str| body.get(field).filter(|value| !value.is_null()).map(Value::to_string);
    match record.kind {
        RecordKind::UserMessage => text("text"),
        RecordKind::ToolStarted => json("arguments"),
        RecordKind::ToolFinished => duration_of(body).map(super::format_duration).or_else(|| text("message")),
        RecordKind::ToolResult => body.get("result").map(result_text),
        RecordKind::ToolRejected => {
            body.pointer("/error/message").and_then(Value::as_str).map(str::to_owned).or_else(|| text("message"))
        }
        RecordKind::Verdict => match (text("by"), text("reason").or_else(|| text("note"))) {
            (Some(by), Some(reason)) => Some(format!("{by}: {reason}")),
            (by, reason) => by.or(reason),
        },
        RecordKind::ToolPartial | RecordKind::DecisionFailed => text("message"),
        RecordKind::ModelAsked => Some(describe_request(body)),
        RecordKind::ModelAnswered => Some(describe_answer(body)),
        RecordKind::ModelFailed => {
            let took = duration_of(body).map(super::format_duration);
            Some(took.into_iter().chain(text("message")).collect::<Vec<_>>().join(", "))
        }
        RecordKind::StepFinished => body.pointer("/ending/text").and_then(Value::as_str).map(str::to_owned),
        RecordKind::SessionStarted | RecordKind::SessionFinished | RecordKind::KnowledgeUsed => None,
    }
}

/// Returns the first part of a result, or its error message.
pub(crate) fn result_text(result: &Value) -> String {
    let message = result.pointer("/error/message").and_then(Value::as_str);
    let text = || result.pointer("/content/0/text").and_then(Value::as_str);
    match message.or_else(text) {
        Some(text) => text.to_owned(),
        None => result.pointer("/content/0/value").unwrap_or(result).to_string(),
    }
}

/// Describes a request to a model: its model, messages, size and tools.
pub(crate) fn describe_request(body: &Value) -> String {
    let number = |field: &str| body.get(field).and_then(Value::as_u64);
    let messages = number("messages").map(|count| format!("{count} message{}", if count == 1 { "" } else { "s" }));
    let tools = number("tools").map(|count| format!("{count} tool{}", if count == 1 { "" } else { "s" }));
    let model = body.get("model").and_then(Value::as_str).map(str::to_owned);
    let size = number("prompt_bytes").map(fumehood::limits::display_bytes);
    let parts = [model, messages, size, tools];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Describes an answer of a model: its duration, its tokens, and its text if that was recorded.
pub(crate) fn describe_answer(body: &Value) -> String {
    let took = duration_of(body).map(super::format_duration);
    let tokens = body.get("usage").and_then(format_tokens);
    let figures = [took, tokens].into_iter().flatten().collect::<Vec<_>>().join(", ");
    match body.get("text").and_then(Value::as_str).filter(|text| !text.trim().is_empty()) {
        Some(text) => format!("{figures}: {}", text.trim()),
        None => figures,
    }
}

fn format_tokens(usage: &Value) -> Option<String> {
    let number = |field: &str| usage.get(field).and_then(Value::as_u64).unwrap_or_default();
    match (number("input"), number("output")) {
        (0, 0) => None,
        (input, output) => Some(format!("{input} tokens in, {output} out")),
    }
}
