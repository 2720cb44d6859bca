//! Texts of a JSON Schema that its description for people leaves out.

use serde_json::Value;

use super::quotation::one_line;

/// Keywords whose members are schemas under names that the author chose.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Keywords that hold a schema, or a list of them.
const NESTED: [&str; 16] = [
    "items",
    "prefixItems",
    "additionalProperties",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "additionalItems",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
/// Keywords that the description shows.
const SHOWN: [&str; 13] = [
    "type",
    "required",
    "description",
    "default",
    "enum",
    "const",
    "$ref",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
];
/// Types of JSON Schema (2020-12 validation, section 6.1.1).
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// Maximum length of a value of `format` that counts as a name of JSON Schema and not as text, in bytes.
const MAX_FORMAT_BYTES: usize = 24;

/// Lists the texts of a schema that are not in `shown`, its description for people: one line for each keyword, with its
/// place in the schema.
pub(super) fn remainder(schema: &Value, shown: &[String]) -> Vec<String> {
    let mut visitor = Visitor { shown: shown.join("\n"), remainder: Vec::new() };
    visitor.visit_schema(schema, "");
    visitor.remainder
}

/// A visitor of a schema that collects the texts that are not shown.
struct Visitor {
    shown: String,
    remainder: Vec<String>,
}

impl Visitor {
    fn visit_schema(&mut self, schema: &Value, place: &str) {
        let Some(keywords) = schema.as_object() else { return };
        for (keyword, value) in keywords {
            let place = format!("{place}/{keyword}");
            match keyword.as_str() {
                // The description lists the properties, and not that there may be others.
                "additionalProperties" if *value == Value::Bool(true) && keywords.contains_key("properties") => {
                    self.remainder.push(format!("{}: true", one_line(&place)));
                }
                name if NAMED.contains(&name) => self.visit_named(value, &place),
                name if NESTED.contains(&name) => self.visit_nested(value, &place),
                "type" if is_type(value) => {}
                "$ref" if value.as_str().is_some_and(|target| target.starts_with("#/")) => {}
                "format" if is_format(value) => {}
                name if SHOWN.contains(&name) => self.visit_texts(value, &place),
                _ => self.remainder.push(format!("{}: {}", one_line(&place), one_line(&value.to_string()))),
            }
        }
    }

    fn visit_named(&mut self, schemas: &Value, place: &str) {
        for (name, schema) in schemas.as_object().into_iter().flatten() {
            let before = self.remainder.len();
            self.visit_schema(schema, &format!("{place}/{name}"));
            // The name is part of the place of its texts; without any text it gets a line of its own.
            let name = one_line(name);
            let is_mentioned = self.remainder.iter().skip(before).any(|line| line.contains(&name));
            if !is_mentioned && !self.shown.contains(&name) {
                self.remainder.push(format!("{}/{name}", one_line(place)));
            }
        }
    }

    fn visit_nested(&mut self, value: &Value, place: &str) {
        match value {
            Value::Array(schemas) => {
                for (index, schema) in schemas.iter().enumerate() {
                    self.visit_schema(schema, &format!("{place}/{index}"));
                }
            }
            schema => self.visit_schema(schema, place),
        }
    }

    /// Collects texts of a keyword that the description shows, if it truncated or skipped them.
    fn visit_texts(&mut self, value: &Value, place: &str) {
        match value {
            Value::String(text) if !self.shown.contains(&one_line(text)) => {
                self.remainder.push(format!("{}: {}", one_line(place), one_line(text)));
            }
            Value::Array(values) => values.iter().for_each(|value| self.visit_texts(value, place)),
            Value::Object(members) => {
                for (name, value) in members {
                    self.visit_texts(&Value::from(name.as_str()), place);
                    self.visit_texts(value, place);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a value is a type of JSON Schema, or a list of types.
fn is_type(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().all(is_type),
        value => value.as_str().is_some_and(|name| TYPES.contains(&name)),
    }
}

/// Returns whether a value of `format` is a name and no text.
fn is_format(value: &Value) -> bool {
    let is_name =
        |text: &str| text.len() <= MAX_FORMAT_BYTES && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    value.as_str().is_some_and(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lists_every_text_that_is_not_shown() {
        let deep =
            (0..8).fold(json!({"description": "T9"}), |inner, _| json!({"type": "object", "properties": {"x": inner}}));
        let schema = json!({
            "$comment": "T1",
            "title": "T2",
            "properties": {
                "a": {"type": "string", "description": "T3", "examples": ["T4"], "pattern": "T5", "format": "date-time"},
                "b": {"enum": [format!("T6{}", "x".repeat(400))], "x-hint": {"T7": 1}},
                "c": deep,
            },
            "not": {"properties": {"T10": true}},
            "allOf": [{"description": "T8"}],
            "additionalProperties": true,
        });
        let shown = super::super::schema::describe_schema(&schema);
        let remainder = remainder(&schema, &shown);
        let all = [shown, remainder.clone()].concat().join("\n");
        for number in 1..=10 {
            assert!(all.contains(&format!("T{number}")), "T{number} is missing in {all}");
        }
        assert!(!remainder.iter().any(|line| line.contains("T3") || line.contains("date-time")), "{remainder:?}");
        for line in ["/title: \"T2\"", "/additionalProperties: true"] {
            assert!(remainder.contains(&line.to_owned()), "{line}: {remainder:?}");
        }
    }
}
