//! JSON Schemas for people: one line for each property.
//!
//! Schemas come from guests, can go in circles and can be large. What is shown is bounded; `--json` has all of it.

use std::borrow::Cow;

use fumehood::sanitize::printable;
use serde_json::Value;

use super::paragraph::one_line;

/// Nested deeper than this is left to `--json`.
const DEPTH: usize = 4;
/// So is what comes after this many lines,
const MOST_LINES: usize = 200;
/// or after this many alternatives,
const MOST_BRANCHES: usize = 16;
/// or after this many characters of one type.
const MOST_CHARACTERS: usize = 300;

/// Lines for the properties of an object schema; a single line for any other schema.
pub(crate) fn lines(schema: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    let resolved = resolve(schema, schema);
    if properties(resolved).is_none() {
        lines.push(kind(resolved, schema, DEPTH));
    }
    object(&mut lines, resolved, schema, 0);
    if lines.len() > MOST_LINES {
        lines.truncate(MOST_LINES);
        lines.push("… and more, which `--json` shows".to_owned());
    }
    lines
}

fn object(lines: &mut Vec<String>, schema: &Value, root: &Value, depth: usize) {
    for (name, property, is_required) in in_order(schema) {
        if lines.len() > MOST_LINES {
            return;
        }
        let resolved = resolve(property, root);
        let needed = if is_required { "" } else { ", optional" };
        let default =
            property.get("default").map_or_else(String::new, |default| format!(", default {}", value(default)));
        let mut line =
            format!("{}{}: {}{needed}{default}", "  ".repeat(depth), one_line(name), kind(resolved, root, DEPTH));
        if let Some(description) = text(property, "description").or_else(|| text(resolved, "description")) {
            line.push_str(" — ");
            line.push_str(&one_line(description));
        }
        lines.push(line);
        if depth < DEPTH {
            let nested = resolved.get("items").map_or(resolved, |items| resolve(items, root));
            object(lines, nested, root, depth + 1);
        }
    }
}

/// The properties of an object: first those that are required, in the order in which they are.
fn in_order(schema: &Value) -> Vec<(&str, &Value, bool)> {
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

/// The type in words: `integer from 1 to 10`, `list of string`, `"a" or "b"`.
fn kind(schema: &Value, root: &Value, depth: usize) -> String {
    let text = if depth == 0 { "…".into() } else { words(resolve(schema, root), root, depth - 1) };
    match text.char_indices().nth(MOST_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.into_owned(),
    }
}

fn words<'a>(schema: &Value, root: &Value, depth: usize) -> Cow<'a, str> {
    if let Some(only) = schema.get("const") {
        return value(only).into();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return alternatives(values.iter().map(value)).into();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(branches) = schema.get(key).and_then(Value::as_array) {
            return alternatives(branches.iter().map(|branch| inline(branch, root, depth))).into();
        }
    }
    let names: Vec<&str> = match schema.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ if properties(schema).is_some() => vec!["object"],
        _ => return "anything".into(),
    };
    alternatives(names.into_iter().map(|name| of_type(name, schema, root, depth))).into()
}

fn of_type(name: &str, schema: &Value, root: &Value, depth: usize) -> String {
    match name {
        "array" => {
            let items = schema.get("items").map_or_else(|| "anything".to_owned(), |items| kind(items, root, depth));
            let length = range(schema, "minItems", "maxItems");
            let length = length.map_or_else(String::new, |length| format!("({length}) "));
            format!("list {length}of {items}")
        }
        "object" if properties(schema).is_none() => match schema.get("additionalProperties") {
            Some(Value::Bool(false)) => "empty object".to_owned(),
            Some(values @ Value::Object(_)) => format!("object with any names for {}", kind(values, root, depth)),
            _ => "object with any properties".to_owned(),
        },
        // Of any size that a machine has.
        "integer"
            if schema.get("minimum") == Some(&i64::MIN.into()) && schema.get("maximum") == Some(&i64::MAX.into()) =>
        {
            name.to_owned()
        }
        "integer" | "number" => match range(schema, "minimum", "maximum") {
            Some(range) => format!("{name} {range}"),
            None => name.to_owned(),
        },
        "string" => {
            let length = range(schema, "minLength", "maxLength");
            let length = length.map_or_else(String::new, |length| format!(" of {length} characters"));
            let pattern = text(schema, "pattern").map_or("", |pattern| match is_of_digits(pattern) {
                true => " of digits",
                false => " of a certain form",
            });
            format!("string{}{pattern}", length.replace("of from", "of"))
        }
        other => one_line(other),
    }
}

/// Whether a pattern matches nothing but whole numbers in decimal.
fn is_of_digits(pattern: &str) -> bool {
    let is_whole = pattern.starts_with('^') && pattern.ends_with('$');
    is_whole && pattern.contains("[0-9]") && pattern.chars().all(|c| c.is_ascii_digit() || "^$()|?+-[]{},".contains(c))
}

/// A type within a line: an object there has no lines of its own.
fn inline(schema: &Value, root: &Value, depth: usize) -> String {
    let schema = resolve(schema, root);
    if depth == 0 || properties(schema).is_none() || schema.get("oneOf").or(schema.get("anyOf")).is_some() {
        return kind(schema, root, depth);
    }
    let parts: Vec<String> = in_order(schema)
        .into_iter()
        .take(MOST_BRANCHES)
        .map(|(name, property, is_required)| {
            let mark = if is_required { "" } else { "?" };
            format!("{}{mark}: {}", one_line(name), kind(property, root, depth))
        })
        .collect();
    format!("{{{}}}", parts.join(", "))
}

/// Each once, with `or` in between.
fn alternatives(all: impl Iterator<Item = String>) -> String {
    let mut different: Vec<String> = Vec::new();
    for (count, one) in all.enumerate() {
        if count == MOST_BRANCHES {
            different.push("…".to_owned());
            break;
        }
        if !different.contains(&one) {
            different.push(one);
        }
    }
    different.join(" or ")
}

fn range(schema: &Value, low: &str, high: &str) -> Option<String> {
    match (schema.get(low).map(value), schema.get(high).map(value)) {
        (Some(low), Some(high)) if low == high => Some(format!("exactly {low}")),
        (Some(low), Some(high)) => Some(format!("from {low} to {high}")),
        (Some(low), None) => Some(format!("at least {low}")),
        (None, Some(high)) => Some(format!("at most {high}")),
        (None, None) => None,
    }
}

/// A JSON value as it is written, if it is not too long for that.
fn value(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(MOST_CHARACTERS).collect();
    let end = if short.len() < text.len() { "…" } else { "" };
    format!("{}{end}", printable(&short))
}

fn properties(schema: &Value) -> Option<&serde_json::Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Follows `$ref` within the document, and no further than a document can go in circles.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let mut schema = schema;
    for _ in 0..8 {
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
    fn a_schema_becomes_a_line_for_each_property() {
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
            lines(&schema),
            [
                "word: string of 1 to 9 characters or null",
                "from: integer from 1 to 10 — Where to begin.",
                "mode: \"a\" or \"b\", optional, default \"a\"",
                "points: list (at most 3) of object, optional",
                "  x: number or null",
            ]
        );
        let code = json!({"type": "string", "pattern": "^[a-z]+[0-9]$"});
        assert_eq!(lines(&code), ["string of a certain form"]);
        assert_eq!(lines(&json!({"type": "string"})), ["string"]);
        assert_eq!(lines(&json!({"type": "object"})), ["object with any properties"]);
    }

    #[test]
    fn alternatives_are_told_apart() {
        let case = |tag: &str| json!({"type": "object", "properties": {"tag": {"const": tag}}, "required": ["tag"]});
        assert_eq!(lines(&json!({"oneOf": [case("a"), case("b")]})), [r#"{tag: "a"} or {tag: "b"}"#]);
        let string = json!({"type": "string", "pattern": "^[0-9]+$"});
        assert_eq!(lines(&json!({"anyOf": [{"type": "integer"}, string, string]})), ["integer or string of digits"]);
    }

    #[test]
    fn a_schema_that_goes_in_circles_ends() {
        assert_eq!(lines(&json!({"$ref": "#"})), ["anything"]);
        assert!(lines(&json!({"properties": {"next": {"$ref": "#"}}})).len() <= DEPTH + 1);
        assert_eq!(lines(&json!({"type": "array", "items": {"$ref": "#"}})), ["list of list of list of list of …"]);
        let wide: serde_json::Map<String, Value> = (0..1000).map(|n| (n.to_string(), json!({"$ref": "#"}))).collect();
        assert_eq!(lines(&json!({"properties": wide})).len(), MOST_LINES + 1);
        let branches: Vec<Value> = (0..100).map(|_| json!({"$ref": "#"})).collect();
        assert!(lines(&json!({"anyOf": branches}))[0].len() <= MOST_CHARACTERS + 4);
    }
}
