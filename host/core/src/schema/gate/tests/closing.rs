//! Tests of undeclared properties, with and without a keyword that allows them.

use serde_json::{Value, json};

use super::arguments;
use crate::schema::gate::{Gate, GateLimits};

/// Checks that the document is rejected because of an undeclared `z`, and accepted without it.
fn assert_rejects_z(schema: Value, document: Value) {
    let gate = arguments(schema.clone());
    let refused = gate.check(&document).expect_err(&format!("{schema} takes {document}"));
    assert!(
        refused.violations.iter().any(|violation| violation.pointer.ends_with("/z")),
        "{schema} {document}: {refused}"
    );
    let mut clean = document.clone();
    without_z(&mut clean);
    gate.check(&clean).unwrap_or_else(|refused| panic!("{schema} {clean}: {refused}"));
}

#[test]
fn rejects_undeclared_properties() {
    assert_rejects_z(json!({}), json!({"z": 1}));
    assert_rejects_z(json!({"title": "nothing"}), json!({"z": 1}));
    assert_rejects_z(json!({"type": "object"}), json!({"z": 1}));
    assert_rejects_z(json!({"required": ["a"]}), json!({"a": 1, "z": 1}));
    assert_rejects_z(json!({"type": "object", "$ref": "#/$defs/any", "$defs": {"any": {}}}), json!({"z": 1}));
    assert_rejects_z(json!({"type": "object", "anyOf": [true, {"type": "null"}]}), json!({"z": 1}));
    assert_rejects_z(json!({"properties": {"a": {"type": "object", "properties": {}}}}), json!({"a": {"z": 1}}));
    assert_rejects_z(
        json!({"properties": {"a": {"items": {"properties": {"b": true}}}}}),
        json!({"a": [{"b": 1, "z": 1}]}),
    );
    assert_rejects_z(
        json!({"properties": {"a": {"prefixItems": [{"type": "object", "required": ["b"]}]}}}),
        json!({"a": [{"b": 1, "z": 1}]}),
    );
    assert_rejects_z(json!({"additionalProperties": {"properties": {"b": true}}}), json!({"any": {"b": 1, "z": 1}}));
    assert_rejects_z(json!({"patternProperties": {"^x": {"properties": {}}}}), json!({"xy": {"z": 1}}));
    assert_rejects_z(json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object"}}}), json!({"z": 1}));
    assert_rejects_z(json!({"anyOf": [{"type": "object"}]}), json!({"z": 1}));
    assert_rejects_z(json!({"patternProperties": {"^x": {"type": "object"}}}), json!({"xy": {}, "z": 1}));
}

#[test]
fn rejects_undeclared_properties_of_composed_schemas() {
    assert_rejects_z(
        json!({"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": true}}}}),
        json!({"a": 1, "z": 1}),
    );
    assert_rejects_z(
        json!({"allOf": [{"properties": {"a": true}}, {"properties": {"b": true}}]}),
        json!({"a": 1, "b": 1, "z": 1}),
    );
    assert_rejects_z(
        json!({"type": "object", "properties": {"a": true}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        json!({"a": 1, "z": 1}),
    );
    assert_rejects_z(
        json!({"properties": {"p": {"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}},
               "$defs": {"A": {"type": "object", "properties": {"a": true}}}}),
        json!({"p": {"a": 1, "z": 1}}),
    );
    assert_rejects_z(
        json!({"properties": {"k": true}, "if": {"required": ["k"]}, "then": {"properties": {"t": true}}}),
        json!({"k": 1, "t": 1, "z": 1}),
    );
    assert_rejects_z(
        json!({"properties": {"t": {"$ref": "#/$defs/T"}},
               "$defs": {"T": {"properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}}}),
        json!({"t": {"kids": [{"kids": [{"z": 1}]}]}}),
    );
}

#[test]
fn accepts_any_property_of_bare_objects_below_root() {
    fn check(schema: Value) {
        let gate = arguments(json!({"type": "object", "properties": {"a": schema}}));
        for document in [json!({"a": {}}), json!({"a": {"z": {"z": [1]}}})] {
            gate.check(&document).unwrap_or_else(|refused| panic!("{schema} {document}: {refused}"));
        }
        assert!(gate.check(&json!({"z": 1})).is_err());
    }

    let bare = json!({"type": "object"});
    check(bare.clone());
    check(json!({"type": ["object", "null"], "description": "any"}));
    check(json!({"type": "object", "minProperties": 0}));
    check(json!({"anyOf": [bare, {"type": "null"}]}));
    check(json!({"anyOf": [{"type": "object", "properties": {"b": true}}, bare]}));
    let gate = arguments(json!({
        "properties": {"a": {"$ref": "#/$defs/Any"}, "b": {"items": {"type": "object"}}},
        "$defs": {"Any": {"type": "object"}},
    }));
    assert_eq!(gate.check(&json!({"a": {"z": 1}, "b": [{"z": 1}]})), Ok(()));
}

fn without_z(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("z");
            members.values_mut().for_each(without_z);
        }
        Value::Array(items) => items.iter_mut().for_each(without_z),
        _ => {}
    }
}

#[test]
fn keeps_explicitly_open_schemas_open() {
    fn check(schema: Value, document: Value) {
        let gate = arguments(schema.clone());
        gate.check(&document).unwrap_or_else(|refused| panic!("{schema} {document}: {refused}"));
    }

    check(json!({"type": "object", "additionalProperties": true}), json!({"z": 1}));
    check(json!({"properties": {"a": {"additionalProperties": {"type": "integer"}}}}), json!({"a": {"z": 1}}));
    check(json!({"properties": {"a": true, "b": {}}}), json!({"a": {"z": 1}, "b": {"z": {"z": 1}}}));
    check(json!({"properties": {"a": {"description": "any"}}}), json!({"a": {"z": 1}}));
    check(json!({"properties": {"a": {"type": "object", "const": {"z": 1}}}}), json!({"a": {"z": 1}}));
    check(json!({"properties": {"a": {"not": {"type": "object", "properties": {"q": false}}}}}), json!({"a": 1}));
    check(json!({"properties": {"required": {"type": "string"}}}), json!({"required": "x"}));
    // A condition keeps its meaning: it is not closed.
    check(
        json!({"properties": {"a": true, "b": true}, "if": {"properties": {"a": {"type": "object", "properties": {}}}},
               "then": {"required": ["b"]}}),
        json!({"a": {"z": 1}, "b": 1}),
    );
    let results = Gate::for_results(&json!({"type": "object", "properties": {"a": true}}), GateLimits::default());
    assert_eq!(results.unwrap().check(&json!({"a": 1, "z": 1})), Ok(()));
    let any = Gate::for_results(&json!(true), GateLimits::default()).unwrap();
    assert_eq!(any.check(&json!("text")), Ok(()));
    assert_eq!(Gate::for_results(&json!({}), GateLimits::default()).unwrap().check(&json!([1])), Ok(()));
}
