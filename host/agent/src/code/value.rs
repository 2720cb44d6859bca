//! Results of calls as values of a program, and values of a program in what a model gets.

use std::borrow::Cow;

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use serde_json::value::RawValue;

/// Converts the parts of a result to JSON text: a JSON value and a text as they are, `null` for nothing, and otherwise
/// the parts with their types. Nothing is sanitized, because only the program reads it.
///
/// # Errors
/// With the kind `bad_result`, if a part cannot be represented.
pub(super) fn to_json(parts: &[Content]) -> Result<String, CallError> {
    let bad = |error: serde_json::Error| {
        CallError::new(ErrorKind::BadResult, format!("the result cannot be represented as JSON: {error}"))
    };
    match parts {
        [] => Ok("null".to_owned()),
        [Content::Json { value }] => Ok(value.expose_raw().to_owned()),
        [Content::Text { text }] => serde_json::to_string(text.expose_raw()).map_err(bad),
        [part] => serde_json::to_string(part).map_err(bad),
        parts => serde_json::to_string(parts).map_err(bad),
    }
}

/// Returns the JSON value that a program returned, to be embedded in a larger one.
pub(super) fn embed(value: &Content) -> Option<Box<RawValue>> {
    let text: Cow<'_, str> = match value {
        Content::Json { value } => value.expose_raw().into(),
        other => serde_json::to_string(other).ok()?.into(),
    };
    RawValue::from_string(text.into_owned()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_become_values_of_the_program() {
        fn check(parts: &[Content], expected: &str) {
            assert_eq!(to_json(parts).unwrap(), expected);
        }

        check(&[], "null");
        check(&[Content::json(r#"{"a":1}"#.to_owned()).unwrap()], r#"{"a":1}"#);
        check(&[Content::text("a\"b")], r#""a\"b""#);
        let parts = [Content::text("a"), Content::json("1".to_owned()).unwrap()];
        check(&parts, r#"[{"type":"text","text":"a"},{"type":"json","value":1}]"#);
    }
}
