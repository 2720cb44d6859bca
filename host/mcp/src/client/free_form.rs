//! Objects in the schemas of other people's tools that say nothing about what is in them.
//!
//! The gate closes every object that does not say otherwise, because a name that nobody declared is mostly a mistake of the
//! model. An object that declares no name at all is another matter: closed, it could only be empty, which nobody means.

use serde_json::{Map, Value};

/// Keywords that say something about what is in an object.
const SAYING: [&str; 10] = [
    "$ref",
    "additionalProperties",
    "allOf",
    "anyOf",
    "if",
    "not",
    "oneOf",
    "patternProperties",
    "properties",
    "unevaluatedProperties",
];
/// Keywords whose value is a schema.
const ONE: [&str; 8] =
    ["additionalProperties", "contains", "else", "if", "items", "not", "then", "unevaluatedProperties"];
/// Keywords whose value is a list of schemas.
const LISTED: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is schemas by name.
const NAMED: [&str; 5] = ["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"];

/// The schema of arguments with such objects below its root spelled out. The arguments themselves stay what they are: a
/// tool without any has none.
pub(crate) fn spelled_out(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(root) = schema.as_object_mut() {
        below(root);
    }
    schema
}

fn below(schema: &mut Map<String, Value>) {
    for (keyword, value) in schema.iter_mut() {
        match value {
            Value::Object(_) if ONE.contains(&keyword.as_str()) => spell_out(value),
            Value::Object(named) if NAMED.contains(&keyword.as_str()) => named.values_mut().for_each(spell_out),
            Value::Array(listed) if LISTED.contains(&keyword.as_str()) => listed.iter_mut().for_each(spell_out),
            _ => {}
        }
    }
}

fn spell_out(schema: &mut Value) {
    let Some(schema) = schema.as_object_mut() else { return };
    below(schema);
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    if is_object && !schema.keys().any(|keyword| SAYING.contains(&keyword.as_str())) {
        schema.insert("additionalProperties".to_owned(), Value::Bool(true));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_objects_that_say_nothing_are_opened() {
        let open = json!({"type": "object", "additionalProperties": true});
        let bare = json!({"type": "object"});
        let closed = json!({"type": "object", "properties": {"a": {}}});
        for (schema, expected) in [
            (bare.clone(), bare.clone()),
            (json!({"properties": {"a": bare, "b": closed}}), json!({"properties": {"a": open, "b": closed}})),
            (json!({"properties": {"a": {"items": bare}}}), json!({"properties": {"a": {"items": open}}})),
            (json!({"$defs": {"a": {"anyOf": [bare, true]}}}), json!({"$defs": {"a": {"anyOf": [open, true]}}})),
            (json!({"properties": {"a": {"const": bare}}}), json!({"properties": {"a": {"const": bare}}})),
            (json!({"properties": {"type": bare}}), json!({"properties": {"type": open}})),
            (json!(true), json!(true)),
        ] {
            assert_eq!(spelled_out(&schema), expected);
        }
    }
}
