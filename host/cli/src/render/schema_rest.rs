//! Texts of a JSON Schema that its lines for people leave out.

use serde_json::Value;

use super::paragraph::one_line;

/// Keywords whose members are schemas under names of the author's choice.
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
/// Keywords that the lines show.
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
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// Longest value of `format` that is a name of JSON Schema and no text.
const MAX_FORMAT_BYTES: usize = 24;

/// Lists everything that a schema says and `shown`, its lines for people, do not repeat: one line for each keyword, with its
/// place in the schema.
pub(super) fn rest(schema: &Value, shown: &[String]) -> Vec<String> {
    let mut walk = Walk { shown: shown.join("\n"), rest: Vec::new() };
    walk.schema(schema, "");
    walk.rest
}

struct Walk {
    shown: String,
    rest: Vec<String>,
}

impl Walk {
    fn schema(&mut self, schema: &Value, place: &str) {
        let Some(keywords) = schema.as_object() else { return };
        for (keyword, value) in keywords {
            let place = format!("{place}/{keyword}");
            match keyword.as_str() {
                // The lines list the properties, and not that there may be others.
                "additionalProperties" if *value == Value::Bool(true) && keywords.contains_key("properties") => {
                    self.rest.push(format!("{}: true", one_line(&place)));
                }
                name if NAMED.contains(&name) => self.named(value, &place),
                name if NESTED.contains(&name) => self.nested(value, &place),
                "type" if is_type(value) => {}
                "$ref" if value.as_str().is_some_and(|target| target.starts_with("#/")) => {}
                "format" if is_format(value) => {}
                name if SHOWN.contains(&name) => self.texts(value, &place),
                _ => self.rest.push(format!("{}: {}", one_line(&place), one_line(&value.to_string()))),
            }
        }
    }

    fn named(&mut self, schemas: &Value, place: &str) {
        for (name, schema) in schemas.as_object().into_iter().flatten() {
            let before = self.rest.len();
            self.schema(schema, &format!("{place}/{name}"));
            // Its name is in the place of what it says; it is a line of its own only where it says nothing.
            let name = one_line(name);
            let is_told = self.rest.iter().skip(before).any(|line| line.contains(&name));
            if !is_told && !self.shown.contains(&name) {
                self.rest.push(format!("{}/{name}", one_line(place)));
            }
        }
    }

    fn nested(&mut self, value: &Value, place: &str) {
        match value {
            Value::Array(schemas) => {
                for (index, schema) in schemas.iter().enumerate() {
                    self.schema(schema, &format!("{place}/{index}"));
                }
            }
            schema => self.schema(schema, place),
        }
    }

    /// Texts of a keyword that the lines show, unless they cut or skipped them.
    fn texts(&mut self, value: &Value, place: &str) {
        match value {
            Value::String(text) if !self.shown.contains(&one_line(text)) => {
                self.rest.push(format!("{}: {}", one_line(place), one_line(text)));
            }
            Value::Array(values) => values.iter().for_each(|value| self.texts(value, place)),
            Value::Object(members) => {
                for (name, value) in members {
                    self.texts(&Value::from(name.as_str()), place);
                    self.texts(value, place);
                }
            }
            _ => {}
        }
    }
}

/// A type of JSON Schema, or a list of them.
fn is_type(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().all(is_type),
        value => value.as_str().is_some_and(|name| TYPES.contains(&name)),
    }
}

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
    fn every_text_of_a_schema_is_in_its_lines_or_in_the_rest() {
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
        let shown = super::super::schema::lines(&schema);
        let rest = rest(&schema, &shown);
        let all = [shown, rest.clone()].concat().join("\n");
        for number in 1..=10 {
            assert!(all.contains(&format!("T{number}")), "T{number} is missing in {all}");
        }
        assert!(!rest.iter().any(|line| line.contains("T3") || line.contains("date-time")), "{rest:?}");
        for line in ["/title: \"T2\"", "/additionalProperties: true"] {
            assert!(rest.contains(&line.to_owned()), "{line}: {rest:?}");
        }
    }
}
