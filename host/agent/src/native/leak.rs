//! Some providers repeat the arguments of a call as the text beside it. This tells such a text from one that says more.

use fumehood_core::chat::ToolIntent;
use serde_json::Value;

use crate::recover::{Closing, recover};

/// Returns whether the first JSON object of `text` is equal to the arguments of one of the calls, in any order of the keys. Some
/// providers repeat them there.
///
/// Empty arguments match only a text that is nothing but `{}`, because a sentence may mention `{}` for other reasons.
#[must_use]
pub(super) fn is_leak(text: &str, calls: &[ToolIntent]) -> bool {
    // Most texts beside calls are prose; then there is nothing to parse.
    if calls.is_empty() || !text.contains('{') {
        return false;
    }
    let Ok(found) = recover(text, Closing::Never) else {
        return false;
    };
    let Ok(said @ Value::Object(_)) = found.json.read::<Value>() else {
        return false;
    };
    let telling = said.as_object().is_some_and(|object| !object.is_empty()) || found.json.expose_raw() == text.trim();
    telling && calls.iter().any(|call| serde_json::from_str::<Value>(&call.arguments).is_ok_and(|args| args == said))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> ToolIntent {
        ToolIntent { id: "1".to_owned(), name: "add".to_owned(), arguments: arguments.to_owned() }
    }

    #[test]
    fn i14_text_that_repeats_arguments_is_a_leak() {
        let calls = [call(r#"{"a": 3, "b": {"c": [1], "d": null}}"#), call("{}"), call("not JSON")];
        let check = |text: &str, expected: bool| assert_eq!(is_leak(text, &calls), expected, "{text}");
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
    fn i14_without_calls_nothing_is_a_leak() {
        assert!(!is_leak(r#"{"a": 3}"#, &[]));
    }
}
