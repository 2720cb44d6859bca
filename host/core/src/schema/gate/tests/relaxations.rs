//! Tests of rules of strict JSON that a schema relaxes, and of hints for common mistakes.

use expect_test::expect;
use serde_json::{Value, json};

use super::{arguments, text};
use crate::schema::gate::Gate;

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[test]
fn accepts_long_string_with_own_max_length() {
    fn check(gate: &Gate, document: Value, expected: bool) {
        assert_eq!(gate.check(&document).is_ok(), expected, "{:.60}", document.to_string());
        assert_eq!(gate.parse(&document.to_string()).is_ok(), expected, "{:.60}", document.to_string());
    }

    let gate = arguments(json!({
        "properties": {
            "content": {"type": "string", "maxLength": 100_000},
            "list": {"items": {"anyOf": [{"$ref": "#/$defs/Text"}, {"type": "null"}]}},
            "name": {"type": "string"},
        },
        "$defs": {"Text": {"type": "string", "maxLength": 20_000}},
    }));
    check(&gate, json!({"content": long(11_000)}), true);
    check(&gate, json!({"content": long(100_000)}), true);
    check(&gate, json!({"content": long(100_001)}), false);
    check(&gate, json!({"list": [null, long(20_000)]}), true);
    check(&gate, json!({"list": [long(20_001)]}), false);
    check(&gate, json!({"name": long(10_240)}), true);
    check(&gate, json!({"name": long(10_241)}), false);
    check(&gate, json!({"content": long(11_000), "name": long(10_241)}), false);
    let both = gate.check(&json!({"content": long(11_000), "name": long(10_241)})).unwrap_err();
    expect!["/name: expected a string of at most 10240 bytes, given 10241 bytes"].assert_eq(&both.to_string());
}

#[test]
fn keeps_numbers_as_they_are_written() {
    let gate = arguments(json!({
        "properties": {
            "x": {"type": "number", "maximum": 1e300},
            "n": {"type": "integer", "minimum": -5, "maximum": 12_345_678_901_234_567_890_u64, "multipleOf": 3},
            "big": {"type": "integer"},
            "any": true,
        },
    }));
    let kept =
        |document: &str| assert_eq!(gate.parse(document).map(|value| value.to_string()), Ok(document.to_owned()));
    for document in [
        r#"{"x":3.1415926535897932385}"#,
        r#"{"x":1.0}"#,
        r#"{"x":-0}"#,
        r#"{"x":-0.0}"#,
        r#"{"x":0.10}"#,
        r#"{"x":18446744073709551617}"#,
        r#"{"n":12345678901234567890}"#,
        r#"{"n":3.0}"#,
        r#"{"big":12345678901234567890123}"#,
        r#"{"big":9007199254740993.0}"#,
        r#"{"any":[1e+2,3.1415926535897932385]}"#,
    ] {
        kept(document);
    }
    kept(&format!(r#"{{"big":{}}}"#, "9".repeat(1024)));
    for (document, words) in [
        (r#"{"n": 12345678901234567893}"#, "at most 12345678901234567890"),
        (r#"{"n": 12345678901234567889}"#, "a multiple of 3"),
        (r#"{"n": 3.5}"#, "expected an integer"),
        (r#"{"big": 9007199254740993.5}"#, "expected an integer"),
        (r#"{"x": 1e301}"#, "at most 1e+300"),
        (r#"{"x": 1e400}"#, "within the range of a 64-bit float"),
        (r#"{"any": 1e-400}"#, "within the range of a 64-bit float"),
        (&format!(r#"{{"big": {}}}"#, "9".repeat(1025)), "a number of at most 1024 bytes"),
    ] {
        let refused = text(&gate, document);
        assert!(refused.contains(words), "{document:.60}: {refused}");
        let value = serde_json::from_str(document).unwrap();
        assert!(gate.check(&value).unwrap_err().to_string().contains(words), "{document:.60}");
    }
}

#[test]
fn names_that_change_a_value_are_refused() {
    let gate = arguments(json!({"additionalProperties": true}));
    for name in ["Number", "RawValue"] {
        let document = format!(r#"{{"a":{{"$serde_json::private::{name}":"1"}}}}"#);
        assert!(!gate.accepts_compact(&document), "{document}");
        assert!(text(&gate, &document).contains("reserved"), "{document}");
        let name = format!("$serde_json::private::{name}");
        let value = Value::Object([(name, json!("1"))].into_iter().collect());
        assert!(gate.check(&value).unwrap_err().to_string().contains("reserved"), "{document}");
    }
}

#[test]
fn exact_arithmetic_counts_towards_the_work() {
    fn document(count: usize) -> String {
        format!(r#"{{"a": [{}]}}"#, vec!["1e-300"; count].join(","))
    }

    let gate = arguments(json!({"properties": {"a": {"items": {"type": "number", "multipleOf": 1e-300}}}}));
    assert_eq!(text(&gate, &document(10)), "fits");
    let refused = text(&gate, &document(100_000));
    assert!(refused.contains("a smaller document") && refused.contains("long numbers"), "{refused}");
    assert!(gate.max_steps_for_text(&document(10)) > gate.max_steps(document(10).len()));
}

#[test]
fn hints_at_common_mistakes() {
    let gate = arguments(json!({
        "properties": {"city": {"type": "string"}, "mode": {"enum": []}},
        "required": ["city"],
    }));
    let check = |document: &str, expected: expect_test::Expect| expected.assert_eq(&text(&gate, document));
    check(
        r#"{"ctiy": "x"}"#,
        expect![[r#"
            at the top: expected the property "city" (string) in place of "ctiy", which is missing
            /ctiy: no such property; the properties are "city", "mode"; did you mean "city"?"#]],
    );
    check(
        "{\"city\": \"x\", \"ci\u{200b}ty\": 1}",
        expect![[r#""/ci\u200bty": no such property; the properties are "city", "mode"; did you mean "city"?"#]],
    );
    check(
        r#"{"arguments": {"city": "x"}}"#,
        expect![[r#"
            at the top: expected the property "city" (string), which is missing
            /arguments: no such property; the properties are "city", "mode"; move the properties of "arguments" to the top, and remove "arguments""#]],
    );
    check(
        r#"{"city": "x", "mode": "a"}"#,
        expect![[r#"/mode: expected no value at all (the schema has an empty `enum`), given the string "a""#]],
    );
}
