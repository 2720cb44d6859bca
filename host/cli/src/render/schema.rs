//! JSON Schemas for people: one line for each property.

use fumehood::sanitize::printable;
use serde_json::Value;

/// Nested deeper than this is left to `--json`.
const DEPTH: usize = 4;

/// Lines for the properties of an object schema; a single line for any other schema.
pub(crate) fn lines(schema: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let resolved = resolve(schema, schema);
    if properties(resolved).is_none() {
        lines.push(kind(resolved, schema));
    }
    object(&mut lines, resolved, schema, 0);
    lines
}

fn object(lines: &mut Vec<String>, schema: &Value, root: &Value, depth: usize) {
    let Some(properties) = properties(schema) else { return };
    let required: Vec<_> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, property) in properties {
        let resolved = resolve(property, root);
        let needed = if required.contains(&name.as_str()) {
            ""
        } else {
            ", optional"
        };
        let default = property
            .get("default")
            .map_or_else(String::new, |default| format!(", default {default}"));
        let mut line = format!(
            "{}{}: {}{needed}{default}",
            "  ".repeat(depth),
            printable(name),
            kind(resolved, root)
        );
        if let Some(description) = text(property, "description").or_else(|| text(resolved, "description")) {
            line.push_str(" — ");
            line.push_str(&first_line(description));
        }
        lines.push(line);
        if depth < DEPTH {
            let nested = resolved.get("items").map_or(resolved, |items| resolve(items, root));
            object(lines, nested, root, depth + 1);
        }
    }
}

/// The type in words: `integer from 1 to 10`, `list of string`, `"a" or "b"`.
fn kind(schema: &Value, root: &Value) -> String {
    let schema = resolve(schema, root);
    if let Some(value) = schema.get("const") {
        return printable(&value.to_string()).into_owned();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let values: Vec<_> = values
            .iter()
            .map(|value| printable(&value.to_string()).into_owned())
            .collect();
        return values.join(" or ");
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(key).and_then(Value::as_array) {
            let branches: Vec<_> = branches.iter().take(8).map(|branch| kind(branch, root)).collect();
            return branches.join(" or ");
        }
    }
    let name = match schema.get("type") {
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        _ if properties(schema).is_some() => "object".to_owned(),
        _ => "anything".to_owned(),
    };
    if name == "array" {
        let items = schema
            .get("items")
            .map_or_else(|| "anything".to_owned(), |items| kind(items, root));
        return format!("list of {items}{}", bounds(schema, "minItems", "maxItems"));
    }
    let range = bounds(schema, "minimum", "maximum");
    let length = bounds(schema, "minLength", "maxLength");
    let length = if length.is_empty() {
        length
    } else {
        format!("{length} characters")
    };
    format!("{}{range}{length}", printable(&name))
}

fn bounds(schema: &Value, low: &str, high: &str) -> String {
    match (schema.get(low), schema.get(high)) {
        (Some(low), Some(high)) if low == high => format!(" of {low}"),
        (Some(low), Some(high)) => format!(" from {low} to {high}"),
        (Some(low), None) => format!(" of at least {low}"),
        (None, Some(high)) => format!(" of at most {high}"),
        (None, None) => String::new(),
    }
}

fn properties(schema: &Value) -> Option<&serde_json::Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Follows `$ref` within the document, and no further than a document can go in circles.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..8 {
        let target = schema
            .get("$ref")
            .and_then(Value::as_str)
            .and_then(|target| target.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

fn text<'a>(schema: &'a Value, key: &str) -> Option<&'a str> {
    schema.get(key)?.as_str()
}

/// The first paragraph, on one line.
pub(crate) fn first_line(text: &str) -> String {
    let paragraph = text.split("\n\n").next().unwrap_or_default();
    printable(&paragraph.split_whitespace().collect::<Vec<_>>().join(" ")).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_schema_becomes_a_line_for_each_property() {
        let schema = json!({
            "type": "object",
            "properties": {
                "from": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Where to\nbegin."},
                "mode": {"enum": ["a", "b"], "default": "a"},
                "points": {"type": "array", "items": {"$ref": "#/$defs/point"}},
            },
            "required": ["from"],
            "$defs": {"point": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]}},
        });
        assert_eq!(
            lines(&schema),
            [
                "from: integer from 1 to 10 — Where to begin.",
                "mode: \"a\" or \"b\", optional, default \"a\"",
                "points: list of object, optional",
                "  x: number or null",
            ]
        );
        assert_eq!(lines(&json!({"type": "string"})), ["string"]);
    }

    #[test]
    fn a_schema_that_goes_in_circles_ends() {
        let schema = json!({"$ref": "#"});
        assert_eq!(lines(&schema), ["anything"]);
        let tree = json!({"properties": {"next": {"$ref": "#"}}});
        assert!(lines(&tree).len() <= DEPTH + 1);
    }
}
