//! Tests of translated schemas: every one is within the subset of its dialect, and its arguments fit the original.

mod random_schemas;

use fumehood_core::schema::gate::{Gate, GateLimits};
use serde_json::{Map, Value, json};

use random_schemas::{NAMES, Numbers};

use super::dialect::NameRule;
use super::property_names::is_accepted;
use super::{AdaptedSchema, Dialect, adapt};
use crate::spec::Service;

const COMMON: [&str; 7] = ["type", "description", "properties", "required", "items", "enum", "anyOf"];
const TYPES: [&str; 7] = ["string", "integer", "number", "boolean", "object", "array", "null"];

/// Lists what of a schema is outside of its dialect.
fn violations(schema: &Value, dialect: &Dialect, place: &str, found: &mut Vec<String>) {
    let Some(map) = schema.as_object() else { return found.push(format!("{place}: no object: {schema}")) };
    for keyword in map.keys() {
        if !COMMON.contains(&keyword.as_str()) && !dialect.has_keyword(keyword) {
            found.push(format!("{place}: {keyword}"));
        }
    }
    match map.get("type") {
        Some(Value::String(ty)) if !TYPES.contains(&ty.as_str()) => found.push(format!("{place}: type {ty}")),
        Some(Value::String(ty)) if ty == "null" && !dialect.has_null => found.push(format!("{place}: null")),
        Some(Value::String(_)) => {}
        Some(ty) => found.push(format!("{place}: type {ty}")),
        None if !dialect.has_untyped && !map.contains_key("anyOf") => found.push(format!("{place}: no type")),
        None => {}
    }
    let is_type = |ty: &str| map.get("type") == Some(&ty.into());
    for (keyword, ty) in [("properties", "object"), ("required", "object"), ("items", "array")] {
        if map.contains_key(keyword) && !is_type(ty) {
            found.push(format!("{place}: {keyword} without type {ty}"));
        }
    }
    if is_type("array") && !map.contains_key("items") || is_type("object") && !map.contains_key("properties") {
        found.push(format!("{place}: an array without items, or an object without properties"));
    }
    if let Some(format) = map.get("format").filter(|format| !format.as_str().is_some_and(|f| dialect.has_format(f))) {
        found.push(format!("{place}: format {format}"));
    }
    if let Some(values) = map.get("enum") {
        let values = values.as_array().cloned().unwrap_or_default();
        let are_strings = values.iter().all(Value::is_string);
        if values.is_empty()
            || values.iter().any(|v| v.is_array() || v.is_object())
            || (dialect.string_enums_only && !are_strings)
        {
            found.push(format!("{place}: enum {values:?}"));
        }
    }
    let properties = map.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    for (name, schema) in &properties {
        if !is_accepted(name, dialect.names) {
            found.push(format!("{place}: property {name}"));
        }
        violations(schema, dialect, &format!("{place}/{name}"), found);
    }
    for name in map.get("required").and_then(Value::as_array).into_iter().flatten() {
        if !name.as_str().is_some_and(|name| properties.contains_key(name)) {
            found.push(format!("{place}: requires {name}"));
        }
    }
    let alternatives = map.get("anyOf").map(|alternatives| alternatives.as_array().cloned().unwrap_or_default());
    if alternatives.as_ref().is_some_and(|alternatives| alternatives.len() < 2 || place.is_empty()) {
        found.push(format!("{place}: anyOf"));
    }
    let others = map.get("additionalProperties").filter(|others| !others.is_boolean()).into_iter();
    for schema in alternatives.iter().flatten().chain(map.get("items")).chain(others) {
        violations(schema, dialect, &format!("{place}/*"), found);
    }
}

/// Translates a schema to a dialect, and asserts that the result is within it.
fn adapted(schema: &Value, service: Service) -> AdaptedSchema {
    let dialect = Dialect::of(service);
    let adapted = adapt(schema, dialect);
    let mut found = Vec::new();
    violations(&adapted.schema, dialect, "", &mut found);
    assert_eq!(adapted.schema["type"], "object", "{service}: {schema}");
    assert!(found.is_empty(), "{service}: {schema}\nbecame {}\n{found:#?}", adapted.schema);
    adapted
}

fn check(service: Service, schema: Value, expected: Value) {
    assert_eq!(adapted(&schema, service).schema, expected, "{service}: {schema}");
}

#[test]
fn root_is_an_object_with_properties() {
    for service in Service::ALL {
        for schema in [json!({}), json!({"type": "object"}), json!({"type": "object", "properties": null}), json!(true)]
        {
            check(service, schema, json!({"type": "object", "properties": {}}));
        }
        let city = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
        check(service, json!({"$ref": "#/$defs/A", "$defs": {"A": city.clone()}}), city.clone());
        check(service, json!({"allOf": [{"$ref": "#/definitions/A"}], "definitions": {"A": city.clone()}}), city);
    }
}

#[test]
fn alternatives_of_the_root_are_merged() {
    let schema = json!({"type": "object", "anyOf": [
        {"properties": {"kind": {"const": "text"}, "content": {"type": "string"}}, "required": ["kind", "content"]},
        {"properties": {"kind": {"const": "link"}, "url": {"type": "string"}}, "required": ["kind", "url"]},
    ]});
    for service in Service::ALL {
        let found = adapted(&schema, service);
        let expected = json!({"type": "object", "properties": {
            "kind": {"type": "string", "enum": ["text", "link"]},
            "content": {"type": "string"},
            "url": {"type": "string"},
        }, "required": ["kind"]});
        assert_eq!(found.schema, expected, "{service}");
        assert_eq!(found.describe("Adds."), "Adds. (requires content and kind, or kind and url)");
    }
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    let found = adapted(&schema, Service::Anthropic);
    assert_eq!(
        found.schema,
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}})
    );
    assert_eq!(found.describe(""), "requires a, or b");
}

#[test]
fn root_that_is_no_object_is_wrapped() {
    for (service, schema) in Service::ALL.iter().flat_map(|service| {
        [
            json!({"type": "array", "items": {"type": "string"}}),
            json!({"anyOf": [{"type": "string"}, {"type": "number"}]}),
        ]
        .map(|schema| (*service, schema))
    }) {
        let found = adapted(&schema, service);
        assert_eq!(found.schema["required"], json!(["value"]), "{service}");
        assert_eq!(found.shape.to_original(r#"{"value":["a"]}"#), r#"["a"]"#);
    }
}

#[test]
fn dropped_rules_are_in_the_description() {
    let schema = json!({"type": "object", "properties": {
        "k": {"type": "string", "pattern": "^(?!admin)[a-z]+$", "description": "The key."},
        "n": {"type": "integer", "minimum": 0, "maximum": 18_446_744_073_709_551_615_u64, "default": 3},
        "u": {"type": "string", "format": "uri"},
        "f": {"const": 7},
    }});
    let properties = |service| adapted(&schema, service).schema["properties"].clone();
    let ollama = json!({
        "k": {"type": "string", "description": "The key. (pattern ^(?!admin)[a-z]+$)"},
        "n": {"type": "integer", "description": "at least 0; at most 18446744073709551615; default 3"},
        "u": {"type": "string", "description": "format uri"},
        "f": {"type": "integer", "enum": [7]},
    });
    assert_eq!(properties(Service::Ollama), ollama);
    let gemini = properties(Service::Gemini);
    assert_eq!(gemini["n"]["minimum"], 0);
    assert_eq!(gemini["n"]["description"], "at most 18446744073709551615; default 3");
    assert_eq!(gemini["f"], json!({"type": "integer", "description": "one of 7"}));
    assert_eq!(properties(Service::Anthropic)["u"], json!({"type": "string", "format": "uri"}));
}

#[test]
fn types_and_alternatives_of_a_property() {
    fn check(service: Service, property: Value, expected: Value) {
        let schema = json!({"type": "object", "properties": {"p": property}});
        assert_eq!(adapted(&schema, service).schema["properties"]["p"], expected, "{service}: {schema}");
    }

    for service in [Service::OpenAi, Service::Compatible, Service::Anthropic, Service::Gemini] {
        let nullable = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
        check(service, json!({"type": ["string", "null"]}), nullable.clone());
        check(service, json!({"type": "string", "nullable": true}), nullable.clone());
        check(service, json!({"oneOf": [{"type": "string"}, {"type": "null"}]}), nullable);
        check(
            service,
            json!({"type": ["string", "null"], "enum": ["a", null], "description": "D"}),
            json!({"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}], "description": "D"}),
        );
    }
    check(
        Service::Ollama,
        json!({"type": ["string", "null"]}),
        json!({"type": "string", "description": "may be null"}),
    );
    check(
        Service::Ollama,
        json!({"anyOf": [{"type": "string"}, {"type": "null"}]}),
        json!({"type": "string", "description": "may be null"}),
    );
    check(Service::OpenAi, json!({}), json!({}));
    check(Service::OpenAi, json!({"type": "array"}), json!({"type": "array", "items": {}}));
    check(Service::OpenAi, json!({"type": "file"}), json!({"description": "type file"}));
    check(
        Service::OpenAi,
        json!({"type": "array", "prefixItems": [{"type": "number"}, {"type": "number"}]}),
        json!({"type": "array", "items": {"type": "number"},
            "description": r#"items in this order: {"type":"number"}, {"type":"number"}"#}),
    );
    check(
        Service::OpenAi,
        json!({"$ref": "https://example.com/thing.json"}),
        json!({"description": "as described in https://example.com/thing.json"}),
    );
}

#[test]
fn recursive_schemas_end() {
    let schema = json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
    }}});
    for service in Service::ALL {
        let text = adapted(&schema, service).schema.to_string();
        assert!(text.contains("nested like `node`") && text.len() < 1000, "{service}: {text}");
    }
    // Each level refers to the next one ten times.
    let level = |n: usize| {
        let properties: Map<String, Value> =
            (0..10).map(|p| (format!("p{p}"), json!({"$ref": format!("#/$defs/l{}", n + 1)}))).collect();
        (format!("l{n}"), json!({"type": "object", "properties": properties}))
    };
    let definitions: Map<String, Value> = (0..20).map(level).collect();
    let schema = json!({"$ref": "#/$defs/l0", "$defs": definitions});
    for service in Service::ALL {
        assert!(adapted(&schema, service).schema.to_string().len() < 1 << 20, "{service}");
    }
}

#[test]
fn renamed_properties_are_restored_for_the_gate() {
    let schema = json!({"type": "object", "properties": {
        "$top": {"type": "integer"},
        "filter[name]": {"type": "array", "items": {"type": "object", "properties": {"größe": {"type": "number"}}}},
        "a b": {"anyOf": [{"type": "object", "properties": {"x y": {"type": "string"}}}, {"type": "null"}]},
        "ok": {"type": "boolean"},
    }, "required": ["$top"]});
    let gate = Gate::for_arguments(&schema, GateLimits::default()).unwrap();
    for service in Service::ALL {
        let found = adapted(&schema, service);
        let same = Dialect::of(service).names == NameRule::Any;
        assert_eq!(found.shape.is_same(), same, "{service}");
        assert_eq!(found.schema["required"], json!([if same { "$top" } else { "top" }]), "{service}");
        let original = json!({"$top": 1, "filter[name]": [{"größe": 2.5}], "a b": {"x y": "z"}, "ok": true});
        let sent = found.shape.to_wire(original.clone());
        assert_eq!(sent.get("$top").is_some(), same, "{service}");
        let description = if same { Value::Null } else { json!("the tool calls it $top") };
        assert_eq!(found.schema["properties"][if same { "$top" } else { "top" }]["description"], description);
        assert_eq!(gate.parse(&found.shape.to_original(&sent.to_string())), Ok(original), "{service}");
    }
}

/// Returns whether all names in a document are of the original schemas.
fn has_original_names(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.iter().all(|(name, value)| NAMES.contains(&name.as_str()) && has_original_names(value))
        }
        Value::Array(items) => items.iter().all(has_original_names),
        _ => true,
    }
}

/// Returns arguments that a translated schema describes, as far as its types, properties and values go.
fn arguments(schema: &Value, numbers: &mut Numbers) -> Value {
    if let Some(alternatives) = schema.get("anyOf").and_then(Value::as_array) {
        return arguments(numbers.pick(alternatives), numbers);
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return numbers.pick(values).clone();
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => {
            let properties = schema["properties"].as_object().unwrap();
            properties.iter().map(|(name, schema)| (name.clone(), arguments(schema, numbers))).collect()
        }
        Some("array") => (0..numbers.below(3)).map(|_| arguments(&schema["items"], numbers)).collect(),
        Some("integer") => json!(numbers.below(9)),
        Some("number") => json!(0.5),
        Some("boolean") => json!(true),
        Some("string") => json!("text"),
        _ => Value::Null,
    }
}

#[test]
fn any_schema_becomes_one_of_the_dialect() {
    let mut numbers = Numbers(7);
    for _ in 0..1500 {
        let mut schema = numbers.schema(4);
        if let Some(map) = schema.as_object_mut().filter(|_| numbers.below(2) == 0) {
            map.insert("$defs".to_owned(), json!({"a": numbers.schema(3), "b": numbers.schema(2)}));
        }
        for service in Service::ALL {
            let found = adapted(&schema, service);
            assert!(found.schema.to_string().len() < 1 << 20, "{schema}");
            // Arguments of the adapted schema come back under names of the original, and go out under the same again.
            let sent = arguments(&found.schema, &mut numbers);
            let text = sent.to_string();
            let original: Value = serde_json::from_str(&found.shape.to_original(&text)).unwrap();
            assert!(has_original_names(&original), "{service}: {schema}: {original}");
            assert_eq!(found.shape.to_wire(original), sent, "{service}: {schema}");
        }
    }
}

#[test]
fn arguments_of_an_adapted_schema_are_judged_by_the_gate() {
    let mut numbers = Numbers(11);
    let mut judged = 0;
    let mut accepted = 0;
    for _ in 0..1500 {
        let mut schema = numbers.schema(4);
        if let Some(map) = schema.as_object_mut() {
            map.insert("type".to_owned(), "object".into());
        }
        let Ok(gate) = Gate::for_arguments(&schema, GateLimits::default()) else { continue };
        for service in Service::ALL {
            let found = adapted(&schema, service);
            let text = arguments(&found.schema, &mut numbers).to_string();
            let original = found.shape.to_original(&text);
            judged += 1;
            accepted += usize::from(gate.parse(&original).is_ok());
        }
    }
    // The others break rules that a dialect only describes, or that these arguments do not follow.
    assert!(judged > 1000 && accepted > judged / 2, "{accepted} of {judged}");
}
