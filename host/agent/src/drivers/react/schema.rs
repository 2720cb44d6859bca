//! The JSON Schema of a decision, for providers that enforce a schema.

use fumehood_core::chat::ToolSpec;
use serde_json::{Map, Value, json};

/// Maximum number of tools whose arguments the schema describes. With more, it only names the tools.
const MAX_DESCRIBED_TOOLS: usize = 32;
/// Maximum nesting of the described arguments.
const MAX_ARGUMENT_DEPTH: usize = 8;

/// Builds the schema: one variant for each tool, and one for the answer.
///
/// The schema only narrows the output of a model; arguments are validated against the tool's own schema in any case. So
/// it uses only keywords that providers can turn into a grammar, and allows at least the arguments that the tools
/// accept.
pub(super) fn decision_schema(tools: &[ToolSpec]) -> Value {
    let mut choices: Vec<Value> = match tools.len() {
        0 => Vec::new(),
        1..=MAX_DESCRIBED_TOOLS => {
            tools.iter().map(|tool| call_schema(std::slice::from_ref(tool), simplify(&tool.parameters, 0))).collect()
        }
        _ => vec![call_schema(tools, json!({"type": "object"}))],
    };
    choices.push(variant_schema("final_answer", [("answer", json!({"type": "string"}))]));
    // Some providers require the type of the whole.
    json!({"type": "object", "anyOf": choices})
}

fn call_schema(tools: &[ToolSpec], args: Value) -> Value {
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    variant_schema("call_tool", [("tool", json!({"type": "string", "enum": names})), ("args", args)])
}

/// Builds the schema of a decision of this type with these fields. The thought comes first, so that the rest can follow
/// from it.
fn variant_schema<const N: usize>(kind: &str, fields: [(&str, Value); N]) -> Value {
    let mut properties = Map::new();
    properties.insert("thought".to_owned(), json!({"type": "string"}));
    properties.insert("type".to_owned(), json!({"type": "string", "enum": [kind]}));
    properties.extend(fields.map(|(name, schema)| (name.to_owned(), schema)));
    let required: Vec<&String> = properties.keys().collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Reduces a schema to its types, properties and choices. A schema with a `$ref` becomes one that allows anything.
fn simplify(schema: &Value, depth: usize) -> Value {
    let Some(schema) = schema.as_object().filter(|schema| depth < MAX_ARGUMENT_DEPTH && !schema.contains_key("$ref"))
    else {
        return json!({});
    };
    let mut outline = Map::new();
    for name in ["type", "enum", "const", "required"] {
        outline.extend(schema.get(name).map(|value| (name.to_owned(), value.clone())));
    }
    if let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|known| !known.is_empty()) {
        let properties = properties.iter().map(|(name, inner)| (name.clone(), simplify(inner, depth + 1)));
        outline.insert("properties".to_owned(), Value::Object(properties.collect()));
        // Undeclared properties are rejected unless the tool's schema allows them.
        if !schema.contains_key("additionalProperties") && !schema.contains_key("patternProperties") {
            outline.insert("additionalProperties".to_owned(), Value::Bool(false));
        }
    } else {
        // Only described properties can be required.
        outline.remove("required");
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        outline.insert("items".to_owned(), simplify(items, depth + 1));
    }
    let choices = ["anyOf", "oneOf"].iter().find_map(|name| schema.get(*name)?.as_array());
    if let Some(choices) = choices.filter(|_| !outline.contains_key("properties")) {
        let choices = choices.iter().map(|choice| simplify(choice, depth + 1));
        outline.insert("anyOf".to_owned(), Value::Array(choices.collect()));
    }
    Value::Object(outline)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, parameters: Value) -> ToolSpec {
        ToolSpec { name: name.to_owned(), alias: None, description: String::new(), parameters }
    }

    #[test]
    fn describes_each_tool_and_the_answer() {
        let pair = json!({
            "type": "object",
            "properties": {"a": {"type": "number", "description": "The first."}, "b": {"type": "number", "minimum": 0}},
            "required": ["a", "b"],
        });
        let schema = decision_schema(&[tool("calculator__add", pair)]);
        let args = json!({
            "type": "object",
            "required": ["a", "b"],
            "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
            "additionalProperties": false,
        });
        let text = json!({"type": "string"});
        let expected = json!({"type": "object", "anyOf": [
            {
                "type": "object",
                "properties": {
                    "thought": text,
                    "type": {"type": "string", "enum": ["call_tool"]},
                    "tool": {"type": "string", "enum": ["calculator__add"]},
                    "args": args,
                },
                "required": ["thought", "type", "tool", "args"],
                "additionalProperties": false,
            },
            {
                "type": "object",
                "properties": {"thought": text, "type": {"type": "string", "enum": ["final_answer"]}, "answer": text},
                "required": ["thought", "type", "answer"],
                "additionalProperties": false,
            },
        ]});
        assert_eq!(schema, expected);
        let order: Vec<_> = schema["anyOf"][0]["properties"].as_object().unwrap().keys().collect();
        assert_eq!(order, ["thought", "type", "tool", "args"]);
    }

    #[test]
    fn describes_only_the_answer_without_tools() {
        let schema = decision_schema(&[]);
        assert_eq!(schema["anyOf"].as_array().map(Vec::len), Some(1));
        assert_eq!(schema["anyOf"][0]["required"], json!(["thought", "type", "answer"]));
    }

    #[test]
    fn leaves_arguments_of_many_tools_open() {
        let tools: Vec<ToolSpec> = (0..100).map(|n| tool(&format!("t{n}"), json!({"type": "object"}))).collect();
        let schema = decision_schema(&tools);
        assert_eq!(schema["anyOf"].as_array().map(Vec::len), Some(2));
        let properties = &schema["anyOf"][0]["properties"];
        assert_eq!(properties["tool"]["enum"].as_array().map(Vec::len), Some(100));
        assert_eq!(properties["args"], json!({"type": "object"}));
    }

    #[test]
    fn reduces_schemas_to_what_a_grammar_can_express() {
        fn check(given: Value, expected: Value) {
            assert_eq!(simplify(&given, 0), expected);
        }

        check(json!({"$ref": "#/$defs/x"}), json!({}));
        check(json!(true), json!({}));
        check(
            json!({"type": "string", "pattern": "(?=a)", "format": "uri", "maxLength": 5}),
            json!({"type": "string"}),
        );
        check(json!({"type": "array", "items": {"enum": [1, 2]}}), json!({"type": "array", "items": {"enum": [1, 2]}}));
        check(json!({"type": "object", "required": ["x"]}), json!({"type": "object"}));
        let open = json!({"type": "object", "properties": {"x": {}}, "additionalProperties": {"type": "string"}});
        check(open, json!({"type": "object", "properties": {"x": {}}}));
        let choices = json!({"oneOf": [{"type": "null"}, {"type": "string", "minLength": 1}]});
        check(choices, json!({"anyOf": [{"type": "null"}, {"type": "string"}]}));
        let deep = (0..100).fold(json!({"type": "string"}), |inner, _| json!({"type": "array", "items": inner}));
        assert!(simplify(&deep, 0).to_string().len() < 500);
    }
}
