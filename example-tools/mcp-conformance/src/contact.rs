//! A tool with a hand-written schema that uses features new in draft 2020-12.

use fumehood_guest::{Annotations, Content, Definition, Tool, ToolError};
use serde_json::json;

/// Takes a name and a way to reach its bearer.
#[allow(non_camel_case_types, reason = "tools are named as functions are")]
#[derive(Debug)]
pub struct json_schema_2020_12_tool;

impl Tool for json_schema_2020_12_tool {
    const NAME: &'static str = "json_schema_2020_12_tool";

    fn definition() -> Definition {
        Definition {
            name: Self::NAME.to_owned(),
            title: None,
            description: "Tool with JSON Schema 2020-12 features".to_owned(),
            input_schema: json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": {
                    "address": {
                        "$anchor": "addressDef",
                        "type": "object",
                        "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
                    }
                },
                "properties": {
                    "name": {"type": "string"},
                    "address": {"$ref": "#/$defs/address"},
                    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                    "phone": {"type": "string"},
                    "email": {"type": "string"}
                },
                "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
                "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
                "then": {"required": ["phone"]},
                "else": {"required": ["email"]},
                "additionalProperties": false
            }),
            output_schema: None,
            annotations: Annotations::default(),
        }
    }

    fn call(arguments: &str) -> Result<Vec<Content>, ToolError> {
        Ok(vec![Content::text(format!("JSON Schema 2020-12 tool called with: {arguments}"))])
    }
}
