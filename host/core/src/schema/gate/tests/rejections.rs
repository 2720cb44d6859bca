//! Tests of rejected schemas.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{arguments, refused};

fn check(schema: Value, expected: Expect) {
    expected.assert_eq(&refused(schema).to_string());
}

#[test]
fn rejects_references_out_of_the_document() {
    check(
        json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}),
        expect![[
            r##"at #/properties/a the reference "file:///etc/passwd" leads out of the document; refer to a schema within this document, as in "#/$defs/name""##
        ]],
    );
    check(
        json!({"$ref": "http://example.com/s.json#/$defs/a"}),
        expect![[
            r##"at # the reference "http://example.com/s.json#/$defs/a" leads out of the document; refer to a schema within this document, as in "#/$defs/name""##
        ]],
    );
    check(
        json!({"$ref": "other.json"}),
        expect![[
            r##"at # the reference "other.json" leads out of the document; refer to a schema within this document, as in "#/$defs/name""##
        ]],
    );
    check(
        json!({"$ref": "#/$defs/missing"}),
        expect![[
            r##"at # the reference "#/$defs/missing" does not lead to a schema; refer to a schema within this document, as in "#/$defs/name""##
        ]],
    );
    check(
        json!({"$ref": "#/default", "default": {"type": "object"}}),
        expect![[
            r##"at # the reference "#/default" does not lead to a schema; refer to a schema within this document, as in "#/$defs/name""##
        ]],
    );
    check(
        json!({"$dynamicRef": "#nowhere"}),
        expect![[
            r##"at # the reference "#nowhere" names an unknown anchor; refer to a schema within this document, as in "#/$defs/name""##
        ]],
    );
}

#[test]
fn rejects_ids_and_dialects_below_root() {
    check(
        json!({"type": "object", "properties": {"a": {"$id": "http://example.com/x"}}}),
        expect![
            "at #/properties/a, the keyword `$id` is not supported: only the root of a schema may have an `$id`: use \
             $defs and $ref"
        ],
    );
    check(
        json!({"type": "object", "properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}),
        expect![
            "at #/properties/a, the keyword `$schema` is not supported: only the root of a schema may name its dialect"
        ],
    );
    check(
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}),
        expect![[
            r#"unsupported `$schema` `http://json-schema.org/draft-07/schema#`; only JSON Schema draft 2020-12 is supported: leave `$schema` out, or use "https://json-schema.org/draft/2020-12/schema""#
        ]],
    );
    check(
        json!({"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}),
        expect![
            "at #/$defs/b, the keyword `$anchor` is not supported: another schema has the same name; give each anchor \
             a different name"
        ],
    );
    check(
        json!({"$defs": {"unused": {"$ref": "https://example.com"}}, "type": "object"}),
        expect![[
            r##"at #/$defs/unused the reference "https://example.com" leads out of the document; refer to a schema within this document, as in "#/$defs/name""##
        ]],
    );
    check(
        json!({"type": "object", "dependencies": {"a": ["b"]}}),
        expect![
            "at #, the keyword `dependencies` is not supported: it is from an older draft: use dependentRequired or \
             dependentSchemas"
        ],
    );
}

#[test]
fn resolves_references_within_the_document() {
    let gate = arguments(json!({
        "$id": "https://example.com/named",
        "properties": {"a": {"$ref": "#x"}, "b": {"$dynamicRef": "#y"}, "c": {"$ref": "#/$defs/with%20space~1and%7Eslash"}},
        "$defs": {"x": {"$anchor": "x", "type": "string"}, "y": {"$dynamicAnchor": "y", "type": "integer"},
                  "with space/and~slash": {"type": "null"}},
    }));
    assert!(gate.check(&json!({"a": "", "b": 1, "c": null})).is_ok());
    let wrong = gate.check(&json!({"a": 1, "b": "", "c": 1})).unwrap_err();
    assert_eq!(wrong.violations.len(), 3, "{wrong}");
}

#[test]
fn rejects_other_invalid_schemas() {
    check(
        json!(true),
        expect![[
            r#"the schema does not describe an object (true), but the arguments of a tool are an object; add "type": "object" at the root"#
        ]],
    );
    check(json!([1]), expect!["at #, [1] is not allowed by JSON Schema 2020-12"]);
    check(
        json!({"type": "array"}),
        expect![[
            r#"the schema does not describe an object (its type is "array"), but the arguments of a tool are an object; add "type": "object" at the root"#
        ]],
    );
    check(
        json!({"minimum": 3}),
        expect![[
            r#"the schema does not describe an object ({"minimum":3}), but the arguments of a tool are an object; add "type": "object" at the root"#
        ]],
    );
    check(
        json!({"properties": {"a": {"type": "strin"}}}),
        expect![[r#"at #/properties/a/type, "strin" is not allowed by JSON Schema 2020-12"#]],
    );
    check(
        json!({"properties": {"a": {"items": [{}]}}}),
        expect!["at #/properties/a/items, [{}] is not allowed by JSON Schema 2020-12"],
    );
    check(
        json!({"properties": {"a": {"pattern": "(?=x)"}}}),
        expect![[
            r#"at #/properties/a the pattern "(?=x)" is not accepted: it is malformed, uses look-around or back-references, or compiles to more than 262144 bytes; write a simpler one"#
        ]],
    );
    check(
        json!({"properties": {"a": {"pattern": "("}}}),
        expect![[
            r#"at #/properties/a the pattern "(" is not accepted: it is malformed, uses look-around or back-references, or compiles to more than 262144 bytes; write a simpler one"#
        ]],
    );
    check(
        json!({"properties": {"a": {"pattern": "(((a{99}){99}){99}){99}"}}}),
        expect![[
            r#"at #/properties/a the pattern "(((a{99}){99}){99}){99}" is not accepted: it is malformed, uses look-around or back-references, or compiles to more than 262144 bytes; write a simpler one"#
        ]],
    );
    check(
        json!({"patternProperties": {"x".repeat(513): true}}),
        expect!["at # the schema has 513 characters in one pattern; at most 512 are accepted"],
    );
}

#[test]
fn rejects_cycles_in_place() {
    check(
        json!({"$ref": "#"}),
        expect!["the schema at # refers to itself for the same value, without a property or item in between"],
    );
    check(
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}}),
        expect!["the schema at #/$defs/a refers to itself for the same value, without a property or item in between"],
    );
}

#[test]
fn enforces_count_limits() {
    fn wide(count: usize) -> Value {
        let named: serde_json::Map<_, _> = (0..count).map(|index| (format!("p{index}"), json!(true))).collect();
        json!({ "properties": named })
    }

    fn patterns(count: usize) -> Value {
        let named: serde_json::Map<_, _> = (0..count).map(|index| (format!("^p{index}"), json!(true))).collect();
        json!({ "patternProperties": named })
    }

    arguments(patterns(50));
    check(patterns(51), expect!["at # the schema has 51 different patterns; at most 50 are accepted"]);
    arguments(wide(1_999));
    check(wide(2_000), expect!["at #/properties/p1999 the schema has 2001 subschemas; at most 2000 are accepted"]);
}
