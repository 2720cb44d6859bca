//! Forms for the arguments of a tool: its schema as fields, and the fields of a sent form as arguments.
//!
//! A form only helps to write arguments: the gate checks them afterwards as it checks those of every call.

use fumehood_core::text::untrusted::PrintableText;
use serde_json::{Map, Value};

/// Prefix of the names of fields, which keeps them apart from the form's own.
const FIELD_PREFIX: &str = "a.";
/// Name of the field that has all arguments as JSON.
pub(crate) const JSON_FIELD: &str = "json";
/// Maximum number of fields; a schema with more is asked for as JSON.
const MAX_FIELDS: usize = 40;
/// Maximum number of choices of one field.
const MAX_CHOICES: usize = 200;

/// The input element of a field.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Input {
    /// A line of text.
    Text,
    /// A number.
    Number,
    /// A whole number.
    Integer,
    /// One of these JSON texts.
    Choice(Vec<PrintableText>),
    /// Any JSON.
    Json,
}

/// A field for one argument.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    /// The index among the arguments, which names the field: names of a guest may not.
    pub(crate) number: usize,
    pub(crate) name: PrintableText,
    pub(crate) description: Option<PrintableText>,
    pub(crate) is_required: bool,
    pub(crate) input: Input,
    /// The default of the schema, or what was sent before.
    pub(crate) value: PrintableText,
}

impl Field {
    /// Returns the name in the form.
    pub(crate) fn key(&self) -> String {
        format!("{FIELD_PREFIX}{}", self.number)
    }

    pub(crate) fn is_chosen(&self, choice: &PrintableText) -> bool {
        self.value == *choice
    }
}

/// Returns the fields of a schema; `None` if its arguments are to be written as JSON.
pub(crate) fn fields(schema: &Value) -> Option<Vec<Field>> {
    let properties = properties(schema)?;
    let has_more = schema.get("additionalProperties").is_none_or(|more| *more != Value::Bool(false));
    let is_combined = ["allOf", "anyOf", "oneOf", "if", "not", "$ref"].iter().any(|key| schema.get(key).is_some());
    if properties.len() > MAX_FIELDS || is_combined || (properties.is_empty() && has_more) {
        return None;
    }
    let required = schema.get("required").and_then(Value::as_array);
    let fields = properties.iter().enumerate().map(|(number, (name, schema))| Field {
        number,
        name: name.as_str().into(),
        description: schema.get("description").and_then(Value::as_str).map(PrintableText::from),
        is_required: required.is_some_and(|names| names.iter().any(|required| required == name)),
        input: input(schema),
        value: schema.get("default").map_or_else(PrintableText::default, |value| to_text(schema, value)),
    });
    Some(fields.collect())
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    if schema.get("type").is_none_or(|kind| kind != "object") {
        return None;
    }
    static NONE: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    match schema.get("properties") {
        Some(Value::Object(properties)) => Some(properties),
        Some(_) => None,
        None => Some(&NONE),
    }
}

fn input(schema: &Value) -> Input {
    let choices = schema.get("enum").and_then(Value::as_array).filter(|choices| choices.len() <= MAX_CHOICES);
    if let Some(choices) = choices {
        return Input::Choice(choices.iter().map(|choice| choice.to_string().into()).collect());
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => Input::Text,
        Some("number") => Input::Number,
        Some("integer") => Input::Integer,
        Some("boolean") => Input::Choice(vec!["true".into(), "false".into()]),
        _ => Input::Json,
    }
}

/// Returns a value as its field has it: a string as it is, and everything else as JSON.
fn to_text(schema: &Value, value: &Value) -> PrintableText {
    match (input(schema), value) {
        (Input::Text, Value::String(text)) => text.as_str().into(),
        (_, value) => value.to_string().into(),
    }
}

/// Returns the arguments of a form with these fields. Names are those of the schema, exactly.
///
/// # Errors
/// If a field is not of its type: the name of the field, and what was expected.
pub(crate) fn arguments(schema: &Value, sent: &[(String, String)]) -> Result<String, String> {
    let find = |key: &str| sent.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    if let Some(json) = find(JSON_FIELD) {
        return Ok(if json.trim().is_empty() { "{}".to_owned() } else { json.to_owned() });
    }
    let (Some(fields), Some(properties)) = (fields(schema), properties(schema)) else {
        return Err(format!("the field `{JSON_FIELD}` is missing; expected the arguments as a JSON object"));
    };
    let mut arguments = Map::new();
    for (field, name) in fields.iter().zip(properties.keys()) {
        let sent = find(&field.key()).unwrap_or_default();
        if sent.is_empty() && !(field.is_required && field.input == Input::Text) {
            continue;
        }
        arguments.insert(name.clone(), value_of(field, properties.get(name), sent)?);
    }
    Ok(Value::Object(arguments).to_string())
}

fn value_of(field: &Field, schema: Option<&Value>, sent: &str) -> Result<Value, String> {
    let wrong = |expected: &str| format!("`{}` must be {expected}", field.name);
    let parsed = || serde_json::from_str::<Value>(sent.trim()).ok();
    match &field.input {
        // Browsers send CR LF for a line end.
        Input::Text => Ok(Value::String(sent.replace("\r\n", "\n"))),
        Input::Number | Input::Integer => {
            parsed().filter(Value::is_number).ok_or_else(|| wrong("a number, such as 1 or 2.5"))
        }
        Input::Choice(choices) => {
            let at = choices.iter().position(|choice| choice.as_str() == sent);
            let listed = schema.and_then(|schema| schema.get("enum")).and_then(Value::as_array);
            match (at, listed) {
                (Some(at), Some(listed)) => listed.get(at).cloned(),
                (Some(_), None) => parsed(),
                (None, _) => None,
            }
            .ok_or_else(|| wrong("one of the listed values"))
        }
        Input::Json => parsed().ok_or_else(|| wrong("JSON, such as [1, 2] or {\"a\": 1}; a text has quotation marks")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object", "required": ["text"], "additionalProperties": false,
            "properties": {
                "count": { "type": "integer", "default": 3 },
                "list": { "type": "array" },
                "mode": { "enum": ["a\u{202e}", 2, null] },
                "text": { "type": "string", "description": "a <b>\u{200b}" },
                "wanted": { "type": "boolean" },
            },
        })
    }

    fn sent(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn choice(choices: &[&str]) -> Input {
        Input::Choice(choices.iter().map(|choice| (*choice).into()).collect())
    }

    #[test]
    fn a_schema_becomes_fields() {
        let fields = fields(&schema()).unwrap();
        let inputs: Vec<&Input> = fields.iter().map(|field| &field.input).collect();
        let mode = choice(&["\"a\u{202e}\"", "2", "null"]);
        let wanted = choice(&["true", "false"]);
        assert_eq!(inputs, [&Input::Integer, &Input::Json, &mode, &Input::Text, &wanted]);
        assert_eq!(fields[0].value, *"3");
        assert_eq!(fields[3].description.as_ref().unwrap(), "a <b>\\u{200b}");
        assert!(fields[3].is_required && !fields[0].is_required);
    }

    fn check_json(json: &str, expected: &str) {
        assert_eq!(arguments(&json!({}), &sent(&[("json", json)])).unwrap(), expected);
    }

    #[test]
    fn other_schemas_are_asked_for_as_json() {
        for schema in [
            json!({}),
            json!(true),
            json!({"type": "object"}),
            json!({"type": "array"}),
            json!({"type": "object", "properties": []}),
            json!({"type": "object", "properties": {"a": {}}, "anyOf": []}),
        ] {
            assert_eq!(fields(&schema), None, "{schema}");
        }
        assert_eq!(fields(&json!({"type": "object", "additionalProperties": false})), Some(vec![]));
        check_json(r#"{"a": 1}"#, r#"{"a": 1}"#);
        check_json(" ", "{}");
        assert!(arguments(&json!({}), &[]).is_err());
    }

    fn check_arguments(fields: &[(&str, &str)], expected: Result<Value, &str>) {
        let found = arguments(&schema(), &sent(fields));
        match expected {
            Ok(value) => assert_eq!(serde_json::from_str::<Value>(&found.unwrap()).unwrap(), value),
            Err(part) => assert!(found.clone().unwrap_err().contains(part), "{found:?}"),
        }
    }

    #[test]
    fn sent_fields_become_arguments_of_their_types() {
        check_arguments(&[("a.3", "x\r\ny")], Ok(json!({"text": "x\ny"})));
        check_arguments(&[], Ok(json!({"text": ""})));
        check_arguments(
            &[
                ("a.0", "12345678901234567890"),
                ("a.1", "[1]"),
                ("a.2", "\"a\\u{202e}\""),
                ("a.3", "1"),
                ("a.4", "true"),
            ],
            Ok(
                json!({"count": 12_345_678_901_234_567_890_u64, "list": [1], "mode": "a\u{202e}", "text": "1", "wanted": true}),
            ),
        );
        check_arguments(
            &[("a.2", "null"), ("a.9", "ignored"), ("text", "ignored")],
            Ok(json!({"mode": null, "text": ""})),
        );
        check_arguments(&[("a.0", "x")], Err("`count` must be a number"));
        check_arguments(&[("a.1", "[")], Err("`list` must be JSON"));
        check_arguments(&[("a.2", "other")], Err("`mode` must be one of"));
        check_arguments(&[("a.4", "yes")], Err("`wanted` must be one of"));
    }
}
