//! The contents of a complete `<execute>` or `<results>` block.

use std::borrow::Cow;

use fumehood_core::chat::ToolIntent;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::report::{ReportStatus, ToolReport, escape_tags};

/// Errors of parsing a block. Their text is for the model.
///
/// The first words are the same for every error of an `<execute>` block, so that a program can recognise them.
#[derive(Debug, thiserror::Error)]
pub(super) enum BlockError {
    #[error(
        "Error: Malformed tool call syntax. The text inside <execute> is not JSON: {0}. Write one JSON array of \
         {{\"name\": …, \"args\": {{…}}}} objects, and nothing else, between <execute> and </execute>."
    )]
    NotJson(serde_json::Error),
    #[error(
        "Error: Malformed tool call syntax. The text inside <execute> is {0}; expected a JSON array of \
         {{\"name\": …, \"args\": {{…}}}} objects, even for one call."
    )]
    NotArray(&'static str),
    #[error("Error: Malformed tool call syntax. Call {index} invalid: {fault}. No call of this batch was run.")]
    Call { index: usize, fault: String },
    #[error(
        "Error: Malformed tool call syntax. The <{tag}> block is longer than {limit} bytes. Make fewer calls at once, or \
         pass less text in their arguments."
    )]
    TooLong { tag: &'static str, limit: usize },
    #[error("Error: Malformed results. {0}. Only the system writes <results>; do not write them yourself.")]
    Results(serde_json::Error),
}

/// One element of the array of calls. Further members are ignored, because the protocol does not forbid them.
#[derive(Deserialize)]
struct RawCall<'a> {
    #[serde(borrow, default)]
    name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawReport<'a> {
    #[serde(borrow)]
    tool: Cow<'a, str>,
    status: ReportStatus,
    #[serde(borrow)]
    content: &'a RawValue,
    #[serde(default)]
    modified: Option<String>,
}

/// Parses the calls of an `<execute>` block: all of them, or none.
pub(super) fn parse_calls(text: &str) -> Result<Vec<ToolIntent>, BlockError> {
    let text = strip_fence(text);
    if !text.starts_with('[') {
        let _: &RawValue = serde_json::from_str(text).map_err(BlockError::NotJson)?;
        return Err(BlockError::NotArray(json_type(text)));
    }
    let elements: Vec<&RawValue> = serde_json::from_str(text).map_err(BlockError::NotJson)?;
    let calls = elements
        .iter()
        .enumerate()
        .map(|(index, element)| parse_call(element.get()).map_err(|fault| BlockError::Call { index, fault }));
    calls.collect()
}

/// Parses the reports of a `<results>` block.
pub(super) fn parse_results(text: &str) -> Result<Vec<ToolReport>, BlockError> {
    let raw: Vec<RawReport<'_>> = serde_json::from_str(strip_fence(text)).map_err(BlockError::Results)?;
    let report = |raw: RawReport<'_>| ToolReport {
        tool: raw.tool.into_owned(),
        status: raw.status,
        // Escaped as in a rendered block, so that a reply rebuilt from its events has the same events.
        content: escape_tags(raw.content.get()).into_owned(),
        modified: raw.modified,
    };
    Ok(raw.into_iter().map(report).collect())
}

fn parse_call(element: &str) -> Result<ToolIntent, String> {
    // The check comes first, because serde would read an array of two as the two members.
    if !element.starts_with('{') {
        return Err(format!("expected an object with \"name\" and \"args\", found {}", json_type(element)));
    }
    let raw: RawCall<'_> = serde_json::from_str(element).map_err(|error| error.to_string())?;
    let name = raw.name.ok_or("the field \"name\" is missing")?.get();
    let args = raw.args.ok_or("the field \"args\" is missing")?.get();
    if !name.starts_with('"') {
        return Err(format!("\"name\" must be a string, found {}", json_type(name)));
    }
    if !args.starts_with('{') {
        return Err(format!("\"args\" must be an object, found {}", json_type(args)));
    }
    let name = serde_json::from_str(name).map_err(|error| format!("\"name\" cannot be read: {error}"))?;
    Ok(ToolIntent { id: String::new(), name, arguments: args.to_owned() })
}

/// Removes the fence of a code block around the whole text. Weak models add one, and it has no other meaning.
fn strip_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```") else { return text };
    let inside = inside.strip_prefix("json").or_else(|| inside.strip_prefix("JSON")).unwrap_or(inside);
    inside.strip_suffix("```").unwrap_or(inside).trim()
}

/// Returns the type of a well-formed JSON text, with its article.
fn json_type(text: &str) -> &'static str {
    match text.bytes().next() {
        Some(b'{') => "an object",
        Some(b'[') => "an array",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        _ => "a number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match parse_calls(text) {
            Ok(calls) => {
                calls.iter().map(|call| format!("{}{}", call.name, call.arguments)).collect::<Vec<_>>().join(";")
            }
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{text}: {found}");
        assert!(!found.contains("Error") || found.starts_with("Error: Malformed tool call syntax. "), "{found}");
    }

    #[test]
    fn an_array_of_objects_with_name_and_args() {
        check(r#"[{"name": "a", "args": {}}]"#, "a{}");
        check(r#"[{"args": {"x": 1}, "name": "a"}, {"name": "b", "args": {}, "id": 7}]"#, r#"a{"x": 1};b{}"#);
        check(r#"[{"name": "caf\u00e9", "args": {}}]"#, "café{}");
        assert_eq!(parse_calls(" [ ] ").unwrap(), []);
    }

    #[test]
    fn what_is_not_json_is_malformed() {
        for text in ["", "read the file", r#"[{"name": "a", "args": {}]"#, "[1] [2]", "[}", "{'name': 'a'}"] {
            check(text, "is not JSON: ");
        }
    }

    #[test]
    fn each_fault_of_an_element_names_its_index() {
        check(r#"{"name": "a", "args": {}}"#, "is an object; expected a JSON array");
        check(r#""a""#, "is a string; expected a JSON array");
        check(r#"[{"name": "a", "args": {}}, "b"]"#, "Call 1 invalid: expected an object");
        check(r#"[["a", {}]]"#, "Call 0 invalid: expected an object with \"name\" and \"args\", found an array");
        check(r#"[{"args": {}}]"#, "Call 0 invalid: the field \"name\" is missing");
        check(r#"[{"name": "a"}]"#, "Call 0 invalid: the field \"args\" is missing");
        check(r#"[{"name": null, "args": {}}]"#, "Call 0 invalid: the field \"name\" is missing");
        check(r#"[{"name": 7, "args": {}}]"#, "Call 0 invalid: \"name\" must be a string, found a number");
        check(r#"[{"name": "a", "args": []}]"#, "Call 0 invalid: \"args\" must be an object, found an array");
        check(r#"[{"name": "a", "name": "b", "args": {}}]"#, "Call 0 invalid: duplicate field");
        check(r#"[{"name": "\ud800", "args": {}}]"#, "Call 0 invalid: \"name\" cannot be read");
    }

    #[test]
    fn a_fence_around_the_array_is_taken_off() {
        check("```json\n[{\"name\": \"a\", \"args\": {}}]\n```", "a{}");
        check("```\n[{\"name\": \"a\", \"args\": {}}]\n```", "a{}");
        check("Here: ```json\n[]\n```", "is not JSON");
    }

    #[test]
    fn results_are_read_in_order() {
        let found = parse_results(
            r#"[{"tool": "a", "status": "success", "content": {"n": [1]}}, {"tool": "b", "status": "failure", "content": "no"}]"#,
        )
        .unwrap();
        let rows: Vec<_> = found.iter().map(|r| (r.tool.as_str(), r.status.as_str(), r.content.as_str())).collect();
        assert_eq!(rows, [("a", "success", r#"{"n": [1]}"#), ("b", "failure", r#""no""#)]);
        assert!(parse_results("[1]").unwrap_err().to_string().starts_with("Error: Malformed results. "));
    }

    #[test]
    fn deep_nesting_is_no_danger() {
        let deep = format!(r#"[{{"name": "a", "args": {{"x": {}{}}}}}]"#, "[".repeat(100_000), "]".repeat(100_000));
        check(&deep, "a{");
    }
}
