//! Writers of JSON text: compact, for the arguments of a tool, and canonical, for comparing and hashing.

use std::fmt::Write as _;
use std::str::FromStr as _;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

use super::gate::number;

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
/// Equal values have equal texts, so that the texts can be compared and hashed: 1e2 and 100.0 are written alike.
#[must_use]
pub fn to_canonical_text(value: &Value) -> String {
    to_canonical(value).to_string()
}

/// Returns the value of a number without a fraction, in any spelling: 5, 5.0 and 5e0 are the same number to JSON Schema
/// (Validation 2020-12, section 6.1.1). `None` if it has a fraction, or does not fit.
#[must_use]
pub fn to_integer(number: &Number) -> Option<i128> {
    number.as_i128().or_else(|| number::Decimal::parse(number.as_str())?.to_integer())
}

/// Returns the binary64 that is nearest to a number. `None` if there is none, or for an integer without a fraction or an
/// exponent that would be rounded: whoever writes one means every digit of it.
#[must_use]
pub fn to_float(number: &Number) -> Option<f64> {
    let float = number.as_f64()?;
    let is_plain = !number.as_str().contains(['.', 'e', 'E']);
    // Below 2^53 every integer is one.
    (!is_plain || float.abs() < 9_007_199_254_740_992.0 || is_exact(float, number)).then_some(float)
}

/// Returns whether a float that is an integer has all digits of the number, by writing it in full.
fn is_exact(float: f64, number: &Number) -> bool {
    number::Decimal::parse(&format!("{float:.0}")) == number::Decimal::parse(number.as_str())
}

/// Reads a number as a binary64. A type with a tag or a flattened field is read from a copy of its parts, in which numbers keep
/// their digits; serde's own reader takes no fraction from there.
///
/// # Errors
/// If there is no number, or it is out of range.
pub fn deserialize_float<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let number = Number::deserialize(deserializer)?;
    number.as_f64().ok_or_else(|| D::Error::custom(format_args!("the number {number} is out of range")))
}

/// Like [`deserialize_float`], for a number that may be missing.
///
/// # Errors
/// As for [`deserialize_float`].
pub fn deserialize_optional_float<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    struct Float(#[serde(deserialize_with = "deserialize_float")] f64);
    Ok(Option::<Float>::deserialize(deserializer)?.map(|Float(number)| number))
}

/// Returns an equal value whose text is its [canonical text](to_canonical_text).
#[must_use]
pub fn to_canonical(value: &Value) -> Value {
    match value {
        Value::Number(number) => {
            let text = number::to_canonical(number);
            Value::Number(Number::from_str(&text).unwrap_or_else(|_| number.clone()))
        }
        Value::Array(items) => Value::Array(items.iter().map(to_canonical).collect()),
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_unstable();
            let member = |name: &String| Some((name.clone(), to_canonical(members.get(name)?)));
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
        Value::Number(number) => out.push_str(number.as_str()),
        Value::Null | Value::Bool(_) => write_other(value, out),
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
        fn check(given: &str, expected: &str) {
            assert_eq!(to_canonical_text(&serde_json::from_str(given).unwrap()), expected);
        }

        check(r#"{ "b": [2, 1], "a": {"d": null, "c": "é\u0000"} }"#, r#"{"a":{"c":"é\u0000","d":null},"b":[2,1]}"#);
        check(r#"{"a": {"c": "é\u0000", "d": null}, "b": [2,1]}"#, r#"{"a":{"c":"é\u0000","d":null},"b":[2,1]}"#);
        check("[]", "[]");
        check("[1e2, 100.0, 0.10, 12345678901234567890123]", "[100.0,100.0,0.1,12345678901234567890123]");
    }

    #[test]
    fn floats_are_read_from_types_with_a_tag() {
        fn one(number: f64, other: Option<f64>) -> Option<TaggedNumber> {
            Some(TaggedNumber::One { number, other })
        }

        fn read(text: &str) -> Option<TaggedNumber> {
            serde_json::from_str::<TaggedNumber>(text).ok()
        }

        #[derive(Debug, PartialEq, Deserialize)]
        #[serde(tag = "kind")]
        enum TaggedNumber {
            One {
                #[serde(deserialize_with = "deserialize_float")]
                number: f64,
                #[serde(default, deserialize_with = "deserialize_optional_float")]
                other: Option<f64>,
            },
        }
        assert_eq!(read(r#"{"kind": "One", "number": 0.5}"#), one(0.5, None));
        assert_eq!(read(r#"{"number": 1, "other": 2.5, "kind": "One"}"#), one(1.0, Some(2.5)));
        assert_eq!(read(r#"{"number": 1e400, "kind": "One"}"#), None);
    }

    #[test]
    fn numbers_convert_exactly_or_not_at_all() {
        fn number(text: &str) -> Number {
            serde_json::from_str::<Number>(text).unwrap()
        }

        for (text, integer, float) in [
            ("5", Some(5), Some(5.0)),
            ("5.0", Some(5), Some(5.0)),
            ("5e2", Some(500), Some(500.0)),
            ("-0", Some(0), Some(-0.0)),
            ("0.1", None, Some(0.1)),
            ("9223372036854775807.0", Some(i64::MAX.into()), Some(9_223_372_036_854_775_807.0)),
            ("9007199254740993", Some(9_007_199_254_740_993), None),
            ("18446744073709551616", Some(1 << 64), Some(18_446_744_073_709_551_616.0)),
            ("12345678901234567890123", Some(12_345_678_901_234_567_890_123), None),
            ("1e300", None, Some(1e300)),
            ("1e400", None, None),
        ] {
            assert_eq!((to_integer(&number(text)), to_float(&number(text))), (integer, float), "{text}");
        }
    }

    proptest! {
        #[test]
        fn compact_text_of_any_string_is_that_of_serde_json(texts in prop::collection::vec(any::<String>(), 0..4), name in any::<String>()) {
            let value = json!({name: texts});
            prop_assert_eq!(to_compact_text(&value), serde_json::to_string(&value).unwrap());
        }
    }
}
