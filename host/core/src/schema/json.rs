//! Writers of JSON text: compact, for the arguments of a tool, and canonical, for comparing and hashing.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// Writes a value as the same text as `serde_json`, but faster.
///
/// `serde_json` inspects strings byte by byte. Most of them have nothing to escape, and this function detects that by
/// comparing many bytes at once. It halves the cost of arguments of a kilobyte.
///
/// Recurses as deep as the value is nested: only for values that have passed a [gate](crate::schema::gate).
#[must_use]
pub fn to_compact_text(value: &Value) -> String {
    let mut out = String::with_capacity(128);
    write(value, &mut out);
    out
}

/// Writes a value without white space, the names of every object in the order of their bytes.
///
/// Equal values have equal texts, so that the texts can be compared and hashed.
#[must_use]
pub fn to_canonical_text(value: &Value) -> String {
    sort_members(value).to_string()
}

fn sort_members(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sort_members).collect()),
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_unstable();
            let member = |name: &String| Some((name.clone(), sort_members(members.get(name)?)));
            Value::Object(names.into_iter().filter_map(member).collect::<Map<_, _>>())
        }
        value => value.clone(),
    }
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                write_separator(at, out);
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                write_separator(at, out);
                write_string(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => write_other(value, out),
    }
}

fn write_separator(at: usize, out: &mut String) {
    if at > 0 {
        out.push(',');
    }
}

fn write_string(text: &str, out: &mut String) {
    if !is_literal(text) {
        return write_other(&Value::from(text), out);
    }
    out.reserve(text.len() + 3);
    out.push('"');
    out.push_str(text);
    out.push('"');
}

fn write_other(value: &Value, out: &mut String) {
    // Writing to a string is infallible.
    let _ = write!(out, "{value}");
}

/// Returns whether a string needs no escapes in JSON.
///
/// Has no branches, so that the compiler compares many bytes at once.
fn is_literal(text: &str) -> bool {
    text.bytes().fold(true, |literal, byte| literal & (byte >= b' ') & (byte != b'"') & (byte != b'\\'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(value: &Value) {
        assert_eq!(to_compact_text(value), serde_json::to_string(value).unwrap());
    }

    #[test]
    fn compact_text_is_that_of_serde_json() {
        for value in
            [json!(null), json!(true), json!(0), json!(-1), json!(u64::MAX), json!(1.0), json!(-0.0), json!(1e300)]
        {
            check(&value);
        }
        for value in [json!([]), json!({}), json!([[], {}]), json!({"a": {"b": [1, "c"]}, "": null})] {
            check(&value);
        }
        for c in (0..=0x2ff_u32).filter_map(char::from_u32) {
            check(&json!(format!("{c}")));
            check(&json!({format!("a name that is longer than a vector {c}"): format!("and a text {c} that is, too")}));
        }
    }

    #[test]
    fn canonical_text_sorts_names_and_keeps_items() {
        let check = |given: &str, expected: &str| {
            assert_eq!(to_canonical_text(&serde_json::from_str(given).unwrap()), expected);
        };
        check(r#"{ "b": [2, 1], "a": {"d": null, "c": "é\u0000"} }"#, r#"{"a":{"c":"é\u0000","d":null},"b":[2,1]}"#);
        check(r#"{"a": {"c": "é\u0000", "d": null}, "b": [2,1]}"#, r#"{"a":{"c":"é\u0000","d":null},"b":[2,1]}"#);
        check("[]", "[]");
    }

    proptest! {
        #[test]
        fn compact_text_of_any_string_is_that_of_serde_json(texts in prop::collection::vec(any::<String>(), 0..4), name in any::<String>()) {
            let value = json!({name: texts});
            prop_assert_eq!(to_compact_text(&value), serde_json::to_string(&value).unwrap());
        }
    }
}
