//! Tests of rules of strict JSON that a schema relaxes, and of hints for common mistakes.

use expect_test::expect;
use serde_json::{Value, json};

use super::{arguments, text};

fn long(bytes: usize) -> String {
    "x".repeat(bytes)
}

#[test]
fn accepts_long_string_with_own_max_length() {
    let gate = arguments(json!({
        "properties": {
            "content": {"type": "string", "maxLength": 100_000},
            "list": {"items": {"anyOf": [{"$ref": "#/$defs/Text"}, {"type": "null"}]}},
            "name": {"type": "string"},
        },
        "$defs": {"Text": {"type": "string", "maxLength": 20_000}},
    }));
    let check = |document: Value, expected: bool| {
        assert_eq!(gate.check(&document).is_ok(), expected, "{:.60}", document.to_string());
        assert_eq!(gate.parse(&document.to_string()).is_ok(), expected, "{:.60}", document.to_string());
    };
    check(json!({"content": long(11_000)}), true);
    check(json!({"content": long(100_000)}), true);
    check(json!({"content": long(100_001)}), false);
    check(json!({"list": [null, long(20_000)]}), true);
    check(json!({"list": [long(20_001)]}), false);
    check(json!({"name": long(10_240)}), true);
    check(json!({"name": long(10_241)}), false);
    check(json!({"content": long(11_000), "name": long(10_241)}), false);
    let both = gate.check(&json!({"content": long(11_000), "name": long(10_241)})).unwrap_err();
    expect!["/name: expected a string of at most 10240 bytes, given 10241 bytes"].assert_eq(&both.to_string());
}

#[test]
fn rounds_number_where_schema_says_number() {
    let gate = arguments(json!({
        "properties": {
            "x": {"type": "number"},
            "vector": {"items": {"type": ["number", "null"]}},
            "n": {"type": "integer"},
            "any": true,
        },
    }));
    let parsed = |document: &str| gate.parse(document).map_err(|refused| refused.to_string());
    assert_eq!(parsed(r#"{"x": 3.1415926535897932385}"#), Ok(json!({"x": std::f64::consts::PI})));
    assert_eq!(parsed(r#"{"x": 18446744073709551617}"#), Ok(json!({"x": 18_446_744_073_709_551_616.0})));
    assert_eq!(parsed(r#"{"vector": [0.10000000000000000555, null]}"#), Ok(json!({"vector": [0.1, null]})));
    let many: Vec<_> = (0..1000).map(|index| format!("0.1234567890123456789{index}")).collect();
    assert!(parsed(&format!(r#"{{"vector": [{}]}}"#, many.join(","))).is_ok());
    assert!(parsed(r#"{"x": 1e400}"#).unwrap_err().contains("within the range"));
    assert!(parsed(r#"{"n": 9007199254740993.0}"#).unwrap_err().contains("no more digits"));
    assert!(parsed(r#"{"n": 18446744073709551617}"#).unwrap_err().contains("at most 64 bits"));
    assert!(parsed(r#"{"any": 3.1415926535897932385}"#).is_err());
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
            /arguments: no such property; the properties are "city", "mode"; write what is in "arguments" at the top, without "arguments" around it"#]],
    );
    check(
        r#"{"city": "x", "mode": "a"}"#,
        expect![[r#"/mode: expected no value at all (the schema has an empty `enum`), given the string "a""#]],
    );
}
