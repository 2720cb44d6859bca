//! Arguments of a call, as they are typed: one JSON object, or a word for each.

use std::io::Read;
use std::path::Path;

use anyhow::Result;
use fumehood::limits::display_bytes;
use fumehood::{Component, ToolDefinition};
use serde_json::{Map, Value};

use crate::exit::UsageError;

/// Maximum size of arguments, in bytes.
const MAX_BYTES: u64 = 16 << 20;
/// Maximum number of references that are followed within a schema.
const MAX_REFERENCES: usize = 8;

/// Arguments that were typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TypedArguments {
    /// JSON, not checked yet.
    Json(String),
    /// Names and values; the tool's schema says which values are texts.
    Words(Vec<(String, String)>),
}

impl TypedArguments {
    /// Reads arguments from a file or from words.
    ///
    /// # Errors
    /// If the file or standard input cannot be read, or the words are neither JSON nor names with values.
    pub(super) fn read(file: Option<&Path>, words: &[String]) -> Result<Self> {
        let text = match (file, words) {
            (Some(path), _) => read_file(path)?,
            (None, []) => "{}".to_owned(),
            (None, [word]) if word == "-" => read_all(std::io::stdin().lock(), "standard input")?,
            (None, [word]) if pair(word).is_none() => word.clone(),
            (None, words) => return Self::of_words(words),
        };
        Ok(Self::Json(text))
    }

    fn of_words(words: &[String]) -> Result<Self> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for word in words {
            let wrong = || UsageError(format!("`{word}` is no argument; write NAME=VALUE words, or one JSON object"));
            let (name, value) = pair(word).ok_or_else(wrong)?;
            if pairs.iter().any(|(known, _)| known == name) {
                return Err(UsageError(format!("`{name}` is given twice; give it once")).into());
            }
            pairs.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self::Words(pairs))
    }

    /// Converts the arguments to JSON for a tool of this component.
    pub(super) fn into_json(self, component: &Component, tool: &str) -> String {
        let pairs = match self {
            Self::Json(text) => return text,
            Self::Words(pairs) => pairs,
        };
        let definition = component.definitions().iter().find(|it| it.name.as_str() == tool);
        let schema = definition.map(|ToolDefinition { input_schema, .. }| input_schema.to_sanitized().into_owned());
        let schema = schema.unwrap_or(Value::Bool(true));
        let object: Map<String, Value> =
            pairs.into_iter().map(|(name, text)| (name.clone(), value(&schema, &name, text))).collect();
        Value::Object(object).to_string()
    }
}

/// A name and a value. Not JSON, which begins with another character.
fn pair(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$'));
    is_name.then_some((name, value))
}

/// The value that a text stands for: JSON where the schema admits its type, and the text itself otherwise.
fn value(schema: &Value, name: &str, text: String) -> Value {
    let property = schema.get("properties").and_then(|known| known.get(name));
    let types = property.map(|property| types(property, schema)).unwrap_or_default();
    let read: Option<Value> = serde_json::from_str(&text).ok();
    match read {
        Some(read) if is_admitted(&types, &read) => read,
        _ => Value::String(text),
    }
}

/// The types that a schema names; none if it names none.
fn types(schema: &Value, root: &Value) -> Vec<String> {
    let mut schema = schema;
    for _ in 0..MAX_REFERENCES {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        match target.and_then(|pointer| root.pointer(pointer)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    let listed = schema.get("type").into_iter().flat_map(|of| match of {
        Value::Array(names) => names.iter().collect(),
        of => vec![of],
    });
    let listed: Vec<String> = listed.filter_map(Value::as_str).map(str::to_owned).collect();
    let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten().chain(schema.get("const"));
    match listed.is_empty() {
        true => values.map(|value| type_of(value).to_owned()).collect(),
        false => listed,
    }
}

fn is_admitted(types: &[String], value: &Value) -> bool {
    let of = type_of(value);
    // JSON has one type of number; whether it is whole is for the gate to say.
    types.is_empty() || types.iter().any(|name| name == of || (name == "integer" && of == "number"))
}

fn type_of(value: &Value) -> &'static str {
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
        Ok(file) => read_all(file, &name),
        Err(error) => Err(unreadable(&name, &error).into()),
    }
}

fn read_all(source: impl Read, name: &str) -> Result<String> {
    let mut text = Vec::new();
    let read = source.take(MAX_BYTES + 1).read_to_end(&mut text);
    read.map_err(|error| unreadable(name, &error))?;
    if text.len() as u64 > MAX_BYTES {
        let most = display_bytes(MAX_BYTES);
        return Err(UsageError(format!("the arguments from {name} are larger than {most}")).into());
    }
    let not_text = |_| UsageError(format!("the arguments from {name} are not UTF-8 text; give a JSON object"));
    Ok(String::from_utf8(text).map_err(not_text)?)
}

fn unreadable(name: &str, error: &std::io::Error) -> UsageError {
    UsageError(format!("cannot read the arguments from {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn given(words: &[&str]) -> Result<TypedArguments, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        TypedArguments::read(None, &words).map_err(|error| error.to_string())
    }

    #[test]
    fn words_are_pairs_or_one_json_text() {
        assert_eq!(given(&[]), Ok(TypedArguments::Json("{}".to_owned())));
        assert_eq!(given(&[r#"{"a": "b=c"}"#]), Ok(TypedArguments::Json(r#"{"a": "b=c"}"#.to_owned())));
        assert_eq!(given(&["no json"]), Ok(TypedArguments::Json("no json".to_owned())));
        let pairs = vec![("a".to_owned(), "3".to_owned()), ("b".to_owned(), "x=y".to_owned())];
        assert_eq!(given(&["a=3", "b=x=y"]), Ok(TypedArguments::Words(pairs)));
        assert!(given(&["a=3", "{}"]).unwrap_err().contains("`{}` is no argument"));
        assert!(given(&["a=3", "a=4"]).unwrap_err().contains("`a` is given twice"));
    }

    #[test]
    fn the_schema_says_which_values_are_texts() {
        let schema = json!({
            "properties": {
                "word": {"type": "string"}, "count": {"type": "integer"}, "either": {"type": ["string", "null"]},
                "far": {"$ref": "#/$defs/flag"}, "mode": {"enum": ["1", "2"]}, "list": {"type": "array"}
            },
            "$defs": {"flag": {"type": "boolean"}},
        });
        let check = |name: &str, text: &str, expected: Value| {
            assert_eq!(value(&schema, name, text.to_owned()), expected, "{name}={text}");
        };
        check("word", "3", json!("3"));
        check("word", "\"3\"", json!("3"));
        check("count", "3", json!(3));
        check("count", "many", json!("many"));
        check("either", "null", json!(null));
        check("far", "true", json!(true));
        check("mode", "1", json!("1"));
        check("list", "[1]", json!([1]));
        check("unknown", "3", json!(3));
        check("unknown", "three", json!("three"));
    }
}
