//! JSON as one text: whoever writes the same value gets the same bytes, so that they can be compared and hashed.

use serde_json::{Map, Value};

/// The value without white space, the names of every object in the order of their bytes.
#[must_use]
pub fn text(value: &Value) -> String {
    sorted(value).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort_unstable();
            let member = |name: &String| Some((name.clone(), sorted(members.get(name)?)));
            Value::Object(names.into_iter().filter_map(member).collect::<Map<_, _>>())
        }
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_names_does_not_matter_and_that_of_items_does() {
        let check = |given: &str, expected: &str| {
            assert_eq!(text(&serde_json::from_str(given).unwrap()), expected);
        };
        check(r#"{ "b": [2, 1], "a": {"d": null, "c": "é\u0000"} }"#, r#"{"a":{"c":"é\u0000","d":null},"b":[2,1]}"#);
        check(r#"{"a": {"c": "é\u0000", "d": null}, "b": [2,1]}"#, r#"{"a":{"c":"é\u0000","d":null},"b":[2,1]}"#);
        check("[]", "[]");
    }
}
