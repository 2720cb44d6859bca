//! Arguments of a call on the command line: one JSON object, or a `NAME=VALUE` word for each.

use std::io::Read;
use std::path::Path;

use anyhow::Result;
use fumehood::ToolDefinition;
use fumehood::limits::display_bytes;
use serde_json::{Map, Value};

use crate::exit::UsageError;

/// Maximum size of arguments, in bytes.
const MAX_ARGUMENTS_BYTES: u64 = 16 << 20;
/// Maximum number of references that are followed to one schema.
const MAX_REFERENCES: usize = 8;

/// Arguments as they were typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TypedArguments {
    /// JSON, not checked yet.
    Json(String),
    /// Names and values; the tool's schema decides which values are texts.
    Words(Vec<(String, String)>),
}

impl TypedArguments {
    /// Reads arguments from a file or from words.
    ///
    /// # Errors
    /// If the file or standard input cannot be read, or the words are neither JSON nor names with values.
    pub(crate) fn read(file: Option<&Path>, words: &[String]) -> Result<Self> {
        let text = match (file, words) {
            (Some(path), _) => read_file(path)?,
            (None, []) => "{}".to_owned(),
            (None, [word]) if word == "-" => read_limited(std::io::stdin().lock(), "standard input")?,
            (None, [word]) if is_json_text(word) => word.clone(),
            (None, words) => return Self::from_words(words),
        };
        Ok(Self::Json(text))
    }

    /// Parses `NAME=VALUE` words.
    fn from_words(words: &[String]) -> Result<Self> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for word in words {
            let wrong =
                || UsageError(format!("invalid argument `{word}`; expected NAME=VALUE pairs, or one JSON object"));
            let (name, value) = split_pair(word).ok_or_else(wrong)?;
            if pairs.iter().any(|(known, _)| known == name) {
                return Err(UsageError(format!("`{name}` is given twice")).into());
            }
            pairs.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self::Words(pairs))
    }

    /// Converts the arguments to JSON for a tool, if it is known.
    pub(crate) fn into_json(self, definition: Option<&ToolDefinition>) -> String {
        let pairs = match self {
            Self::Json(text) => return text,
            Self::Words(pairs) => pairs,
        };
        let schema = definition.map(|ToolDefinition { input_schema, .. }| input_schema.to_sanitized().into_owned());
        let schema = schema.unwrap_or(Value::Bool(true));
        let object: Map<String, Value> =
            pairs.into_iter().map(|(name, text)| (name.clone(), to_value(&schema, &name, text))).collect();
        Value::Object(object).to_string()
    }
}

/// Returns whether a word is meant as JSON, so that an error in it is best described as one of JSON.
fn is_json_text(word: &str) -> bool {
    word.trim_start().starts_with(['{', '[']) || serde_json::from_str::<Value>(word).is_ok()
}

/// Splits a `NAME=VALUE` word; `None` for any other text, such as JSON, which begins with a character that no name has.
fn split_pair(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$'));
    is_name.then_some((name, value))
}

/// Converts a text to a value: to the JSON that it is if the schema admits its type, and to a string otherwise.
fn to_value(schema: &Value, name: &str, text: String) -> Value {
    let property = schema.get("properties").and_then(|known| known.get(name));
    let types = property.map(|property| admitted_types(property, schema)).unwrap_or_default();
    let parsed: Option<Value> = serde_json::from_str(&text).ok();
    match parsed {
        Some(parsed) if is_admitted(&types, &parsed) => parsed,
        _ => Value::String(text),
    }
}

/// Returns the types that a schema admits; an empty list if it names none.
fn admitted_types(schema: &Value, root: &Value) -> Vec<String> {
    let mut schema = schema;
    for _ in 0..MAX_REFERENCES {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    let listed = schema.get("type").into_iter().flat_map(|listed| match listed {
        Value::Array(names) => names.iter().collect(),
        name => vec![name],
    });
    let listed: Vec<String> = listed.filter_map(Value::as_str).map(str::to_owned).collect();
    let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"));
    if listed.is_empty() { values.map(|value| type_name(value).to_owned()).collect() } else { listed }
}

fn is_admitted(types: &[String], value: &Value) -> bool {
    let actual = type_name(value);
    // JSON has one type of number; the gate checks whether it is an integer.
    types.is_empty() || types.iter().any(|name| name == actual || (name == "integer" && actual == "number"))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn read_file(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    match std::fs::File::open(path) {
        Ok(file) => read_limited(file, &name),
        Err(error) => Err(unreadable(&name, &error).into()),
    }
}

fn read_limited(source: impl Read, name: &str) -> Result<String> {
    let mut text = Vec::new();
    let read = source.take(MAX_ARGUMENTS_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| unreadable(name, &error))?;
    if text.len() as u64 > MAX_ARGUMENTS_BYTES {
        let limit = display_bytes(MAX_ARGUMENTS_BYTES);
        return Err(UsageError(format!("the arguments from {name} are larger than {limit}")).into());
    }
    let not_text = |_| UsageError(format!("the arguments from {name} are not UTF-8 text; expected a JSON object"));
    Ok(String::from_utf8(text).map_err(not_text)?)
}

fn unreadable(name: &str, error: &std::io::Error) -> UsageError {
    UsageError(format!("cannot read the arguments from {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(words: &[&str]) -> Result<TypedArguments, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        TypedArguments::read(None, &words).map_err(|error| error.to_string())
    }

    #[test]
    fn accepts_pairs_or_one_json_text() {
        assert_eq!(parse(&[]), Ok(TypedArguments::Json("{}".to_owned())));
        assert_eq!(parse(&[r#"{"a": "b=c"}"#]), Ok(TypedArguments::Json(r#"{"a": "b=c"}"#.to_owned())));
        assert_eq!(parse(&["{no json"]), Ok(TypedArguments::Json("{no json".to_owned())));
        assert!(parse(&["no json"]).unwrap_err().contains("expected NAME=VALUE pairs"));
        let pairs = vec![("a".to_owned(), "3".to_owned()), ("b".to_owned(), "x=y".to_owned())];
        assert_eq!(parse(&["a=3", "b=x=y"]), Ok(TypedArguments::Words(pairs)));
        assert!(parse(&["a=3", "{}"]).unwrap_err().contains("invalid argument `{}`"));
        assert!(parse(&["a=3", "a=4"]).unwrap_err().contains("`a` is given twice"));
    }

    fn assert_value(schema: &Value, name: &str, text: &str, expected: Value) {
        assert_eq!(to_value(schema, name, text.to_owned()), expected, "{name}={text}");
    }

    #[test]
    fn converts_values_by_the_schema() {
        let schema = json!({
            "properties": {
                "word": {"type": "string"}, "count": {"type": "integer"}, "either": {"type": ["string", "null"]},
                "far": {"$ref": "#/$defs/flag"}, "mode": {"enum": ["1", "2"]}, "list": {"type": "array"}
            },
            "$defs": {"flag": {"type": "boolean"}},
        });
        assert_value(&schema, "word", "3", json!("3"));
        assert_value(&schema, "word", "\"3\"", json!("3"));
        assert_value(&schema, "count", "3", json!(3));
        assert_value(&schema, "count", "many", json!("many"));
        assert_value(&schema, "either", "null", json!(null));
        assert_value(&schema, "far", "true", json!(true));
        assert_value(&schema, "mode", "1", json!("1"));
        assert_value(&schema, "list", "[1]", json!([1]));
        assert_value(&schema, "unknown", "3", json!(3));
        assert_value(&schema, "unknown", "three", json!("three"));
    }
}
