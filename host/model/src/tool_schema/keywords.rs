//! Keywords of JSON Schema: the types that they apply to, and the types that a schema describes.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::flatten::type_names;

/// The types of JSON Schema.
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// Keywords that make a schema one of values, rather than a further condition on them.
const SHAPES: &[&str] =
    &["$ref", "allOf", "anyOf", "const", "enum", "items", "oneOf", "prefixItems", "properties", "type"];

/// Keywords that apply to some types only, with the types.
const TYPED_KEYWORDS: &[(&[&str], &[&str])] = &[
    (&["pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType", "contentSchema"], &["string"]),
    (&["format"], &["string", "integer", "number"]),
    (&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"], &["integer", "number"]),
    (
        &["minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "items", "prefixItems"],
        &["array"],
    ),
    (
        &[
            "minProperties",
            "maxProperties",
            "patternProperties",
            "propertyNames",
            "dependentRequired",
            "dependentSchemas",
            "properties",
            "required",
            "additionalProperties",
        ],
        &["object"],
    ),
];

/// Returns the types that a keyword applies to; none if it applies to all.
pub(super) fn keyword_types(keyword: &str) -> &'static [&'static str] {
    let found = TYPED_KEYWORDS.iter().find(|(keywords, _)| keywords.contains(&keyword));
    found.map_or(&[], |(_, types)| types)
}

/// Returns the types that a schema describes: those it names, else those that its other keywords are about.
pub(super) fn types_of(schema: &Map<String, Value>) -> Vec<&'static str> {
    let mut types: Vec<&'static str> = Vec::new();
    let named = schema.get("type").map(type_names).unwrap_or_default();
    types.extend(TYPES.iter().filter(|ty| named.contains(ty)));
    if types.is_empty() {
        match schema.get("enum").and_then(Value::as_array) {
            Some(values) => {
                types.extend(TYPES.iter().filter(|ty| values.iter().any(|value| is_of_type(value, ty))));
                if values.iter().filter(|value| value.is_number()).all(|value| is_of_type(value, "integer")) {
                    types.retain(|ty| *ty != "number");
                }
            }
            None => {
                let about: BTreeSet<&str> =
                    schema.keys().flat_map(|keyword| inferred_types(keyword)).copied().collect();
                types.extend(TYPES.iter().filter(|ty| about.contains(*ty)));
            }
        }
    }
    if types.contains(&"number") {
        types.retain(|ty| *ty != "integer");
    }
    if schema.get("nullable") == Some(&Value::Bool(true)) && !types.is_empty() && !types.contains(&"null") {
        types.push("null");
    }
    types
}

fn inferred_types(keyword: &str) -> &'static [&'static str] {
    if keyword == "format" { &["string"] } else { keyword_types(keyword) }
}

/// Returns whether a value has a type of JSON Schema.
pub(super) fn is_of_type(value: &Value, ty: &str) -> bool {
    match value {
        Value::String(_) => ty == "string",
        Value::Bool(_) => ty == "boolean",
        Value::Null => ty == "null",
        Value::Object(_) => ty == "object",
        Value::Array(_) => ty == "array",
        Value::Number(number) => ty == "number" || (ty == "integer" && (number.is_i64() || number.is_u64())),
    }
}

/// Returns the names in `required`. A value of another form, such as the boolean of draft 3, names none.
pub(super) fn required_names(schema: &Map<String, Value>) -> BTreeSet<String> {
    let names = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

pub(super) fn alternatives_of(schema: &Map<String, Value>) -> &[Value] {
    schema.get("anyOf").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns whether a schema describes values, rather than a further condition on them.
pub(super) fn has_shape(schema: &Value) -> bool {
    SHAPES.iter().any(|keyword| schema.get(*keyword).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_the_types_of_a_schema() {
        fn check(schema: Value, expected: &[&str]) {
            assert_eq!(types_of(schema.as_object().unwrap()), expected, "{schema}");
        }

        check(json!({}), &[]);
        check(json!({"type": "any"}), &[]);
        check(json!({"type": ["null", "string", "odd"]}), &["string", "null"]);
        check(json!({"type": ["integer", "number"]}), &["number"]);
        check(json!({"type": "string", "nullable": true}), &["string", "null"]);
        check(json!({"enum": ["a", null, 1]}), &["string", "integer", "null"]);
        check(json!({"enum": [1.5]}), &["number"]);
        check(json!({"required": ["a"]}), &["object"]);
        check(json!({"minimum": 1}), &["number"]);
        check(json!({"pattern": "a", "items": {}}), &["string", "array"]);
        check(json!({"format": "uri"}), &["string"]);
        check(json!({"default": 1, "not": {}}), &[]);
    }
}
