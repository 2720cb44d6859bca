//! Tools in a few words, as the result of a search lists them.

use fumehood_core::chat::ToolSpec;
use fumehood_core::text::sanitize::truncate_str;
use serde::Serialize;
use serde_json::Value;

/// Maximum length of the summary of a tool, in bytes.
const MAX_SUMMARY_BYTES: usize = 200;
/// Maximum length of its list of parameters, in bytes.
const MAX_PARAMETERS_BYTES: usize = 400;
/// Maximum number of allowed values of a parameter that are listed.
const MAX_CHOICES: usize = 6;
/// Maximum depth of types of items.
const MAX_DEPTH: usize = 3;

/// A tool in a few words.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct ToolSummary {
    name: String,
    summary: String,
    parameters: String,
}

impl ToolSummary {
    /// Summarizes a tool whose texts are sanitized.
    pub(super) fn new(spec: &ToolSpec) -> Self {
        let summary = shorten(first_sentence(&spec.description), MAX_SUMMARY_BYTES);
        let parameters = shorten(&list_parameters(&spec.parameters), MAX_PARAMETERS_BYTES);
        Self { name: spec.name.clone(), summary, parameters }
    }
}

/// Returns the text up to the end of its first sentence or line.
fn first_sentence(text: &str) -> &str {
    let line = text.trim().lines().next().unwrap_or_default().trim();
    // What goes on in lower case is an abbreviation.
    let is_end = |end: &usize| line.get(end + 2..).is_some_and(|rest| !rest.starts_with(char::is_lowercase));
    let end = line.match_indices(". ").map(|(end, _)| end).find(is_end);
    end.and_then(|end| line.get(..=end)).unwrap_or(line)
}

fn shorten(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    format!("{}…", truncate_str(text, max_bytes.saturating_sub('…'.len_utf8())))
}

/// Lists the parameters with their types, such as `path: string, lines?: integer`. Optional ones have a question mark.
fn list_parameters(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let (needed, optional): (Vec<_>, Vec<_>) =
        properties.partition(|(name, _)| required.iter().any(|known| known.as_str() == Some(name)));
    let needed = needed.into_iter().map(|(name, schema)| format!("{name}: {}", describe_type(schema, 0)));
    let optional = optional.into_iter().map(|(name, schema)| format!("{name}?: {}", describe_type(schema, 0)));
    needed.chain(optional).collect::<Vec<_>>().join(", ")
}

fn describe_type(schema: &Value, depth: usize) -> String {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        let mut listed: Vec<String> = choices.iter().take(MAX_CHOICES).map(Value::to_string).collect();
        listed.extend((choices.len() > MAX_CHOICES).then(|| "…".to_owned()));
        return listed.join("|");
    }
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "array" && depth < MAX_DEPTH => {
            let items = schema.get("items").map_or_else(|| "any".to_owned(), |items| describe_type(items, depth + 1));
            format!("{items}[]")
        }
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|"),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summarize(description: &str, parameters: Value) -> ToolSummary {
        ToolSummary::new(&ToolSpec {
            name: "t".to_owned(),
            alias: None,
            description: description.to_owned(),
            parameters,
        })
    }

    #[test]
    fn summarizes_a_tool_in_one_line() {
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "tail": {"type": "integer"},
            "path": {"type": "string", "description": "A path."},
            "mode": {"enum": ["text", "bytes"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "limit": {"type": ["integer", "null"]},
            "else": {"$ref": "#/$defs/x"},
        }});
        let summary = summarize(" Reads a file, e.g. a log. Then more.\nAnd more.", schema);
        assert_eq!(summary.summary, "Reads a file, e.g. a log.");
        let expected =
            r#"path: string, tail?: integer, mode?: "text"|"bytes", tags?: string[], limit?: integer|null, else?: any"#;
        assert_eq!(summary.parameters, expected);
    }

    #[test]
    fn long_texts_are_shortened() {
        let properties: serde_json::Map<_, _> =
            (0..200).map(|n| (format!("parameter_{n}"), json!({"type": "string"}))).collect();
        let summary = summarize(&"ä".repeat(500), json!({"type": "object", "properties": properties}));
        assert!(summary.summary.len() <= MAX_SUMMARY_BYTES && summary.summary.ends_with('…'));
        assert!(summary.parameters.len() <= MAX_PARAMETERS_BYTES && summary.parameters.ends_with('…'));
    }

    #[test]
    fn odd_schemas_have_no_parameters() {
        for schema in [json!(true), json!({}), json!({"properties": 3}), json!({"properties": {}, "required": "x"})] {
            assert_eq!(summarize("", schema).parameters, "");
        }
    }
}
