//! The parser of scripts: a JSON array of replies, or one reply on each line.

use std::time::Duration;

use fumehood_core::chat::{ModelError, ModelFailure, StopReason, ToolIntent, Usage};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::reply::{ScriptedAnswer, ScriptedReply};

/// Maximum size of a script, in bytes: 4 MiB.
pub const MAX_SCRIPT_BYTES: usize = 4 << 20;

/// Maximum delay of a reply: one hour.
const MAX_DELAY: Duration = Duration::from_secs(3600);

/// Errors of reading a script.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the script {path}")]
    File {
        /// The path of the file.
        path: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The script is larger than [`MAX_SCRIPT_BYTES`].
    #[error("the script has more than {MAX_SCRIPT_BYTES} bytes, the maximum")]
    TooLong,
    /// The script is not UTF-8.
    #[error("the script is not UTF-8 text; save it as UTF-8")]
    NotText,
    /// The script is a malformed JSON array.
    #[error("the script is not JSON: {0}; expected an array of replies, or one reply per line")]
    NotJson(serde_json::Error),
    /// The script has no replies.
    #[error("the script has no replies; expected at least one, such as {{\"text\": \"hello\"}}")]
    Empty,
    /// One reply is invalid.
    #[error("invalid reply {reply} of the script (line {line}): {problem}")]
    Reply {
        /// The number of the reply, counted from 1.
        reply: usize,
        /// The line in which it begins, counted from 1.
        line: usize,
        /// The problem with the reply.
        problem: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    text: Option<String>,
    calls: Option<Vec<EntryCall>>,
    error: Option<EntryError>,
    expect: Option<Expectation>,
    #[serde(default)]
    delay_ms: u64,
    #[serde(default)]
    usage: Usage,
    #[serde(default)]
    stop: StopReason,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryCall {
    #[serde(default)]
    id: String,
    name: String,
    arguments: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryError {
    failure: ModelFailure,
    message: Option<String>,
    status: Option<u16>,
    retry_after_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Expectation {
    One(String),
    All(Vec<String>),
}

pub(crate) fn parse(text: &str) -> Result<Vec<ScriptedReply>, ScriptError> {
    if text.len() > MAX_SCRIPT_BYTES {
        return Err(ScriptError::TooLong);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let entries = if text.trim_start().starts_with('[') { split_array(text)? } else { split_lines(text) };
    if entries.is_empty() {
        return Err(ScriptError::Empty);
    }
    entries.into_iter().enumerate().map(|(index, (line, entry))| parse_reply(index + 1, line, entry)).collect()
}

/// Splits JSON Lines into replies, each with its line number.
fn split_lines(text: &str) -> Vec<(usize, &str)> {
    (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).collect()
}

/// Splits a JSON array into replies, each with the number of the line in which it begins.
fn split_array(text: &str) -> Result<Vec<(usize, &str)>, ScriptError> {
    let entries: Vec<&RawValue> = serde_json::from_str(text).map_err(ScriptError::NotJson)?;
    let mut found = Vec::with_capacity(entries.len());
    let mut line = 1;
    let mut seen = 0;
    for entry in entries {
        // The raw values borrow from the text, in its order.
        let start = (entry.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        line += text.get(seen..start).unwrap_or_default().matches('\n').count();
        seen = start;
        found.push((line, entry.get()));
    }
    Ok(found)
}

fn parse_reply(reply: usize, line: usize, text: &str) -> Result<ScriptedReply, ScriptError> {
    let wrong = |problem: String| ScriptError::Reply { reply, line, problem };
    let entry: Entry = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let delay = Duration::from_millis(entry.delay_ms);
    if delay > MAX_DELAY {
        return Err(wrong("`delay_ms` is more than an hour".to_owned()));
    }
    let answer = match (entry.text, entry.calls, entry.error) {
        (Some(text), None, None) => ScriptedAnswer::Text(text),
        (text, Some(calls), None) if !calls.is_empty() => {
            ScriptedAnswer::Calls { text: text.unwrap_or_default(), calls: calls.into_iter().map(intent).collect() }
        }
        (None, None, Some(error)) => ScriptedAnswer::Error(failure(error)),
        _ => {
            let problem = "expected `text`, non-empty `calls` with or without `text`, or only `error`";
            return Err(wrong(problem.to_owned()));
        }
    };
    let expect = match entry.expect {
        None => Vec::new(),
        Some(Expectation::One(words)) => vec![words],
        Some(Expectation::All(words)) => words,
    };
    Ok(ScriptedReply { answer, expect, delay, usage: entry.usage, stop: entry.stop, line })
}

/// Converts a call, with its arguments verbatim. A string is taken as the model's literal output, so that a script can
/// hold a malformed call.
fn intent(call: EntryCall) -> ToolIntent {
    let arguments = match call.arguments {
        None => "{}".to_owned(),
        Some(raw) => serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned()),
    };
    ToolIntent { id: call.id, name: call.name, arguments }
}

fn failure(error: EntryError) -> ModelError {
    let message = error.message.unwrap_or_else(|| "as the script specifies".to_owned());
    let retry_after = error.retry_after_ms.map(Duration::from_millis);
    ModelError { status: error.status, retry_after, ..ModelError::new(error.failure, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = parse(text).map_or_else(|error| format!("error: {error}"), |replies| format!("{replies:?}"));
        assert!(found.contains(expected), "{text}\n{found}");
    }

    #[test]
    fn parses_arrays_and_json_lines() {
        check(r#"[{"text": "a"}, {"text": "b"}]"#, r#"Text("b")"#);
        check("{\"text\": \"a\"}\n\n{\"text\": \"b\"}\n", "line: 3");
        check("\u{feff}[{\"text\": \"a\"}]", r#"Text("a")"#);
        check("[{\"text\": \"a\"},\n\n {\"text\": \"b\"}]", "line: 3");
        check(r#"{"text": "a", "expect": "8", "delay_ms": 5}"#, r#"expect: ["8"], delay: 5ms"#);
        check(r#"{"text": "a", "expect": ["8", "9"]}"#, r#"expect: ["8", "9"]"#);
        check(r#"{"text": "a", "usage": {"input": 3, "output": 4}, "stop": "length"}"#, "input: 3, output: 4");
        check(r#"{"calls": [{"name": "f"}]}"#, r#"arguments: "{}""#);
        check(r#"{"calls": [{"name": "f", "arguments": {"b": 1, "a":2}}]}"#, r#"{\"b\": 1, \"a\":2}"#);
        check(r#"{"calls": [{"name": "f", "arguments": "{\"a\": "}]}"#, r#"arguments: "{\"a\": ""#);
        check(r#"{"error": {"failure": "rate_limited", "status": 429, "retry_after_ms": 5}}"#, "Some(429)");
    }

    #[test]
    fn errors_name_the_reply_and_its_line() {
        check("", "error: the script has no replies");
        check("[]", "error: the script has no replies");
        check(
            "[{\"text\": \"a\"},\n {\"txt\": \"b\"}]",
            "error: invalid reply 2 of the script (line 2): unknown field `txt`",
        );
        check("{\"text\": \"a\"}\n{\"text\": 1}", "error: invalid reply 2 of the script (line 2): invalid type");
        check("{\"text\": \"a\"}\nhello", "error: invalid reply 2 of the script (line 2)");
        check("[{\"text\": \"a\"}", "error: the script is not JSON: EOF");
        check("{}", "expected `text`, non-empty `calls`");
        check(r#"{"calls": []}"#, "expected `text`, non-empty `calls`");
        check(r#"{"text": "a", "error": {"failure": "timeout"}}"#, "expected `text`, non-empty `calls`");
        check(r#"{"error": {"failure": "tired"}}"#, "unknown variant `tired`");
        check(r#"{"text": "a", "delay_ms": 3600001}"#, "more than an hour");
        check(&" ".repeat(MAX_SCRIPT_BYTES + 1), "error: the script has more than 4194304 bytes");
    }
}
