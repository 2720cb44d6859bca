//! Property tests over any document and any schema.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::agree;
use crate::schema::gate::{Gate, GateLimits};

#[test]
fn explanations_agree_with_validator_on_every_keyword() {
    fn check(schema: Value, documents: &[Value]) {
        let gate = Gate::for_results(&schema, GateLimits::default()).unwrap();
        for document in documents {
            agree(&gate, document).unwrap_or_else(|why| panic!("{schema} {document}: {why}"));
        }
    }

    let values = [
        json!(null),
        json!(true),
        json!(0),
        json!(-0.0),
        json!(1),
        json!(1.0),
        json!(2.5),
        json!(9_007_199_254_740_993_u64),
        json!(""),
        json!("a"),
        json!("é😀"),
        json!([]),
        json!([1, 1.5]),
        json!([1, 1]),
        json!([[1], "x", {}]),
        json!({}),
        json!({"a": 1}),
        json!({"a": "x", "b": 1}),
        json!({"b": 2, "ab": 3}),
        json!({"a": {"a": {"a": 1}}}),
    ];
    for schema in [
        json!({"type": "integer"}),
        json!({"type": ["null", "array"]}),
        json!({"const": 1}),
        json!({"enum": [1.0, "a", []]}),
        json!({"minimum": 1}),
        json!({"exclusiveMinimum": 1, "maximum": 2.5}),
        json!({"multipleOf": 0.5}),
        json!({"minLength": 1, "maxLength": 2}),
        json!({"pattern": "^[^a]"}),
        json!({"minItems": 1, "maxItems": 2}),
        json!({"uniqueItems": true}),
        json!({"contains": {"type": "integer"}, "maxContains": 1}),
        json!({"contains": {"type": "string"}, "minContains": 0}),
        json!({"prefixItems": [{"type": "integer"}], "items": false}),
        json!({"prefixItems": [true], "unevaluatedItems": {"type": "integer"}}),
        json!({"items": {"type": "number"}}),
        json!({"required": ["a", "b"]}),
        json!({"dependentRequired": {"a": ["b"]}}),
        json!({"minProperties": 1, "maxProperties": 1}),
        json!({"properties": {"a": {"type": "integer"}}, "additionalProperties": false}),
        json!({"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": {"type": "integer"}}),
        json!({"propertyNames": {"maxLength": 1}}),
        json!({"not": {"type": "object"}}),
        json!({"not": {}}),
        json!(false),
        json!({"if": {"type": "object"}, "then": {"required": ["a"]}, "else": {"type": "array"}}),
        json!({"dependentSchemas": {"b": {"properties": {"a": {"type": "integer"}}}}}),
        json!({"oneOf": [{"type": "integer"}, {"minimum": 1}]}),
        json!({"anyOf": [{"type": "string"}, {"required": ["a"]}]}),
        json!({"anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"required": ["b"]}], "unevaluatedProperties": false}),
        json!({"allOf": [{"properties": {"a": true}}, {"patternProperties": {"b": true}}], "unevaluatedProperties": false}),
        json!({"properties": {"a": {"$ref": "#"}}, "additionalProperties": false, "type": "object"}),
        json!({"$ref": "#/$defs/x", "$dynamicRef": "#/$defs/y", "$defs": {"x": {"type": "object"}, "y": {"minProperties": 1}}}),
    ] {
        check(schema, &values);
    }
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("kind")].prop_map(str::to_owned)
}

/// Generates small documents with the names that the schemas use.
fn document() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(json!(null)),
        Just(json!(1)),
        Just(json!(2.5)),
        Just(json!("x")),
        Just(json!("y")),
        Just(json!(true)),
    ];
    scalar.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(false)),
        Just(json!({})),
        Just(json!({"type": "object"})),
        Just(json!({"type": "string"})),
        Just(json!({"type": ["integer", "null"]})),
        Just(json!({"const": "x"})),
        Just(json!({"enum": ["y"]})),
        Just(json!({"required": ["a"]})),
        Just(json!({"minProperties": 1, "maxItems": 1})),
        Just(json!({"$ref": "#/$defs/one"})),
        Just(json!({"$ref": "#/$defs/two"})),
        Just(json!({"$ref": "#"})),
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        let keyword = prop_oneof![
            Just("items"),
            Just("contains"),
            Just("not"),
            Just("if"),
            Just("then"),
            Just("else"),
            Just("additionalProperties"),
            Just("unevaluatedProperties"),
            Just("unevaluatedItems"),
            Just("propertyNames"),
        ];
        let list = prop_oneof![Just("allOf"), Just("anyOf"), Just("oneOf"), Just("prefixItems")];
        let named = prop_oneof![Just("properties"), Just("patternProperties"), Just("dependentSchemas")];
        let part = prop_oneof![
            (keyword, inner.clone()).prop_map(|(keyword, schema)| (keyword.to_owned(), schema)),
            (list, prop::collection::vec(inner.clone(), 1..4))
                .prop_map(|(keyword, list)| (keyword.to_owned(), json!(list))),
            (named, prop::collection::btree_map(name(), inner, 0..4))
                .prop_map(|(keyword, map)| (keyword.to_owned(), json!(map))),
            Just(("required".to_owned(), json!(["kind"]))),
            Just(("$ref".to_owned(), json!("#/$defs/one"))),
        ];
        prop::collection::vec(part, 1..4).prop_map(|parts| Value::Object(parts.into_iter().collect()))
    })
}

fn with_definitions(root: Value, one: Value, two: Value) -> Value {
    match root {
        Value::Object(mut map) => {
            map.insert("$defs".to_owned(), json!({"one": one, "two": two}));
            Value::Object(map)
        }
        other => other,
    }
}

fn open() -> Gate {
    Gate::for_results(&json!(true), GateLimits { string_bytes: 1 << 20, ..GateLimits::default() }).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn round_trips_values(value in value()) {
        prop_assert_eq!(open().parse(&value.to_string()), Ok(value));
    }

    #[test]
    fn survives_any_text(text in ".{0,64}") {
        let _survived = open().parse(&text);
    }

    #[test]
    fn survives_text_of_json_characters(text in r#"[\[\]{}",:0-9eE+.\\ultrafsn -]{0,64}"#) {
        let _survived = open().parse(&text);
    }

    #[test]
    fn survives_any_json_as_schema(schema in value()) {
        let _survived = Gate::for_arguments(&schema, GateLimits::default());
        let _survived = Gate::for_results(&schema, GateLimits::default());
    }

    #[test]
    fn explanations_agree_with_validator(
        root in schema(), one in schema(), two in schema(), documents in prop::collection::vec(document(), 4)
    ) {
        let schema = with_definitions(root, one, two);
        for gate in [
            Gate::for_results(&schema, GateLimits::default()),
            Gate::for_arguments(&schema, GateLimits::default()),
        ].into_iter().flatten() {
            for document in &documents {
                let agreed = agree(&gate, document);
                prop_assert!(agreed.is_ok(), "{:?} {}", agreed, document);
                if let Err(violations) = gate.check(document) {
                    prop_assert!(!violations.violations.is_empty() && !violations.to_string().is_empty());
                }
            }
        }
    }

    /// Without closing, a schema accepts the same documents as before the graph was built.
    #[test]
    fn results_agree_with_original_schema(
        root in schema(), one in schema(), two in schema(), documents in prop::collection::vec(document(), 4)
    ) {
        let schema = with_definitions(root, one, two);
        if let Ok(gate) = Gate::for_results(&schema, GateLimits::default()) {
            let written = jsonschema::draft202012::new(&schema).unwrap();
            for document in &documents {
                prop_assert_eq!(gate.check(document).is_ok(), written.is_valid(document), "{}", document);
            }
        }
    }

    /// Closing only rejects, and it rejects everything that `unevaluatedProperties: false` at the root would.
    #[test]
    fn closed_schemas_accept_no_more_than_originals(
        root in schema(), one in schema(), documents in prop::collection::vec(document(), 4)
    ) {
        let schema = with_definitions(root, one, json!({"type": "object"}));
        let text = schema.to_string();
        // A condition that rejects more makes the schema accept more.
        prop_assume!(schema.is_object() && !["not", "if", "oneOf", "contains"].iter().any(|word| text.contains(word)));
        let mut plain = schema.clone();
        // A required property counts as declared for the gate, but not for `unevaluatedProperties`.
        if !text.contains("required") && !text.contains("evaluatedProp") && !text.contains("additional") {
            plain["unevaluatedProperties"] = json!(false);
        }
        if let (Ok(closed), Ok(plain)) =
            (Gate::for_arguments(&schema, GateLimits::default()), jsonschema::draft202012::new(&plain))
        {
            for document in documents.iter().filter(|document| closed.check(document).is_ok()) {
                prop_assert!(plain.is_valid(document), "{document}");
            }
        }
    }
}
