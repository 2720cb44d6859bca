//! One pass over the text accepts what parser and validator accept, and is unsure about the rest.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::arguments;
use crate::schema::gate::{Gate, GateLimits};
use crate::schema::json::to_compact_text;

/// Checks that compact text is accepted exactly if it is among the first.
fn check(schema: Value, accepted: &[&str], unsure: &[&str]) {
    let gate = arguments(schema.clone());
    for (texts, expected) in [(accepted, true), (unsure, false)] {
        for text in texts {
            assert_eq!(gate.accepts_compact(text), expected, "{schema}: {text}");
        }
    }
    for text in accepted {
        let value = gate.parse(text).unwrap_or_else(|violations| panic!("{schema}: {text}: {violations}"));
        assert_eq!(to_compact_text(&value), *text);
    }
}

#[test]
fn plain_arguments_are_accepted_in_one_pass() {
    check(
        json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "minLength": 1, "maxLength": 3},
                "mode": {"enum": ["a", "b"]},
                "count": {"type": "integer", "minimum": -2, "exclusiveMaximum": 5},
                "ratio": {"type": "number"},
                "flag": {"type": ["boolean", "null"]},
                "list": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
                "any": {},
                "inner": {"type": "object", "properties": {"x": {"const": "y"}}, "required": ["x"]},
            },
            "required": ["text"],
        }),
        &[
            r#"{"text":"a"}"#,
            r#"{"text":"éé😀","mode":"b","count":-2,"ratio":7,"flag":null,"list":["",""],"any":{"a":[{},[],-1]},"inner":{"x":"y"}}"#,
            r#"{"inner":{"x":"y"},"flag":false,"text":"abc","count":4,"any":"x"}"#,
            r#"{"text":"a","ratio":999999999999999999,"any":true}"#,
        ],
        &[
            r#"{"text":""}"#,
            r#"{"text":"abcd"}"#,
            r#"{"mode":"a"}"#,
            r#"{"text":"a","mode":"c"}"#,
            r#"{"text":"a","count":-3}"#,
            r#"{"text":"a","count":5}"#,
            r#"{"text":"a","count":"4"}"#,
            r#"{"text":"a","flag":0}"#,
            r#"{"text":"a","list":[]}"#,
            r#"{"text":"a","list":["","",""]}"#,
            r#"{"text":"a","list":[1]}"#,
            r#"{"text":"a","inner":{}}"#,
            r#"{"text":"a","inner":{"x":"y","z":1}}"#,
            r#"{"text":"a","other":1}"#,
            r#"{"text":"a","text":"a"}"#,
            r#"{"text":"a","any":{"b":1,"b":1}}"#,
            r#"{"text":"a"}}"#,
            r#"{"text":"a""#,
            r#"["a"]"#,
            "",
            // Valid, and left to the parser.
            r#"{"text": "a"}"#,
            r#"{"text":"\u0061"}"#,
            r#"{"text":"a","ratio":0.5}"#,
            r#"{"text":"a","ratio":-0}"#,
            r#"{"text":"a","ratio":1234567890123456789}"#,
        ],
    );
}

#[test]
fn undeclared_properties_are_compared_with_one_another() {
    fn many(count: usize) -> String {
        let members: Vec<String> =
            (0..count).map(|n| format!("\"same start, other end {n:02}, same end\":{n}")).collect();
        format!("{{{}}}", members.join(","))
    }

    let open = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    check(
        open,
        &[r#"{"a":1,"b":2,"":3,"aa":4,"\t":5}"#.replace("\\t", "ab").as_str(), &many(64)],
        &[r#"{"a":1,"b":2,"a":1}"#, r#"{"":1,"":1}"#, r#"{"abcdefgh":1,"abcdefgh":1}"#, r#"{"a":"1"}"#, &many(65)],
    );
}

#[test]
fn keywords_beyond_one_pass_are_left_to_the_validator() {
    for keyword in [
        json!({"pattern": "a"}),
        json!({"multipleOf": 2}),
        json!({"minimum": 0.5}),
        json!({"enum": [1]}),
        json!({"const": null}),
        json!({"uniqueItems": true}),
        json!({"minProperties": 1}),
        json!({"anyOf": [{"type": "string"}]}),
        json!({"not": {"type": "object"}}),
        json!({"prefixItems": [{}]}),
        json!({"$ref": "#/$defs/x"}),
    ] {
        let schema = json!({
            "type": "object",
            "properties": {"a": keyword, "b": {"type": "integer"}},
            "$defs": {"x": {}},
        });
        check(schema, &[r#"{"b":1}"#, "{}"], &[r#"{"a":2}"#, r#"{"a":"a"}"#, r#"{"a":{}}"#]);
    }
}

#[test]
fn limits_of_documents_hold_in_one_pass() {
    let limits = GateLimits { string_bytes: 4, depth: 3, document_bytes: 40, ..GateLimits::default() };
    let gate = Gate::for_arguments(&json!({"type": "object", "additionalProperties": true}), limits).unwrap();
    for text in [r#"{"abcd":"abcd"}"#, r#"{"a":[[1]]}"#, r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":"aa"}"#] {
        assert!(gate.accepts_compact(text) && gate.parse(text).is_ok(), "{text}");
    }
    for text in
        [r#"{"abcde":1}"#, r#"{"a":"abcde"}"#, r#"{"a":[[[1]]]}"#, r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":"aaa"}"#]
    {
        assert!(!gate.accepts_compact(text) && gate.parse(text).is_err(), "{text}");
    }
    let work = GateLimits { work: 3, ..GateLimits::default() };
    let gate = Gate::for_arguments(&json!({"type": "object", "additionalProperties": true}), work).unwrap();
    assert!(gate.accepts_compact("{}"));
    assert!(!gate.accepts_compact(r#"{"a":[1,2,3,4,5]}"#) && gate.parse(r#"{"a":[1,2,3,4,5]}"#).is_err());
}

proptest! {
    #[test]
    fn whatever_one_pass_accepts_is_compact_and_valid(
        text in r#"\{("(a|b|list|inner|\\u0061|é)":("(x|y|x\\\\|\\n|[é\x01]){0,2}"|-?[0-9]{1,3}|[0-9]{17,20}|0\.5|true|null|\[("x",?|1,?){0,3}\]|\{("a":1,?|"b":"x",?){0,3}\})[, ]?){0,4}\}[ ]?"#
    ) {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": ["string", "integer", "null"], "maxLength": 2, "minimum": 0, "maximum": 500},
                "b": {"enum": ["x", "yy"]},
                "list": {"items": {"type": ["string", "integer"], "minLength": 1}, "maxItems": 2},
                "inner": {"additionalProperties": true},
            },
            "required": ["a"],
        });
        let gate = arguments(schema);
        if gate.accepts_compact(&text) {
            let value = gate.parse(&text);
            let compact = value.as_ref().ok().map(to_compact_text);
            prop_assert_eq!(compact.as_deref(), Some(text.as_str()), "{:?}", value);
        }
    }
}
