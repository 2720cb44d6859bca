//! Results as text for a model.

use fumehood_core::call::content::Content;
use fumehood_core::call::result::CallResult;

/// Returns all that a model should read of a result: each part as text with hidden characters escaped, or the error with its hint.
/// Blobs and links are described.
#[must_use]
pub fn model_text(result: &CallResult) -> String {
    if let Some(error) = result.error() {
        return error.to_string();
    }
    let describe = |part: &Content| match part {
        Content::Text { text } => text.to_sanitized().into_owned(),
        Content::Json { value } => value.to_sanitized().into_owned(),
        Content::Blob { mime_type, data } => format!("({} bytes of {})", data.len(), mime_type.to_sanitized()),
        Content::Link { uri, .. } => format!("({})", uri.to_sanitized_uri()),
    };
    let parts: Vec<String> = result.content().iter().map(describe).collect();
    parts.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text_of(key: &str, value: serde_json::Value) -> String {
        let mut result = json!({"id": "1", "tool": "a__b", "content": [], "metadata": {}});
        result[key] = value;
        model_text(&serde_json::from_value(result).unwrap())
    }

    #[test]
    fn parts_are_lines_without_hidden_characters() {
        let content = json!([
            {"type": "text", "text": "a\u{200b}b"},
            {"type": "json", "value": {"n": 1}},
            {"type": "blob", "mime_type": "image/png", "data": "AAAA"},
            {"type": "link", "uri": "https://a.example/x"},
        ]);
        let text = text_of("content", content);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1..], [r#"{"n":1}"#, "(3 bytes of image/png)", "(https://a.example/x)"]);
        assert!(!lines[0].contains('\u{200b}') && lines[0].starts_with('a') && lines[0].ends_with('b'), "{text}");
    }

    #[test]
    fn an_error_has_its_kind_and_hint() {
        let error = json!({"kind": "trap", "message": "it crashed", "hint": "mend it"});
        assert_eq!(text_of("error", error), "trap: it crashed (mend it)");
    }
}
