//! Tests of the messages of violations.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{arguments, text};
use crate::schema::gate::Gate;

#[test]
fn describes_violations() {
    let gate = arguments(json!({
        "type": "object",
        "properties": {
            "a": {"type": "number"},
            "b": {"type": "number", "minimum": 0, "exclusiveMaximum": 10},
            "mode": {"enum": ["read", "write", null]},
            "name": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z]+$"},
            "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 2},
            "n": {"type": ["integer", "null"], "multipleOf": 3},
            "only": {"const": 1},
            "odd": {"not": {"type": "string"}},
        },
        "required": ["b"],
    }));
    let check = |document: &str, expected: Expect| expected.assert_eq(&text(&gate, document));
    check(
        r#"{"a": "3", "mode": "red", "extra": 1, "nme": "x"}"#,
        expect![[r#"
            at the top: expected the property "b" (number), which is missing
            /a: expected a number, given the string "3" (write 3 without quotes)
            /mode: expected one of "read", "write", null, given the string "red"
            /extra: no such property; the properties are "a", "b", "mode", "n", "name", "odd", "only", "tags"
            /nme: no such property; the properties are "a", "b", "mode", "n", "name", "odd", "only", "tags"; did you mean "name"?"#]],
    );
    check(
        r#"{"b": -1, "name": "A", "tags": ["x", 1, "x"], "n": 1.5, "only": 2, "odd": "x"}"#,
        expect![[r#"
            /b: expected a number of at least 0, given the number -1
            /name: expected a string of at least 2 characters, given 1 characters
            /name: expected a string that matches the pattern "^[a-z]+$", given the string "A"
            /tags: expected an array of at most 2 items, given 3 items
            /tags: expected items that all differ, given "x" twice, at index 2 again
            /tags/1: expected a string, given the number 1 (write "1" with quotes)
            /n: expected an integer or null, given the number 1.5
            /only: expected 1, given the number 2
            /odd: expected anything but a string, given the string "x""#]],
    );
    check(
        r#"{"b": 10, "name": "abcde", "n": 4, "tags": "[]"}"#,
        expect![[r#"
            /b: expected a number below 10, given the number 10
            /name: expected a string of at most 4 characters, given 5 characters
            /n: expected a multiple of 3, given the number 4
            /tags: expected an array, given the string "[]" (write the value itself, not a string that holds it)"#]],
    );
    check(r#"[1]"#, expect!["at the top: expected an object, given the array [1]"]);
    check(r#"{"b": 1.0, "only": 1.0, "n": 3.0, "odd": 1}"#, expect!["fits"]);
    check(
        r#"{"b": "[", "a": true, "name": 12}"#,
        expect![[r#"
            /b: expected a number, given the string "["
            /a: expected a number, given the boolean true
            /name: expected a string, given the number 12 (write "12" with quotes)"#]],
    );
}

#[test]
fn describes_alternatives() {
    let gate = arguments(json!({
        "type": "object",
        "properties": {
            "shape": {"$ref": "#/$defs/Shape"},
            "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]},
            "either": {"anyOf": [
                {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
                {"type": "object", "properties": {"y": {"type": "string"}}, "required": ["y"]},
            ]},
            "exact": {"oneOf": [{"type": "number"}, {"type": "integer"}]},
            "level": {"oneOf": [{"const": "low"}, {"const": "high"}]},
        },
        "$defs": {"Shape": {"oneOf": [
            {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
            {"type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["kind", "a"]},
        ]}},
    }));
    let check = |document: &str, expected: Expect| expected.assert_eq(&text(&gate, document));
    check(r#"{"shape": {"kind": "circle", "r": 1}, "limit": null, "either": {"x": "", "y": ""}}"#, expect!["fits"]);
    check(
        r#"{"shape": {"kind": "circle", "r": "1", "a": 2}, "limit": 0}"#,
        expect![[r#"
            /shape/r: expected a number, given the string "1" (write 1 without quotes)
            /shape/a: no such property; the properties are "kind", "r"
            /limit: expected a number of at least 1, given the number 0"#]],
    );
    check(
        r#"{"shape": {"kind": "hexagon"}, "limit": "5"}"#,
        expect![[r#"
            /shape/kind: expected "circle" or "square", given the string "hexagon"
            /limit: expected an integer or null, given the string "5" (write 5 without quotes)"#]],
    );
    check(
        r#"{"shape": {"r": 1}}"#,
        expect![[r#"/shape: expected the property "kind" ("circle" or "square"), which is missing"#]],
    );
    check(
        r#"{"shape": 3, "either": {"z": 1}}"#,
        expect![[r#"
            /shape: expected an object with "kind": "circle" or an object with "kind": "square", given the number 3
            /either: expected one of 2 alternatives, and none fits: (1) an object: expected the property "x" (string), which is missing; (2) an object: expected the property "y" (string), which is missing
            /either/z: no such property; the properties are "x", "y""#]],
    );
    check(r#"{"either": {"x": "", "z": 1}}"#, expect![[r#"/either/z: no such property; the properties are "x", "y""#]]);
    check(
        r#"{"either": "{\"x\": \"\"}", "exact": 1, "level": "mid"}"#,
        expect![[r#"
            /either: expected an object, given the string "{\"x\": \"\"}" (write the value itself, not a string that holds it)
            /exact: expected a value that fits exactly one of: a number or an integer, given the number 1, which fits 2 of them
            /level: expected "low" or "high", given the string "mid""#]],
    );
}

#[test]
fn describes_strictness_violations() {
    let gate = arguments(json!({"type": "object", "additionalProperties": true}));
    let check = |document: &str, expected: Expect| expected.assert_eq(&text(&gate, document));
    check(r#"{"a": 1, "b": [0.1, -0, 1e2, 18446744073709551615]}"#, expect!["fits"]);
    check(
        "",
        expect![
            "the text is not JSON: the text ends while parsing a value at line 1, column 0; write one JSON value, `{}` if there are no arguments"
        ],
    );
    check(
        "{\"a\": 1,}",
        expect![[
            r#"the text is not JSON: key must be a string at line 1, column 9, between `{"a": 1,` and `}`; leave out the comma before the closing bracket"#
        ]],
    );
    check(
        "{\"a\": 1} x",
        expect![[
            r#"the text is not JSON: trailing characters at line 1, column 10, between `{"a": 1} ` and `x`; write one JSON value and nothing else"#
        ]],
    );
    check(
        "{'a': 1}",
        expect![[
            r#"the text is not JSON: key must be a string at line 1, column 2, between `{` and `'a': 1}`; write names and strings in double quotes: "…""#
        ]],
    );
    check(
        "{\"a\": \"\n\"}",
        expect![[
            r#"the text is not JSON: control character (\u0000-\u001F) found while parsing a string at line 1, column 7, between `{"a": "` and `\n"}`; write a line break within a string as `\n`"#
        ]],
    );
    check(
        "{\"a\": NaN}",
        expect![[
            r#"the text is not JSON: expected value at line 1, column 7, between `{"a": ` and `NaN}`; JSON has no `NaN`; write a number, or `null` if the tool takes it"#
        ]],
    );
}

#[test]
fn reports_all_strictness_violations_at_once() {
    let gate = arguments(json!({"type": "object", "additionalProperties": true}));
    let check = |document: &str, expected: Expect| expected.assert_eq(&text(&gate, document));
    check(
        r#"{"a": {"b": 1, "b": 2, "c": [9007199254740993.0, 1e400]}, "a": 1e-400, "\ud800": "\udc00x", "n": 18446744073709551616}"#,
        expect![[r#"
            /a/b: the name "b" is given twice
            /a/c/1: expected a number within the range of a 64-bit float, given 1e400
            /a: the name "a" is given twice
            /a: expected a number within the range of a 64-bit float, given 1e-400
            /\ud800: expected Unicode text, in which \uD800 to \uDFFF only come as pairs, given "\ud800"
            /\ud800: expected Unicode text, in which \uD800 to \uDFFF only come as pairs, given "\udc00x""#]],
    );
    check(
        &format!(r#"{{"a": ["{}", 3.1415926535897932385]}}"#, "x".repeat(10_241)),
        expect!["/a/0: expected a string of at most 10240 bytes, given 10241 bytes"],
    );
    check(
        &format!(r#"{{"a": {}1{}}}"#, "[".repeat(64), "]".repeat(64)),
        expect![
            "/a/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0: expected at most 64 levels of arrays and objects, given one more level"
        ],
    );
    check(
        &"[".repeat(1000),
        expect![
            "the text is not JSON: the text ends while parsing a list at line 1, column 1000, after `…[[[[[[[[[[[[[[[[[[[[[[[[`; write the rest, and close every string and bracket that was opened"
        ],
    );
    check(
        &" ".repeat((1 << 20) + 1),
        expect!["at the top: expected a text of at most 1048576 bytes, given 1048577 bytes"],
    );
    let many: Vec<_> = (0..40).map(|index| format!("1e40{index}")).collect();
    let found = text(&gate, &format!("{{\"a\": [{}]}}", many.join(", ")));
    assert!(found.ends_with("\nand 8 more"), "{found}");
}

#[test]
fn enforces_caps_on_text_and_value() {
    fn check(gate: &Gate, document: Value, fits: bool) {
        assert_eq!(gate.check(&document).is_ok(), fits);
        assert_eq!(gate.parse(&document.to_string()).is_ok(), fits);
    }

    fn nest(levels: usize) -> Value {
        (1..levels).fold(json!({}), |inner, _| json!({ "a": inner }))
    }

    let gate = arguments(json!({"additionalProperties": true}));
    check(&gate, nest(64), true);
    check(&gate, nest(65), false);
    check(&gate, json!({"a": "x".repeat(10_240)}), true);
    check(&gate, json!({"a": "x".repeat(10_241)}), false);
    check(&gate, json!({"é".repeat(5_120): 1}), true);
    check(&gate, json!({"é".repeat(5_121): 1}), false);
    check(&gate, json!({"a": vec!["x".repeat(10_000); 104]}), true);
    check(&gate, json!({"a": vec!["x".repeat(10_000); 105]}), false);
    assert_eq!(gate.check(&nest(65)).unwrap_err().violations[0].pointer, "/a".repeat(64),);
}

#[test]
fn accepts_generated_schemas() {
    // As derived for a struct with an option, nested types, tagged and untagged unions, maps and defaults.
    let gate = arguments(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Request",
        "type": "object",
        "properties": {
            "count": {"type": "integer", "format": "uint32", "minimum": 0, "default": 3},
            "inner": {"anyOf": [{"$ref": "#/$defs/Inner"}, {"type": "null"}]},
            "list": {"type": "array", "items": {"$ref": "#/$defs/Inner"}, "default": [{"$ref": "not a reference"}]},
            "filter": {"$ref": "#/$defs/Filter", "description": "which"},
            "map": {"type": "object", "additionalProperties": {"type": "number", "format": "double"}},
            "external": {"oneOf": [
                {"type": "string", "enum": ["Unit"]},
                {"type": "object", "properties": {"Tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
                    "minItems": 2, "maxItems": 2}}, "required": ["Tuple"], "additionalProperties": false},
            ]},
        },
        "required": ["count"],
        "$defs": {
            "Inner": {"type": "object", "properties": {"name": {"type": ["string", "null"]}}},
            "Filter": {"oneOf": [
                {"type": "object", "properties": {"op": {"type": "string", "const": "and"}, "of": {"type": "array", "items": {"$ref": "#/$defs/Filter"}}}, "required": ["op", "of"]},
                {"type": "object", "properties": {"op": {"type": "string", "const": "or"}, "of": {"type": "array", "items": {"$ref": "#/$defs/Filter"}}}, "required": ["op", "of"]},
                {"type": "object", "properties": {"op": {"type": "string", "const": "is"}, "field": {"type": "string"}}, "required": ["op", "field"]},
            ]},
        },
    }));
    let document = json!({
        "count": 1, "inner": {"name": null}, "list": [{}, {"name": "x"}], "map": {"a": 1.5}, "external": {"Tuple": [1, "x"]},
        "filter": {"op": "and", "of": [{"op": "or", "of": []}, {"op": "is", "field": "f"}]},
    });
    assert_eq!(gate.check(&document), Ok(()));
    let wrong = r#"{"count": -1, "inner": {"nam": 1}, "filter": {"op": "and", "of": [{"op": "is", "field": 1}]}, "external": "unit"}"#;
    expect![[r#"
        /count: expected a number of at least 0, given the number -1
        /inner/nam: no such property; the property is "name"; did you mean "name"?
        /filter/of/0/field: expected a string, given the number 1 (write "1" with quotes)
        /external: expected "Unit" or an object, given the string "unit""#]]
    .assert_eq(&text(&gate, wrong));
}
