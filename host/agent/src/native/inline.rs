//! Calls that a model without an interface for tools writes as text: `{"tool": …, "arguments": {…}}`.

use fumehood_core::chat::ToolIntent;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::recover::{Closing, after_thoughts, recover};

#[derive(Deserialize)]
struct Inline {
    tool: Value,
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
}

/// The call that a text asks for, if it asks for one.
///
/// Fences and prose around the object are skipped, and brackets that are missing at its end are added if `closing`
/// allows it. A `tool` that is not a string, a key that stands there twice, and arguments that are not an object make
/// it no call. Without arguments it is a call with none.
#[must_use]
pub fn inline_call(text: &str, closing: Closing) -> Option<ToolIntent> {
    let found = recover(after_thoughts(text), closing).ok()?;
    // A list of two would otherwise be read as the two fields.
    if !found.json.expose_raw().starts_with('{') {
        return None;
    }
    let inline: Inline = found.json.read().ok()?;
    let name = inline.tool.as_str()?.to_owned();
    let arguments = inline.arguments.map_or_else(|| "{}".to_owned(), |arguments| arguments.get().to_owned());
    arguments.starts_with('{').then_some(ToolIntent { id: String::new(), name, arguments })
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

    const NEAR: &str = r#"\{"tool": ?["a1{\[ ]{0,6}, ?"arguments"[:{}"a ]{0,12}"#;

    proptest! {
        #[test]
        fn k25_inline_calls_survive_any_text(text in any::<String>(), near in NEAR) {
            let _ = inline_call(&text, Closing::Allowed);
            let _ = inline_call(&near, Closing::Allowed);
        }
    }
}
