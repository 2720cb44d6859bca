//! JSON values as compact text: what a tool gets for its arguments.

use std::fmt::Write as _;

use serde_json::Value;

/// The value in the same text as `serde_json` writes it. That looks at strings byte by byte; most of them have nothing to
/// escape, and this finds out by comparing many bytes at once. It halves what arguments of a kilobyte cost.
///
/// Goes as deep as the value does: it is for values that have passed a gate.
#[must_use]
pub fn to_text(value: &Value) -> String {
    let mut out = String::with_capacity(128);
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                separate(at, out);
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                separate(at, out);
                write_string(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => write_other(value, out),
    }
}

fn separate(at: usize, out: &mut String) {
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
    // Writing to a string does not fail.
    let _ = write!(out, "{value}");
}

/// Whether a string stands in JSON as it is. Without a branch, so that the compiler compares many bytes at once.
fn is_literal(text: &str) -> bool {
    text.bytes().fold(true, |literal, byte| literal & (byte >= b' ') & (byte != b'"') & (byte != b'\\'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn check(value: &Value) {
        assert_eq!(to_text(value), serde_json::to_string(value).unwrap());
    }

    #[test]
    fn it_is_the_text_that_serde_json_writes() {
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

    proptest! {
        #[test]
        fn whatever_the_strings(texts in prop::collection::vec(any::<String>(), 0..4), name in any::<String>()) {
            let value = json!({name: texts});
            prop_assert_eq!(to_text(&value), serde_json::to_string(&value).unwrap());
        }
    }
}
