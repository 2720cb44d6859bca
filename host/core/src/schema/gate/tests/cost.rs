//! Tests of expensive schemas, and of cheap ones of a similar form.

use expect_test::expect;
use serde_json::{Value, json};

use super::{arguments, refused};
use crate::schema::gate::{Gate, GateLimits};

/// Returns a schema of `levels` definitions, each of which refers to the next one through `twice`.
fn doubling(levels: usize, twice: impl Fn(Value) -> Value) -> Value {
    let mut definitions = serde_json::Map::new();
    for level in 0..levels {
        definitions.insert(format!("d{level}"), twice(json!({"$ref": format!("#/$defs/d{}", level + 1)})));
    }
    definitions.insert(format!("d{levels}"), json!({"type": "object"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

#[test]
fn rejects_multiplying_schemas() {
    let all_of = |next: Value| json!({"allOf": [next.clone(), next]});
    let below = |next: Value| json!({"properties": {"a": {"allOf": [next.clone(), next]}}});
    arguments(doubling(3, all_of));
    arguments(doubling(3, below));
    expect!["at #/$defs/d1 the schema has 17 schemas in a row for one value; at most 16 are accepted"]
        .assert_eq(&refused(doubling(9, all_of)).to_string());
    let wide = |next: Value| json!({"allOf": vec![next; 10]});
    expect![[r#"checking a value against the schema at #/$defs/d0 can take 130862 evaluations per path through the document; the maximum is 10000. Use fewer alternatives for the same value, distinguish them by a required property with a "const", or set additionalProperties in each"#]].assert_eq(&refused(doubling(4, wide)).to_string());
    expect![[r#"checking a value against the schema at #/$defs/d0/properties/a can take 19792 evaluations per path through the document; the maximum is 10000. Use fewer alternatives for the same value, distinguish them by a required property with a "const", or set additionalProperties in each"#]].assert_eq(&refused(doubling(20, below)).to_string());
    let start = std::time::Instant::now();
    refused(doubling(200, all_of));
    refused(doubling(200, below));
    refused(doubling(
        200,
        |next| json!({"properties": {"a": {"anyOf": [next.clone(), {"not": next}], "properties": {"b": true}}}}),
    ));
    // Generous: the point is that it is not exponential.
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());

    let doubled = json!({"properties": {"a": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}});
    expect![[r#"checking a value against the schema at #/properties/a can take 15376 evaluations per path through the document; the maximum is 10000. Use fewer alternatives for the same value, distinguish them by a required property with a "const", or set additionalProperties in each"#]].assert_eq(&refused(doubled).to_string());
    let untold = json!({"$ref": "#/$defs/N", "$defs": {"N": {"anyOf": [
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/N"}}, "required": ["x"]},
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/N"}, "y": {"type": "string"}}, "required": ["x", "y"]},
    ]}}});
    expect![[r#"checking a value against the schema at #/$defs/N can take 12306 evaluations per path through the document; the maximum is 10000. Use fewer alternatives for the same value, distinguish them by a required property with a "const", or set additionalProperties in each"#]].assert_eq(&refused(untold).to_string());
}

#[test]
fn accepts_linear_recursion() {
    fn check(schema: Value, document: Value) {
        assert_eq!(arguments(schema).check(&document), Ok(()));
    }

    let tree = json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "properties": {
        "value": {"type": "integer"}, "left": {"$ref": "#/$defs/T"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}}});
    let deep = (0..20).fold(json!({}), |inner, level| json!({"value": level, "left": {}, "kids": [inner, {}]}));
    check(tree, deep.clone());
    check(
        json!({"type": "object", "properties": {"value": true, "left": true, "kids": {"items": {"$ref": "#"}}}}),
        deep,
    );
    // An untagged union, closed as a whole.
    let untagged = json!({"$ref": "#/$defs/N", "$defs": {"N": {"anyOf": [
        {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/N"}}}, "required": ["kids"]},
        {"type": "object", "properties": {"leaf": {"type": "integer"}}, "required": ["leaf"]},
    ]}}});
    let deep = (0..25).fold(json!({"leaf": 1}), |inner, _| json!({"kids": [inner, {"leaf": 2}]}));
    let gate = arguments(untagged);
    let start = std::time::Instant::now();
    assert_eq!(gate.check(&deep), Ok(()));
    let bad = (0..25).fold(json!({"leaf": "x"}), |inner, _| json!({"kids": [inner, {"leaf": 2}]}));
    assert!(gate.check(&bad).unwrap_err().violations[0].pointer.ends_with("/leaf"));
    assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
    // A pair of tagged alternatives that are both recursive.
    let pair = json!({"$ref": "#/$defs/N", "$defs": {"N": {"oneOf": [
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/N"}, "t": {"const": "x"}}, "required": ["t"]},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/N"}, "t": {"const": "y"}}, "required": ["t"]},
    ]}}});
    let deep = (0..60)
        .fold(json!({"t": "x"}), |inner, level| json!({"t": if level % 2 == 0 { "x" } else { "y" }, "a": inner}));
    let start = std::time::Instant::now();
    check(pair, deep);
    assert!(start.elapsed() < std::time::Duration::from_secs(2), "{:?}", start.elapsed());
}

#[test]
fn limits_documents_of_expensive_schemas() {
    let alternatives: Vec<_> = (0..400).map(|index| json!({"const": index})).collect();
    let gate = arguments(json!({"properties": {"a": {"items": {"anyOf": alternatives}}}}));
    assert!(gate.check(&json!({"a": vec![3; 1_000]})).is_ok());
    let refused = gate.check(&json!({"a": vec![3; 100_000]})).unwrap_err();
    expect!["at the top: expected a smaller document: checking it against this schema takes up to 40300806 steps, of at most 5000000, given 100002 values with 1 bytes of text"]
        .assert_eq(&refused.to_string());
}

#[test]
fn limits_texts_of_slow_patterns() {
    fn check(pattern: &str, bytes: usize, fits: bool) {
        let gate = arguments(json!({"properties": {"a": {"items": {"pattern": pattern}}}}));
        let document = json!({"a": vec!["a".repeat(1_000); bytes / 1_000]});
        let message = gate.check(&document).map_or_else(|violations| violations.to_string(), |()| String::new());
        assert_eq!(!message.contains("steps"), fits, "{pattern}: {message}");
    }

    check("^[a-z]+$", 1_000_000, true);
    check("[ab]*a[ab]{3000}", 8_000, true);
    check("[ab]*a[ab]{3000}", 16_000, false);
}

#[test]
fn bounds_steps_by_text_length() {
    let gate = arguments(json!({"properties": {"a": {"items": {"pattern": "^[a-z]+$"}}}}));
    for count in [0, 1, 10, 100, 1_000] {
        let document = json!({"a": vec!["abc"; count]});
        let text = document.to_string();
        assert!(gate.max_steps_for_value(&document) > 0);
        assert!(gate.max_steps_for_value(&document) <= gate.max_steps(text.len()), "{count}");
    }
    assert_eq!(gate.max_steps(usize::MAX), gate.max_steps(1 << 20), "longer texts are not read");
    assert!(gate.max_steps(1 << 20) <= GateLimits::default().work, "what takes more is not checked");
}

#[test]
fn runs_on_a_small_stack() {
    fn nest(end: Value) -> Value {
        (1..64).fold(end, |inner, _| json!({ "a": inner }))
    }

    // Like `chain`, with `unevaluatedProperties`, for which subschemas are evaluated once more.
    fn mark(piece: fn(Value) -> Value) -> Gate {
        let innermost = json!({"properties": {"a": {"$ref": "#/$defs/d"}}});
        let mut definition = (0..5).fold(innermost, |inner, _| piece(inner));
        definition["properties"] = json!({"b": true});
        arguments(json!({"$ref": "#/$defs/d", "$defs": {"d": definition}}))
    }

    // As long a chain in place, at every level of as deep a document, as the limits allow.
    fn chain(levels: usize, link: fn(Value) -> Value) -> Gate {
        let mut definitions = serde_json::Map::new();
        for index in 0..levels {
            definitions.insert(format!("d{index}"), link(json!({"$ref": format!("#/$defs/d{}", index + 1)})));
        }
        definitions.insert(format!("d{levels}"), json!({"properties": {"a": {"$ref": "#/$defs/d0"}}}));
        arguments(json!({"$ref": "#/$defs/d0", "$defs": definitions}))
    }

    let run = move || {
        for gate in [
            chain(12, |next| next),
            chain(6, |next| json!({"anyOf": [next]})),
            chain(7, |next| json!({"allOf": [next]})),
            mark(|inner| json!({"oneOf": [inner, {"type": "null"}]})),
            mark(|inner| json!({"allOf": [inner]})),
            chain(6, |next| json!({"if": {"required": ["b"]}, "else": next})),
        ] {
            assert_eq!(gate.check(&nest(json!({}))), Ok(()));
            assert!(gate.check(&nest(json!({"z": 1}))).is_err());
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}
