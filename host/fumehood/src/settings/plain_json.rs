//! Plain values as JSON, for languages that get them as text.
//!
//! Texts, lists, booleans, integers of 32 bits and other numbers are JSON of the same type, and no value is `null`. The rest are objects
//! with one member: `{"int": "9007199254740993"}`, `{"float": "NaN"}`, `{"bytes": "AAE="}` (base64), `{"dict": {…}}`, and
//! `{"other": "a function"}`.

use fumehood_core::text::base64::{decode_base64, encode_base64};
use serde_json::{Map, Value, json};

use super::plain_value::PlainValue;

/// Writes a value.
#[must_use]
pub fn write_plain_json(value: PlainValue) -> Value {
    match value {
        PlainValue::None => Value::Null,
        PlainValue::Bool(value) => value.into(),
        PlainValue::Int(number) => number.into(),
        PlainValue::BigInt(number) => json!({"int": number.to_string()}),
        PlainValue::Float(number) if number.is_finite() && !(number == 0.0 && number.is_sign_negative()) => {
            number.into()
        }
        PlainValue::Float(number) if number.is_nan() => json!({"float": "NaN"}),
        PlainValue::Float(0.0) => json!({"float": "-0"}),
        PlainValue::Float(number) => json!({"float": if number > 0.0 { "Infinity" } else { "-Infinity" }}),
        PlainValue::Text(text) => text.into(),
        PlainValue::Bytes(bytes) => json!({"bytes": encode_base64(&bytes)}),
        PlainValue::List(items) => items.into_iter().map(write_plain_json).collect(),
        PlainValue::Dict(parts) => {
            let parts: Map<String, Value> =
                parts.into_iter().map(|(name, part)| (name, write_plain_json(part))).collect();
            json!({"dict": parts})
        }
        PlainValue::Other(name) => json!({"other": name}),
    }
}

/// Reads a value. One of no known form is [`PlainValue::Other`], which fits no type of WIT.
#[must_use]
pub fn read_plain_json(value: Value) -> PlainValue {
    let unknown = || PlainValue::Other("a value without a plain form".to_owned());
    match value {
        Value::Null => PlainValue::None,
        Value::Bool(value) => PlainValue::Bool(value),
        Value::Number(number) => number.as_f64().map_or_else(unknown, PlainValue::Float),
        Value::String(text) => PlainValue::Text(text),
        Value::Array(items) => PlainValue::List(items.into_iter().map(read_plain_json).collect()),
        Value::Object(members) => match members.into_iter().next() {
            Some((form, value)) => read_object(&form, value).unwrap_or_else(unknown),
            None => unknown(),
        },
    }
}

fn read_object(form: &str, value: Value) -> Option<PlainValue> {
    Some(match (form, value) {
        ("int", Value::String(digits)) => match digits.parse() {
            Ok(number) => PlainValue::BigInt(number),
            Err(_) => PlainValue::Other("an integer of more than 64 bits".to_owned()),
        },
        ("float", Value::String(number)) => PlainValue::Float(number.parse().ok()?),
        ("bytes", Value::String(text)) => PlainValue::Bytes(decode_base64(&text).ok()?),
        ("dict", Value::Object(parts)) => {
            PlainValue::Dict(parts.into_iter().map(|(name, part)| (name, read_plain_json(part))).collect())
        }
        ("other", Value::String(name)) => PlainValue::Other(name),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_after_json() {
        let values = [
            PlainValue::None,
            PlainValue::BigInt(i128::from(u64::MAX)),
            PlainValue::Float(0.5),
            PlainValue::Float(f64::NEG_INFINITY),
            PlainValue::Bytes(vec![0, 255]),
            PlainValue::Dict(vec![("int".to_owned(), PlainValue::Text("7".to_owned()))]),
        ];
        let list = PlainValue::List(values.to_vec());
        let text = write_plain_json(list.clone()).to_string();
        assert_eq!(read_plain_json(serde_json::from_str(&text).unwrap()), list);
        let zero = read_plain_json(write_plain_json(PlainValue::Float(-0.0)));
        assert!(matches!(zero, PlainValue::Float(number) if number.is_sign_negative()), "{zero:?}");
        assert!(
            matches!(read_plain_json(write_plain_json(PlainValue::Float(f64::NAN))), PlainValue::Float(n) if n.is_nan())
        );
    }

    #[test]
    fn other_json_fits_no_type() {
        for value in [json!({}), json!({"bytes": "?"}), json!({"int": "1.5"}), json!({"set": []}), json!({"dict": 1})] {
            assert!(matches!(read_plain_json(value.clone()), PlainValue::Other(_)), "{value}");
        }
    }
}
