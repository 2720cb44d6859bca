//! Example arguments of tools, for prompts. They match the schemas.

use fumehood_core::chat::ToolSpec;
use serde_json::{Map, Value, json};

/// Maximum nesting of example arguments.
const MAX_DEPTH: usize = 4;

/// Returns arguments for a call of the tool: the required properties, or else the first one. Examples with different
/// `variant` have different values.
pub(crate) fn example_arguments(tool: &ToolSpec, variant: usize) -> Value {
    example_object(&tool.parameters, variant, 0)
}

fn example_object(schema: &Value, variant: usize, depth: usize) -> Value {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return json!({}) };
    let required: Vec<&str> =
        schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let mut chosen = Map::new();
    for (name, property) in properties {
        let is_wanted = required.contains(&name.as_str()) || (required.is_empty() && chosen.is_empty());
        if is_wanted {
            let value = example_value(property, variant.saturating_add(chosen.len()), depth.saturating_add(1));
            chosen.insert(name.clone(), value);
        }
    }
    Value::Object(chosen)
}

fn example_value(schema: &Value, variant: usize, depth: usize) -> Value {
    let listed = schema.get("enum").and_then(Value::as_array).and_then(|listed| listed.first());
    if let Some(value) = schema.get("const").or(listed) {
        return value.clone();
    }
    let several = ["anyOf", "oneOf"].iter().find_map(|name| schema.get(*name)?.as_array()?.first());
    if let Some(first) = several.filter(|_| depth < MAX_DEPTH) {
        return example_value(first, variant, depth.saturating_add(1));
    }
    let kind = schema.get("type");
    let kind = kind.and_then(Value::as_str).or_else(|| kind?.as_array()?.first()?.as_str());
    let number = [7, 12, 4, 20].get(variant % 4).copied().unwrap_or(7);
    match kind {
        Some("integer" | "number") => json!(number),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("null") => Value::Null,
        Some("object") if depth < MAX_DEPTH => example_object(schema, variant, depth),
        Some("object") => json!({}),
        _ => json!(["a", "b", "c", "d"].get(variant % 4).copied().unwrap_or("a")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_have_the_required_properties() {
        fn check(parameters: Value, expected: Value) {
            let tool = ToolSpec { name: "t".to_owned(), alias: None, description: String::new(), parameters };
            assert_eq!(example_arguments(&tool, 0), expected);
        }

        let number = json!({"type": "number"});
        check(json!({"properties": {"a": number, "b": number}, "required": ["a", "b"]}), json!({"a": 7, "b": 12}));
        check(json!({"properties": {"a": number, "b": {"type": "string"}}, "required": ["b"]}), json!({"b": "a"}));
        check(json!({"properties": {"zone": {"type": ["string", "null"]}, "b": {}}}), json!({"zone": "a"}));
        check(json!({"properties": {"of": {"enum": ["sum"]}}, "required": ["of"]}), json!({"of": "sum"}));
        check(json!({"properties": {"x": {"anyOf": [{"type": "boolean"}]}}}), json!({"x": true}));
        let nested = json!({"type": "object", "properties": {"y": {"type": "array"}}});
        check(json!({"properties": {"x": nested}}), json!({"x": {"y": []}}));
        check(json!({"type": "object"}), json!({}));
    }
}
