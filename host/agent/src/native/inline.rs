//! Calls in the text of a reply: those that a model writes there instead of making them, as `{"name": …, "arguments": {…}}` or
//! with `tool` for `name`, and arguments that a provider repeats beside the calls.

use fumehood_core::chat::{StopReason, ToolIntent};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::recover::{Closing, after_thoughts, recover};

/// A call in the text of a model: with `tool` as in older prompts, or `name` and `arguments` or `parameters` as in chat templates.
#[derive(Deserialize)]
struct Written {
    #[serde(alias = "name")]
    tool: Value,
    #[serde(default, alias = "parameters")]
    arguments: Option<Box<RawValue>>,
}

impl Written {
    /// Returns the call, unless its name is no string or its arguments are no object.
    fn to_intent(&self) -> Option<ToolIntent> {
        let name = self.tool.as_str()?.to_owned();
        let arguments = self.arguments.as_ref().map_or_else(|| "{}".to_owned(), |arguments| arguments.get().to_owned());
        arguments.starts_with('{').then_some(ToolIntent { id: String::new(), name, arguments })
    }
}

/// Finds the first call in a text, whatever surrounds it.
///
/// Fences and prose around the object are skipped, and brackets that are missing at its end are added if `closing` allows it. An
/// object is no call if its `tool` is not a string, a key is duplicated, or its arguments are not an object. Without arguments,
/// it is a call with empty ones.
#[must_use]
pub fn inline_call(text: &str, closing: Closing) -> Option<ToolIntent> {
    let found = recover(after_thoughts(text), closing).ok()?;
    // Serde would read an array of two as the two fields.
    if !found.json.expose_raw().starts_with('{') {
        return None;
    }
    found.json.read::<Written>().ok()?.to_intent()
}

/// Parses a text that consists of calls alone: JSON objects or arrays of them, each with a name and arguments, in code fences or
/// `<tool_call>` tags or bare. Models write such texts if the server has no parser for their chat template.
///
/// Returns no calls if there is anything else in the text, so that an answer with a quoted call stays an answer, and none for a
/// reply that was cut off.
#[must_use]
pub(super) fn written_calls(text: &str, stop: StopReason) -> Vec<ToolIntent> {
    let text = after_thoughts(text);
    if stop != StopReason::Done || !text.contains('{') {
        return Vec::new();
    }
    // A fence is never inside a JSON string, because such a string has no raw line break (RFC 8259, section 7).
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("```"));
    let json: String = lines.flat_map(|line| [untagged(line), "\n"]).collect();
    let values = serde_json::Deserializer::from_str(&json).into_iter::<OneOrMore>();
    let calls = values.map(|value| value.ok()?.to_intents()).collect::<Option<Vec<_>>>();
    calls.unwrap_or_default().into_iter().flatten().collect()
}

/// Removes the tags that some chat templates put around a call from a line.
fn untagged(line: &str) -> &str {
    let line = line.strip_prefix("<tool_call>").unwrap_or(line);
    line.strip_suffix("</tool_call>").unwrap_or(line)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct OneOrMore(Box<RawValue>);

impl OneOrMore {
    fn to_intents(&self) -> Option<Vec<ToolIntent>> {
        let json = self.0.get();
        let written: Vec<Written> = match json.as_bytes().first() {
            Some(b'[') => serde_json::from_str(json).ok()?,
            Some(b'{') => vec![serde_json::from_str(json).ok()?],
            _ => return None,
        };
        // Without arguments, it may be any object with a name.
        written.iter().map(|call| call.to_intent().filter(|_| call.arguments.is_some())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: Option<(&str, &str)>) {
        let found = inline_call(text, Closing::Allowed);
        let found = found.as_ref().map(|call| (call.name.as_str(), call.arguments.as_str()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn k25_inline_calls_are_found_in_text() {
        check(r#"{"tool": "add", "arguments": {"a": 1, "b": 2}}"#, Some(("add", r#"{"a": 1, "b": 2}"#)));
        check("Let me:\n```json\n{\"tool\": \"add\", \"arguments\": {\"a\":1}}\n```", Some(("add", r#"{"a":1}"#)));
        check(r#"{"tool": "now"}"#, Some(("now", "{}")));
        check(r#"{"tool": "now", "arguments": null}"#, Some(("now", "{}")));
        check("The sum is 3.", None);
        check(r#"["add", {"a": 1}]"#, None);
    }

    #[test]
    fn k25_inline_calls_that_lack_brackets_are_recovered_where_that_is_safe() {
        check(r#"{"tool": "say", "arguments": {"text": "hi"}"#, Some(("say", r#"{"text": "hi"}"#)));
        check(r#"{"tool": "say", "arguments": {"text": "hi""#, Some(("say", r#"{"text": "hi"}"#)));
        check(r#"{"tool": "say", "arguments": {"text": "h"#, None);
        check(r#"{"tool": "add", "arguments": {"a": 1"#, None);
        check(r#"{"tool": "add", "arguments":"#, None);
        assert_eq!(inline_call(r#"{"tool": "say", "arguments": {"text": "hi"}"#, Closing::Never), None);
    }

    #[test]
    fn k25_inline_calls_of_something_else_than_a_string_are_none() {
        for text in [r#"{"tool": 42}"#, r#"{"tool": null}"#, r#"{"tool": ["a"]}"#, r#"{"arguments": {}}"#] {
            check(text, None);
        }
        check(r#"{"tool": "a", "tool": "b"}"#, None);
        check(r#"{"tool": "a", "arguments": [1]}"#, None);
        check(r#"{"tool": "a", "arguments": "{}"}"#, None);
    }

    fn written(text: &str, expected: &[(&str, &str)]) {
        let found = written_calls(text, StopReason::Done);
        let found: Vec<_> = found.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn reads_texts_that_consist_of_calls() {
        let add = ("add", r#"{"a": 1}"#);
        written(r#"{"name": "add", "arguments": {"a": 1}}"#, &[add]);
        written("```json\n{\n  \"name\": \"add\",\n  \"arguments\": {\"a\": 1}\n}\n```", &[add]);
        written(r#"<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>"#, &[add]);
        let tagged = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
        written(&format!("<think>Two.</think>{tagged}\n{tagged}"), &[add, add]);
        written(
            r#"[{"name": "add", "parameters": {"a": 1}}, {"tool": "now", "arguments": {}}]"#,
            &[add, ("now", "{}")],
        );
        written(r#"{"type": "function", "name": "add", "parameters": {"a": 1}}"#, &[add]);
    }

    #[test]
    fn leaves_texts_with_anything_else_alone() {
        let call = r#"{"name": "add", "arguments": {"a": 1}}"#;
        for text in [
            &format!("I would call {call}"),
            &format!("{call}\nThat is how."),
            &format!("{call} 42"),
            r#"{"name": "add"}"#,
            r#"{"name": "add", "arguments": "{}"}"#,
            r#"{"name": "add", "arguments": {"a": 1}"#,
            r#"{"name": "add", "tool": "sub", "arguments": {}}"#,
            r#"["add", {"a": 1}]"#,
            "{}",
            "",
        ] {
            written(text, &[]);
        }
        assert_eq!(written_calls(call, StopReason::Length), []);
    }

    const NEAR: &str = r#"\{"tool": ?["a1{\[ ]{0,6}, ?"arguments"[:{}"a ]{0,12}"#;

    proptest! {
        #[test]
        fn k25_inline_calls_survive_any_text(text in any::<String>(), near in NEAR) {
            let _ = inline_call(&text, Closing::Allowed);
            let _ = inline_call(&near, Closing::Allowed);
            let _ = written_calls(&text, StopReason::Done);
            let _ = written_calls(&near, StopReason::Done);
        }
    }
}
