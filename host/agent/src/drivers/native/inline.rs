//! Calls in the text of a reply: those that a model writes as `{"name": …, "arguments": {…}}` instead of making them,
//! and arguments that a provider repeats beside the calls.

use fumehood_core::chat::{StopReason, ToolIntent};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::drivers::recover::{Closing, recover, strip_thoughts};

/// A call in a text: with `tool` as in older prompts, or `name` and `arguments` or `parameters` as in chat templates.
#[derive(Deserialize)]
struct WrittenCall {
    #[serde(alias = "name")]
    tool: Value,
    #[serde(default, alias = "parameters")]
    arguments: Option<Box<RawValue>>,
}

impl WrittenCall {
    /// Returns the call, unless its name is no string or its arguments are no object.
    fn to_intent(&self) -> Option<ToolIntent> {
        let name = self.tool.as_str()?.to_owned();
        let arguments = self.arguments.as_ref().map_or_else(|| "{}".to_owned(), |arguments| arguments.get().to_owned());
        arguments.starts_with('{').then_some(ToolIntent { id: String::new(), name, arguments })
    }
}

/// Finds the first call in a text, whatever surrounds it.
///
/// Fences and prose around the object are skipped, and brackets that are missing at its end are added if `closing`
/// allows it. An object is no call if its name is not a string, a key is duplicated, or its arguments are not an
/// object. Without arguments, it is a call with empty ones.
#[must_use]
pub(crate) fn find_inline_call(text: &str, closing: Closing) -> Option<ToolIntent> {
    let found = recover(strip_thoughts(text), closing).ok()?;
    // Serde would read an array of two as the two fields.
    if !found.json.expose_raw().starts_with('{') {
        return None;
    }
    found.json.read::<WrittenCall>().ok()?.to_intent()
}

/// Parses a text that consists of calls alone: JSON objects or arrays of them, each with a name and arguments, in code
/// fences or `<tool_call>` tags or bare. Models write such texts if the server has no parser for their chat template.
///
/// Returns no calls if there is anything else in the text, so that an answer with a quoted call stays an answer, and
/// none for a reply that was cut off.
#[must_use]
pub(super) fn parse_calls(text: &str, stop: StopReason) -> Vec<ToolIntent> {
    let text = strip_thoughts(text);
    if stop != StopReason::Done || !text.contains('{') {
        return Vec::new();
    }
    // A fence is never inside a JSON string, because such a string has no raw line break (RFC 8259, section 7).
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with("```"));
    let json: String = lines.flat_map(|line| [strip_tags(line), "\n"]).collect();
    let values = serde_json::Deserializer::from_str(&json).into_iter::<OneOrMoreCalls>();
    let calls = values.map(|value| value.ok()?.to_intents()).collect::<Option<Vec<_>>>();
    calls.unwrap_or_default().into_iter().flatten().collect()
}

/// Removes the tags that some chat templates put around a call from a line.
fn strip_tags(line: &str) -> &str {
    let line = line.strip_prefix("<tool_call>").unwrap_or(line);
    line.strip_suffix("</tool_call>").unwrap_or(line)
}

#[derive(Deserialize)]
#[serde(transparent)]
struct OneOrMoreCalls(Box<RawValue>);

impl OneOrMoreCalls {
    fn to_intents(&self) -> Option<Vec<ToolIntent>> {
        let json = self.0.get();
        let written: Vec<WrittenCall> = match json.as_bytes().first() {
            Some(b'[') => serde_json::from_str(json).ok()?,
            Some(b'{') => vec![serde_json::from_str(json).ok()?],
            _ => return None,
        };
        // Without arguments, it may be any object with a name.
        written.iter().map(|call| call.to_intent().filter(|_| call.arguments.is_some())).collect()
    }
}

/// Returns whether the first JSON object of `text` is equal to the arguments of one of the calls, in any order of the
/// keys. Some providers repeat them there.
///
/// Empty arguments match only a text that is nothing but `{}`, because a sentence may mention `{}` for other reasons.
#[must_use]
pub(super) fn is_argument_echo(text: &str, calls: &[ToolIntent]) -> bool {
    // Most texts beside calls are prose; then there is nothing to parse.
    if calls.is_empty() || !text.contains('{') {
        return false;
    }
    let Ok(found) = recover(text, Closing::Never) else {
        return false;
    };
    let Ok(value @ Value::Object(_)) = found.json.read::<Value>() else {
        return false;
    };
    let is_significant =
        value.as_object().is_some_and(|object| !object.is_empty()) || found.json.expose_raw() == text.trim();
    is_significant
        && calls.iter().any(|call| serde_json::from_str::<Value>(&call.arguments).is_ok_and(|args| args == value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: Option<(&str, &str)>) {
        let found = find_inline_call(text, Closing::Allowed);
        let found = found.as_ref().map(|call| (call.name.as_str(), call.arguments.as_str()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn inline_calls_are_found_in_text() {
        check(r#"{"tool": "add", "arguments": {"a": 1, "b": 2}}"#, Some(("add", r#"{"a": 1, "b": 2}"#)));
        check("Let me:\n```json\n{\"tool\": \"add\", \"arguments\": {\"a\":1}}\n```", Some(("add", r#"{"a":1}"#)));
        check(r#"{"tool": "now"}"#, Some(("now", "{}")));
        check(r#"{"tool": "now", "arguments": null}"#, Some(("now", "{}")));
        check("The sum is 3.", None);
        check(r#"["add", {"a": 1}]"#, None);
    }

    #[test]
    fn inline_calls_that_lack_brackets_are_recovered_where_that_is_safe() {
        check(r#"{"tool": "say", "arguments": {"text": "hi"}"#, Some(("say", r#"{"text": "hi"}"#)));
        check(r#"{"tool": "say", "arguments": {"text": "hi""#, Some(("say", r#"{"text": "hi"}"#)));
        check(r#"{"tool": "say", "arguments": {"text": "h"#, None);
        check(r#"{"tool": "add", "arguments": {"a": 1"#, None);
        check(r#"{"tool": "add", "arguments":"#, None);
        assert_eq!(find_inline_call(r#"{"tool": "say", "arguments": {"text": "hi"}"#, Closing::Never), None);
    }

    #[test]
    fn inline_calls_of_something_else_than_a_string_are_none() {
        for text in [r#"{"tool": 42}"#, r#"{"tool": null}"#, r#"{"tool": ["a"]}"#, r#"{"arguments": {}}"#] {
            check(text, None);
        }
        check(r#"{"tool": "a", "tool": "b"}"#, None);
        check(r#"{"tool": "a", "arguments": [1]}"#, None);
        check(r#"{"tool": "a", "arguments": "{}"}"#, None);
    }

    fn written(text: &str, expected: &[(&str, &str)]) {
        let found = parse_calls(text, StopReason::Done);
        let found: Vec<_> = found.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn parses_a_text_of_calls() {
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
    fn ignores_a_text_with_anything_else() {
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
        assert_eq!(parse_calls(call, StopReason::Length), []);
    }

    fn call(arguments: &str) -> ToolIntent {
        ToolIntent { id: "1".to_owned(), name: "add".to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn text_that_repeats_arguments_is_a_leak() {
        let calls = [call(r#"{"a": 3, "b": {"c": [1], "d": null}}"#), call("{}"), call("not JSON")];
        let check = |text: &str, expected: bool| assert_eq!(is_argument_echo(text, &calls), expected, "{text}");
        check(r#"{"a": 3, "b": {"c": [1], "d": null}}"#, true);
        check(r#" {"b":{"d":null,"c":[1]},"a":3} "#, true);
        check("```json\n{\"a\": 3, \"b\": {\"c\": [1], \"d\": null}}\n```", true);
        check(r#"Calling with {"a": 3, "b": {"c": [1], "d": null}}"#, true);
        check("{}", true);
        check("I fill in the {} now.", false);
        check(r#"{"a": 4, "b": {"c": [1], "d": null}}"#, false);
        check(r#"{"x": 1} {"a": 3, "b": {"c": [1], "d": null}}"#, false);
        check(r#"{"a": 3"#, false);
        check("I add them.", false);
        check("", false);
    }

    #[test]
    fn without_calls_nothing_is_a_leak() {
        assert!(!is_argument_echo(r#"{"a": 3}"#, &[]));
    }

    const NEAR: &str = r#"\{"tool": ?["a1{\[ ]{0,6}, ?"arguments"[:{}"a ]{0,12}"#;

    proptest! {
        #[test]
        fn inline_calls_survive_any_text(text in any::<String>(), near in NEAR) {
            let _ = find_inline_call(&text, Closing::Allowed);
            let _ = find_inline_call(&near, Closing::Allowed);
            let _ = parse_calls(&text, StopReason::Done);
            let _ = parse_calls(&near, StopReason::Done);
        }
    }
}
