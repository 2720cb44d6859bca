//! Tests of the translation and pruning of foreign schemas.

use serde_json::{Value, json};

use crate::schema::gate::{ForeignGate, ForeignSchema, Gate, GateLimits, UncheckedReason};

fn foreign(schema: &Value) -> ForeignGate {
    let limits = GateLimits::default();
    Gate::for_foreign_arguments(&ForeignSchema::translate(schema, &limits), limits).unwrap()
}

/// Returns the gate of a schema that it checks completely.
fn complete(schema: Value) -> Gate {
    let ForeignGate { gate, unchecked, .. } = foreign(&schema);
    assert_eq!(unchecked, [], "{schema}");
    gate
}

#[test]
fn checks_schemas_of_older_drafts() {
    let gate = complete(json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "https://example.com/tool",
        "type": "object",
        "properties": {
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false},
            "entry": {"$ref": "#/definitions/entry"},
            "first": {"$ref": "#/properties/pair/items/0"},
            "any": {"type": "object"},
        },
        "dependencies": {"pair": ["entry"]},
        "definitions": {"entry": {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}},
        "additionalProperties": false,
    }));
    let fits = json!({"pair": ["a", 1], "entry": {"n": 1}, "first": "x", "any": {"z": 1}});
    assert_eq!(gate.check(&fits), Ok(()));
    for wrong in [
        json!({"pair": ["a", 1, 2], "entry": {"n": 1}}),
        json!({"pair": ["a", 1]}),
        json!({"entry": {}}),
        json!({"first": 1}),
        json!({"z": 1}),
    ] {
        assert!(gate.check(&wrong).is_err(), "{wrong}");
    }
    let gate = complete(json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}},
    }));
    assert_eq!((gate.check(&json!({"n": 1})).is_ok(), gate.check(&json!({"n": 0})).is_ok()), (true, false));
}

#[test]
fn reports_unsupported_parts_as_unchecked() {
    fn check(property: Value, pointer: &str, reason: UncheckedReason) {
        let schema = json!({"type": "object", "properties": {"a": property, "b": {"type": "integer"}}});
        let ForeignGate { gate, unchecked, .. } = foreign(&schema);
        let found: Vec<_> = unchecked.iter().map(|part| (part.pointer.as_str(), part.reason)).collect();
        assert_eq!(found, [(pointer, reason)], "{schema}");
        // The rest is still checked.
        assert_eq!(gate.check(&json!({"a": "x", "b": 1})), Ok(()), "{schema}");
        assert!(gate.check(&json!({"b": "x"})).is_err() && gate.check(&json!({"z": 1})).is_ok(), "{schema}");
    }

    check(json!({"type": "string", "pattern": "^(?!-)"}), "/properties/a/pattern", UncheckedReason::Pattern);
    check(json!({"pattern": "x".repeat(513)}), "/properties/a/pattern", UncheckedReason::Pattern);
    check(json!({"type": "any"}), "/properties/a/type", UncheckedReason::Keyword);
    check(json!("string"), "/properties/a", UncheckedReason::Keyword);
    check(json!({"required": true}), "/properties/a/required", UncheckedReason::Keyword);
    check(json!({"$ref": "https://example.com/other.json"}), "/properties/a/$ref", UncheckedReason::Reference);
    check(json!({"$ref": "#/definitions/gone"}), "/properties/a/$ref", UncheckedReason::Reference);
}

#[test]
fn accepts_names_of_unsupported_patterns() {
    let schema = json!({"patternProperties": {"^(?=x)": {"type": "integer"}}, "additionalProperties": false});
    let ForeignGate { gate, unchecked, .. } = foreign(&schema);
    assert_eq!(unchecked[0].pointer, "/patternProperties/^(?=x)");
    assert_eq!(gate.check(&json!({"xy": 1})), Ok(()));
}

#[test]
fn reads_unknown_dialect_as_2020_12() {
    let schema = json!({"$schema": "https://example.com/mine", "properties": {"a": {"type": "integer"}}});
    let ForeignGate { gate, unchecked, .. } = foreign(&schema);
    assert_eq!(unchecked[0].reason, UncheckedReason::Dialect);
    assert!(gate.check(&json!({"a": "x"})).is_err());
}

#[test]
fn checks_top_level_of_complex_schemas() {
    let deep = (0..40).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
    let schema = json!({"type": "object", "properties": {"a": deep, "n": {"type": "integer"}}, "required": ["n"]});
    let ForeignGate { gate, schema, unchecked } = foreign(&schema);
    assert_eq!(unchecked[0].reason, UncheckedReason::Complexity);
    assert_eq!(schema["properties"], json!({"a": true, "n": {"type": "integer"}}));
    assert_eq!(gate.check(&json!({"n": 1, "a": {"z": 1}})), Ok(()));
    for wrong in [json!({"n": "x"}), json!({"a": {}})] {
        assert!(gate.check(&wrong).is_err(), "{wrong}");
    }
}

#[test]
fn accepts_any_object_for_unusable_schemas() {
    for schema in [json!({"type": "string"}), json!(["x"]), json!({"$ref": "#"}), json!({"allOf": [{"$ref": "#"}]})] {
        let ForeignGate { gate, unchecked, .. } = foreign(&schema);
        assert_eq!(unchecked[0].reason, UncheckedReason::Everything, "{schema}");
        assert_eq!(gate.check(&json!({"z": 1})), Ok(()));
        assert!(gate.check(&json!([])).is_err());
    }
}

#[test]
fn translates_result_schemas_completely() {
    let limits = GateLimits::default;
    let seven = json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}]});
    let gate = Gate::for_foreign_results(&seven, limits()).unwrap();
    assert_eq!((gate.check(&json!(["a"])).is_ok(), gate.check(&json!([1])).is_ok()), (true, false));
    assert!(Gate::for_foreign_results(&json!({"pattern": "(?=x)"}), limits()).is_err());
    // Schemas of our own contract stay strict.
    assert!(Gate::for_arguments(&seven, limits()).is_err());
}
