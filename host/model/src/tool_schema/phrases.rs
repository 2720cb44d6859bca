//! Short phrases for keywords that a dialect lacks.

use fumehood_core::text::sanitize::truncate_str;
use serde_json::{Map, Value};

/// Maximum size of the value in one phrase, in bytes.
const MAX_VALUE_BYTES: usize = 160;
/// Maximum size of all phrases of one description, in bytes.
const MAX_PHRASES_BYTES: usize = 600;

/// Keywords that say nothing to a model, or that the adapter handles itself.
const SILENT: &[&str] = &[
    "$anchor",
    "$comment",
    "$defs",
    "$dynamicAnchor",
    "$id",
    "$schema",
    "$vocabulary",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "definitions",
    "description",
    "enum",
    "id",
    "items",
    "nullable",
    "oneOf",
    "prefixItems",
    "properties",
    "readOnly",
    "required",
    "title",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "writeOnly",
];

/// Returns the phrase for a keyword, if it says anything to a model.
pub(super) fn phrase(keyword: &str, value: &Value) -> Option<String> {
    if SILENT.contains(&keyword) || keyword.starts_with("x-") {
        return None;
    }
    let with = |words: &str| Some(format!("{words} {}", show(value)));
    match (keyword, value) {
        ("deprecated", Value::Bool(true)) => Some("deprecated".to_owned()),
        ("uniqueItems", Value::Bool(true)) => Some("no item twice".to_owned()),
        // Among others the boolean bounds of draft 4.
        (_, Value::Null | Value::Bool(_)) => None,
        ("minimum", _) => with("at least"),
        ("maximum", _) => with("at most"),
        ("exclusiveMinimum", _) => with("more than"),
        ("exclusiveMaximum", _) => with("less than"),
        ("multipleOf", _) => with("a multiple of"),
        ("minLength", _) => with("minimum length"),
        ("maxLength", _) => with("maximum length"),
        ("minItems", _) => with("minimum items"),
        ("maxItems", _) => with("maximum items"),
        ("minProperties", _) => with("minimum properties"),
        ("maxProperties", _) => with("maximum properties"),
        ("examples", Value::Array(examples)) => examples.first().map(|first| format!("example {}", show(first))),
        ("pattern" | "format" | "default" | "not" | "example", _) => with(keyword),
        ("if" | "then" | "else" | "contains" | "minContains" | "maxContains" | "propertyNames", _) => with(keyword),
        ("patternProperties" | "dependentRequired" | "dependentSchemas" | "dependencies", _) => with(keyword),
        ("contentEncoding" | "contentMediaType" | "contentSchema", _) => with(keyword),
        _ => None,
    }
}

/// Returns a value as it stands in a phrase: strings without quotes, all else as JSON, and no more than a short part.
pub(super) fn show(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    };
    let short = truncate_str(&text, MAX_VALUE_BYTES);
    if short.len() < text.len() { format!("{short}…") } else { text }
}

/// Returns a list of values for a phrase.
pub(super) fn show_all(values: &[Value]) -> String {
    let shown: Vec<String> = values.iter().map(show).collect();
    show(&Value::String(shown.join(", ")))
}

/// Returns the description of a schema, with the phrases behind it.
pub(super) fn describe(schema: &Map<String, Value>, phrases: &[String]) -> Option<String> {
    let text = ["description", "title"].iter().find_map(|key| schema.get(*key)?.as_str());
    let text = text.map(str::trim).filter(|text| !text.is_empty());
    let mut all = String::new();
    for (index, phrase) in phrases.iter().enumerate() {
        // The same phrase comes from each alternative of a value.
        let is_first = !phrases.iter().take(index).any(|earlier| earlier == phrase);
        if is_first && all.len().saturating_add(phrase.len()) <= MAX_PHRASES_BYTES {
            all.push_str(if all.is_empty() { "" } else { "; " });
            all.push_str(phrase);
        }
    }
    match (text, all.is_empty()) {
        (text, true) => text.map(str::to_owned),
        (None, false) => Some(all),
        (Some(text), false) => Some(format!("{text} ({all})")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn phrases_are_short_and_leave_out_what_says_nothing() {
        fn check(keyword: &str, value: Value, expected: Option<&str>) {
            assert_eq!(phrase(keyword, &value).as_deref(), expected, "{keyword}");
        }

        check("minimum", json!(0), Some("at least 0"));
        check("maximum", json!(u64::MAX), Some("at most 18446744073709551615"));
        check("pattern", json!("^a$"), Some("pattern ^a$"));
        check("default", json!(20), Some("default 20"));
        check("default", json!(null), None);
        check("exclusiveMinimum", json!(true), None);
        check("x-order", json!(1), None);
        check("$comment", json!("c"), None);
        check("unknown", json!("c"), None);
        let long = phrase("pattern", &json!("é".repeat(500))).unwrap();
        assert!(long.len() < MAX_VALUE_BYTES + 20 && long.ends_with('…'), "{long}");
    }

    #[test]
    fn describes_with_phrases_behind_the_text() {
        fn check(schema: Value, phrases: &[&str], expected: Option<&str>) {
            let phrases: Vec<String> = phrases.iter().map(|phrase| (*phrase).to_owned()).collect();
            assert_eq!(describe(schema.as_object().unwrap(), &phrases).as_deref(), expected);
        }

        check(json!({}), &[], None);
        check(json!({"description": null, "title": "T"}), &[], Some("T"));
        check(json!({"description": "D", "title": "T"}), &["a", "b", "a"], Some("D (a; b)"));
        check(json!({}), &["a"], Some("a"));
        check(json!({}), &[&"x".repeat(700), "a"], Some("a"));
    }
}
