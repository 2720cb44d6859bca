//! JSON Schemas for people: one line for each property.
//!
//! Schemas come from guests, can be recursive and can be large. The description is bounded; `--json` has the whole
//! schema.

use std::borrow::Cow;

use fumehood::sanitize::printable;
use serde_json::Value;

use super::quotation::one_line;

/// Maximum depth of nested objects that are described.
const MAX_DEPTH: usize = 4;
/// Maximum number of lines for a schema.
const MAX_LINES: usize = 200;
/// Maximum number of alternatives of a type.
const MAX_BRANCHES: usize = 16;
/// Maximum length of the description of one type, in characters.
const MAX_TYPE_CHARS: usize = 300;
/// Maximum number of references that are followed to one schema.
const MAX_REFERENCES: usize = 8;

/// Describes a schema: a line for each property of an object; a single line for any other schema.
pub(crate) fn describe_schema(schema: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let resolved = resolve(schema, schema);
    if properties(resolved).is_none() {
        lines.push(describe_type(resolved, schema, MAX_DEPTH));
    }
    describe_properties(&mut lines, resolved, schema, 0);
    if lines.len() > MAX_LINES {
        lines.truncate(MAX_LINES);
        lines.push("… and more; `--json` shows everything".to_owned());
    }
    lines
}

/// Returns the names of the properties of an object; those that may be left out end with `?`.
pub(crate) fn argument_names(schema: &Value) -> Vec<String> {
    let properties = ordered_properties(resolve(schema, schema));
    properties.iter().map(|(name, _, is_required)| format!("{name}{}", if *is_required { "" } else { "?" })).collect()
}

/// Appends a line for each property, and for those of nested objects.
fn describe_properties(lines: &mut Vec<String>, schema: &Value, root: &Value, depth: usize) {
    for (name, property, is_required) in ordered_properties(schema) {
        if lines.len() > MAX_LINES {
            return;
        }
        let resolved = resolve(property, root);
        let needed = if is_required { "" } else { ", optional" };
        let default =
            property.get("default").map_or_else(String::new, |default| format!(", default {}", format_value(default)));
        let mut line = format!(
            "{}{}: {}{needed}{default}",
            "  ".repeat(depth),
            one_line(name),
            describe_type(resolved, root, MAX_DEPTH)
        );
        if let Some(description) = text(property, "description").or_else(|| text(resolved, "description")) {
            line.push_str(" — ");
            line.push_str(&one_line(description));
        }
        lines.push(line);
        if depth < MAX_DEPTH {
            let nested = resolved.get("items").map_or(resolved, |items| resolve(items, root));
            describe_properties(lines, nested, root, depth + 1);
        }
    }
}

/// Returns the properties of an object: first the required ones in the order of `required`, then the others.
fn ordered_properties(schema: &Value) -> Vec<(&str, &Value, bool)> {
    let Some(properties) = properties(schema) else { return Vec::new() };
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let first = required.iter().filter_map(|name| Some((*name, properties.get(*name)?, true)));
    let others = properties
        .iter()
        .filter(|(name, _)| !required.contains(&name.as_str()))
        .map(|(name, property)| (name.as_str(), property, false));
    first.chain(others).collect()
}

/// Describes a type: `integer (1 to 10)`, `list of string`, `"a" or "b"`.
fn describe_type(schema: &Value, root: &Value, depth: usize) -> String {
    let text = if depth == 0 { "…".into() } else { describe_resolved(resolve(schema, root), root, depth - 1) };
    match text.char_indices().nth(MAX_TYPE_CHARS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}

fn describe_resolved<'a>(schema: &Value, root: &Value, depth: usize) -> Cow<'a, str> {
    if let Some(only) = schema.get("const") {
        return format_value(only).into();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return join_alternatives(values.iter().map(format_value)).into();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(key).and_then(Value::as_array) {
            return join_alternatives(branches.iter().map(|branch| describe_inline(branch, root, depth))).into();
        }
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ if properties(schema).is_some() => vec!["object"],
        _ => return "anything".into(),
    };
    join_alternatives(names.into_iter().map(|name| describe_named_type(name, schema, root, depth))).into()
}

fn describe_named_type(name: &str, schema: &Value, root: &Value, depth: usize) -> String {
    match name {
        "array" => {
            let items =
                schema.get("items").map_or_else(|| "anything".to_owned(), |items| describe_type(items, root, depth));
            let length = describe_range(schema, "minItems", "maxItems");
            let length = length.map_or_else(String::new, |length| format!("({length}) "));
            format!("list {length}of {items}")
        }
        "object" if properties(schema).is_none() => match schema.get("additionalProperties") {
            Some(Value::Bool(false)) => "empty object".to_owned(),
            Some(values @ Value::Object(_)) => {
                format!("object with any keys for {}", describe_type(values, root, depth))
            }
            _ => "object with any properties".to_owned(),
        },
        "integer" | "number" => match describe_range(schema, "minimum", "maximum") {
            Some(range) => format!("{name} ({range})"),
            None => name.to_owned(),
        },
        "string" => {
            let length = describe_range(schema, "minLength", "maxLength");
            let length = length.map_or_else(String::new, |length| format!(" ({length} characters)"));
            let pattern = text(schema, "pattern")
                .map_or("", |pattern| if is_digits_pattern(pattern) { " of digits" } else { " with a pattern" });
            format!("string{pattern}{length}")
        }
        other => one_line(other),
    }
}

/// Returns whether a pattern matches nothing but whole numbers in decimal.
fn is_digits_pattern(pattern: &str) -> bool {
    let is_whole = pattern.starts_with('^') && pattern.ends_with('$');
    is_whole && pattern.contains("[0-9]") && pattern.chars().all(|c| c.is_ascii_digit() || "^$()|?+-[]{},".contains(c))
}

/// Describes a type within a line, an object with its properties in braces.
fn describe_inline(schema: &Value, root: &Value, depth: usize) -> String {
    let schema = resolve(schema, root);
    if depth == 0 || properties(schema).is_none() || schema.get("oneOf").or(schema.get("anyOf")).is_some() {
        return describe_type(schema, root, depth);
    }
    let parts: Vec<String> = ordered_properties(schema)
        .into_iter()
        .take(MAX_BRANCHES)
        .map(|(name, property, is_required)| {
            let mark = if is_required { "" } else { "?" };
            format!("{}{mark}: {}", one_line(name), describe_type(property, root, depth))
        })
        .collect();
    format!("{{{}}}", parts.join(", "))
}

/// Joins the distinct descriptions with `or`.
fn join_alternatives(all: impl Iterator<Item = String>) -> String {
    let mut different: Vec<String> = Vec::new();
    for (count, one) in all.enumerate() {
        if count == MAX_BRANCHES {
            different.push("…".to_owned());
            break;
        }
        if !different.contains(&one) {
            different.push(one);
        }
    }
    different.join(" or ")
}

/// Describes the bounds that a schema has; those of a 64-bit integer bound nothing a person wants to read.
fn describe_range(schema: &Value, low: &str, high: &str) -> Option<String> {
    let low = schema.get(low).filter(|low| low.as_i64() != Some(i64::MIN));
    let high =
        schema.get(high).filter(|high| ![Some(i64::MAX.unsigned_abs()), Some(u64::MAX)].contains(&high.as_u64()));
    match (low.map(format_value), high.map(format_value)) {
        (Some(low), Some(high)) if low == high => Some(format!("exactly {low}")),
        (Some(low), Some(high)) => Some(format!("{low} to {high}")),
        (Some(low), None) => Some(format!("at least {low}")),
        (None, Some(high)) => Some(format!("at most {high}")),
        (None, None) => None,
    }
}

/// Formats a JSON value, truncated to [`MAX_TYPE_CHARS`].
fn format_value(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(MAX_TYPE_CHARS).collect();
    let end = if short.len() < text.len() { "…" } else { "" };
    format!("{}{end}", printable(&short))
}

fn properties(schema: &Value) -> Option<&serde_json::Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Follows `$ref` within the document (JSON Schema 2020-12, section 8.2.3.1), at most [`MAX_REFERENCES`] times.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..MAX_REFERENCES {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn describes_each_property_in_a_line() {
        let schema = json!({
            "type": "object",
            "properties": {
                "from": {"type": "integer", "minimum": 1, "maximum": 10, "description": "Where to\nbegin."},
                "mode": {"enum": ["a", "b"], "default": "a"},
                "points": {"type": "array", "maxItems": 3, "items": {"$ref": "#/$defs/point"}},
                "word": {"type": ["string", "null"], "minLength": 1, "maxLength": 9},
            },
            "required": ["word", "from"],
            "$defs": {"point": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}, "required": ["x"]}},
        });
        assert_eq!(
            describe_schema(&schema),
            [
                "word: string (1 to 9 characters) or null",
                "from: integer (1 to 10) — Where to begin.",
                "mode: \"a\" or \"b\", optional, default \"a\"",
                "points: list (at most 3) of object, optional",
                "  x: number or null",
            ]
        );
        let code = json!({"type": "string", "pattern": "^[a-z]+[0-9]$"});
        assert_eq!(describe_schema(&code), ["string with a pattern"]);
        let unsigned = json!({"type": "integer", "minimum": 0, "maximum": u64::MAX});
        assert_eq!(describe_schema(&unsigned), ["integer (at least 0)"]);
        assert_eq!(describe_schema(&json!({"type": "string"})), ["string"]);
        assert_eq!(describe_schema(&json!({"type": "object"})), ["object with any properties"]);
    }

    fn tagged(tag: &str) -> Value {
        json!({"type": "object", "properties": {"tag": {"const": tag}}, "required": ["tag"]})
    }

    #[test]
    fn describes_distinct_alternatives() {
        assert_eq!(describe_schema(&json!({"oneOf": [tagged("a"), tagged("b")]})), [r#"{tag: "a"} or {tag: "b"}"#]);
        let string = json!({"type": "string", "pattern": "^[0-9]+$"});
        assert_eq!(
            describe_schema(&json!({"anyOf": [{"type": "integer"}, string, string]})),
            ["integer or string of digits"]
        );
    }

    #[test]
    fn bounds_recursive_schemas() {
        assert_eq!(describe_schema(&json!({"$ref": "#"})), ["anything"]);
        assert!(describe_schema(&json!({"properties": {"next": {"$ref": "#"}}})).len() <= MAX_DEPTH + 1);
        assert_eq!(
            describe_schema(&json!({"type": "array", "items": {"$ref": "#"}})),
            ["list of list of list of list of …"]
        );
        let wide: serde_json::Map<String, Value> = (0..1000).map(|n| (n.to_string(), json!({"$ref": "#"}))).collect();
        assert_eq!(describe_schema(&json!({"properties": wide})).len(), MAX_LINES + 1);
        let branches: Vec<Value> = (0..100).map(|_| json!({"$ref": "#"})).collect();
        assert!(describe_schema(&json!({"anyOf": branches}))[0].len() <= MAX_TYPE_CHARS + 4);
    }
}
