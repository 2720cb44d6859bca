//! Descriptions of values and schemas, for messages that a language model can act on.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;

use serde_json::Value;

use crate::text::sanitize::{is_hidden, printable_json};

use super::graph::{NodeId, SchemaGraph};
use super::keywords::Role;

/// Maximum size of a value repeated in a message, in bytes.
const MAX_VALUE_BYTES: usize = 80;

/// Maximum size of a list of choices, in bytes.
const MAX_LIST_BYTES: usize = 400;

/// Maximum number of references followed to describe a schema.
const MAX_HOPS: usize = 4;

/// The description of an empty `enum`.
pub(super) const NO_CHOICE: &str = "no value at all (the schema has an empty `enum`)";

/// Maximum size of a name that suggestions are made for, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Truncates `text` to at most `limit` bytes, between characters, with `…` at the end.
pub(super) fn truncate(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let room = limit.saturating_sub('…'.len_utf8());
    let mut end = 0;
    for (start, character) in text.char_indices() {
        if start + character.len_utf8() > room {
            break;
        }
        end = start + character.len_utf8();
    }
    let mut short = text.get(..end).unwrap_or_default().to_owned();
    short.push('…');
    short
}

/// Formats a value as JSON in at most 80 bytes. Serialization stops soon after that, so large values are cheap.
pub(super) fn format_value(value: &Value) -> String {
    let mut writer = BoundedWriter(Vec::new());
    // The only error is that of the writer when it is full.
    let _full = serde_json::to_writer(&mut writer, value);
    truncate(&printable_json(&into_valid_prefix(writer.0)), MAX_VALUE_BYTES)
}

/// Formats a name or a text as a JSON string in at most 80 bytes.
pub(super) fn quote(text: &str) -> String {
    let mut writer = BoundedWriter(Vec::new());
    let _full = serde_json::to_writer(&mut writer, text);
    truncate(&printable_json(&into_valid_prefix(writer.0)), MAX_VALUE_BYTES)
}

/// Converts bytes to a string, without an incomplete character at the end.
fn into_valid_prefix(bytes: Vec<u8>) -> String {
    let valid = match std::str::from_utf8(&bytes) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    bytes.get(..valid).and_then(|valid| std::str::from_utf8(valid).ok()).unwrap_or_default().to_owned()
}

/// A writer that fails once it holds more than [`MAX_VALUE_BYTES`].
struct BoundedWriter(Vec<u8>);

impl io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() > MAX_VALUE_BYTES {
            return Err(io::ErrorKind::WriteZero.into());
        }
        // One write can have any length.
        let taken = bytes.get(..bytes.len().min(2 * MAX_VALUE_BYTES)).unwrap_or_default();
        self.0.extend_from_slice(taken);
        Ok(taken.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Describes a value by its type and its beginning, in at most 80 bytes.
pub(super) fn describe_value(value: &Value) -> String {
    let kind = match value {
        Value::Null => return "null".to_owned(),
        Value::Bool(_) => "the boolean",
        Value::Number(_) => "the number",
        Value::String(_) => "the string",
        Value::Array(_) => "the array",
        Value::Object(_) => "the object",
    };
    // The sentence as a whole stays within the limit.
    truncate(&format!("{kind} {}", format_value(value)), MAX_VALUE_BYTES)
}

/// Returns the name of a JSON type with its article.
pub(super) fn describe_type(name: &str) -> &str {
    match name {
        "string" => "a string",
        "number" => "a number",
        "integer" => "an integer",
        "boolean" => "a boolean",
        "array" => "an array",
        "object" => "an object",
        other => other,
    }
}

/// Joins choices with `or`, up to [`MAX_LIST_BYTES`].
pub(super) fn join_choices(choices: impl IntoIterator<Item = String>) -> String {
    join(choices, " or ")
}

/// Joins names with commas, up to [`MAX_LIST_BYTES`].
pub(super) fn join_names(names: impl IntoIterator<Item = String>) -> String {
    join(names, ", ")
}

fn join(entries: impl IntoIterator<Item = String>, last: &str) -> String {
    let mut entries: Vec<_> = entries.into_iter().collect();
    let mut known = HashSet::new();
    entries.retain(|entry| known.insert(entry.clone()));
    let mut text = String::new();
    for (index, entry) in entries.iter().enumerate() {
        if index > 0 && text.len() + entry.len() > MAX_LIST_BYTES {
            // Writing to a string cannot fail.
            let _infallible = write!(text, " and {} more", entries.len() - index);
            break;
        }
        match index {
            0 => {}
            index if index + 1 == entries.len() => text.push_str(last),
            _ => text.push_str(", "),
        }
        text.push_str(entry);
    }
    text
}

/// Suggests a spelling of the value that fits one of the types, where a common mistake is likely.
pub(super) fn suggest_correction(types: &[&str], value: &Value) -> Option<String> {
    let wants = |name| types.contains(&name);
    match value {
        Value::String(text) => {
            let parsed: Value = serde_json::from_str(text.trim()).ok().filter(|_| text.len() <= 4096)?;
            let unquoted = (parsed.is_number() && (wants("number") || (wants("integer") && !parsed.is_f64())))
                || (parsed.is_boolean() && wants("boolean"))
                || (parsed.is_null() && wants("null"));
            if unquoted {
                return Some(format!(" (write {} without quotes)", format_value(&parsed)));
            }
            let structured = (parsed.is_array() && wants("array")) || (parsed.is_object() && wants("object"));
            structured.then(|| " (write the value itself, not a string that holds it)".to_owned())
        }
        Value::Number(_) | Value::Bool(_) if wants("string") => {
            let text = format_value(value);
            Some(format!(" (write \"{text}\" with quotes)"))
        }
        _ => None,
    }
}

/// Describes in a few words the values that a schema accepts.
pub(super) fn describe_schema(graph: &SchemaGraph, id: NodeId) -> String {
    describe_within(graph, id, MAX_HOPS).unwrap_or_else(|| "a value".to_owned())
}

fn describe_within(graph: &SchemaGraph, id: NodeId, hops: usize) -> Option<String> {
    let node = graph.node(id)?;
    if let Some(constant) = node.assertions.get("const") {
        return Some(format_value(constant));
    }
    if let Some(Value::Array(values)) = node.assertions.get("enum") {
        return Some(if values.is_empty() {
            NO_CHOICE.to_owned()
        } else {
            join_choices(values.iter().map(format_value))
        });
    }
    let tag = node.edges.iter().find_map(|(role, target)| match role {
        Role::Property(name) => Some((name, graph.node(*target)?.assertions.get("const")?)),
        _ => None,
    });
    if let Some((name, value)) = tag {
        return Some(format!("an object with {}: {}", quote(name), format_value(value)));
    }
    match node.assertions.get("type") {
        Some(Value::String(name)) => return Some(describe_type(name).to_owned()),
        Some(Value::Array(names)) => {
            return Some(join_choices(
                names.iter().filter_map(Value::as_str).map(|name| describe_type(name).to_owned()),
            ));
        }
        _ => {}
    }
    let properties = node.edges.iter().any(|(role, _)| matches!(role, Role::Property(_)));
    if properties {
        return Some("an object".to_owned());
    }
    let hops = hops.checked_sub(1)?;
    let mut subschemas = node.targets(&Role::Ref).chain(node.targets(&Role::AllOf));
    if let Some(words) = subschemas.find_map(|subschema| describe_within(graph, subschema, hops)) {
        return Some(words);
    }
    let alternatives: Vec<_> = node.targets(&Role::AnyOf).chain(node.targets(&Role::OneOf)).take(8).collect();
    let words: Option<Vec<_>> =
        alternatives.into_iter().map(|subschema| describe_within(graph, subschema, hops)).collect();
    words.filter(|words| !words.is_empty()).map(join_choices)
}

/// Returns the known name that is most similar to `name`, if at most two letters differ, and at most a third of all.
pub(super) fn closest_name<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if name.len() > MAX_NAME_BYTES {
        return None;
    }
    let name = fold_name(name);
    let letters = name.chars().count();
    let near = |candidate: &&str| candidate.len() <= MAX_NAME_BYTES && candidate.chars().count().abs_diff(letters) <= 2;
    // Optimal string alignment: letters inserted, deleted, replaced, or swapped with their neighbour.
    let distance = |candidate: &'n str| (strsim::osa_distance(&name, &fold_name(candidate)), candidate);
    let (distance, best) = known.filter(near).map(distance).min()?;
    (distance <= 2 && distance * 3 <= letters).then_some(best)
}

/// Folds a name for comparison: to lower case, `-` to `_`, without invisible characters.
fn fold_name(name: &str) -> String {
    let visible = name.chars().filter(|letter| !is_hidden(*letter));
    visible.map(|letter| if letter == '-' { '_' } else { letter.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn truncates_between_characters() {
        fn check(text: &str, limit: usize, expected: &str) {
            assert_eq!(truncate(text, limit), expected);
        }

        check("abc", 3, "abc");
        check("abcd", 3, "…");
        check("abcde", 4, "a…");
        check("ééé", 5, "é…");
        check("", 0, "");
    }

    #[test]
    fn describes_values_in_80_bytes() {
        fn check(value: Value) {
            let text = describe_value(&value);
            assert!(text.len() <= 80, "{text}");
        }

        check(json!("é".repeat(100_000)));
        check(json!(vec!["😀"; 10_000]));
        check(json!({"\u{1}".repeat(1000): 1}));
        assert_eq!(describe_value(&json!("3")), "the string \"3\"");
        assert_eq!(describe_value(&json!(null)), "null");
    }

    #[test]
    fn finds_closest_name() {
        fn check(name: &str, expected: Option<&str>) {
            assert_eq!(closest_name(name, ["path", "content", "mode"].into_iter()), expected, "{name}")
        }

        check("pth", Some("path"));
        check("Path", Some("path"));
        check("contents", Some("content"));
        check("ptah", Some("path"));
        check("mo\u{200b}de", Some("mode"));
        check("x", None);
        check("zzzz", None);
    }
}
