//! Explanations of failed assertions: the keywords that hold no schema (JSON Schema Validation 2020-12, section 6).
//!
//! The validator has decided that a document is invalid; this module only explains the decision.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use jsonschema::Validator;
use serde_json::{Map, Number, Value};

use super::format::{
    NO_CHOICE, describe_type, describe_value, format_value, join_choices, join_names, quote, suggest_correction,
};
use super::graph::Node;
use super::number;

/// One validator for each pattern of the schema, so that a pattern is matched as the validator of the whole schema
/// matches it, with the maximum steps to match one byte of text.
#[derive(Debug, Default)]
pub(super) struct Patterns(pub(super) HashMap<String, (Validator, u64)>);

impl Patterns {
    /// Returns the maximum steps to match one byte of text.
    pub(super) fn steps_per_byte(&self, pattern: &str) -> u64 {
        self.0.get(pattern).map_or(0, |(_, steps)| *steps)
    }

    /// Returns whether the pattern occurs in `text`.
    pub(super) fn matches(&self, pattern: &str, text: &str) -> bool {
        self.0.get(pattern).is_some_and(|(validator, _)| validator.is_valid(&Value::String(text.to_owned())))
    }
}

/// A failed assertion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) expected: String,
    pub(super) given: String,
    pub(super) kind: FailureKind,
}

/// The way in which a value fails an assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// The value has another type.
    Type,
    /// The value is not one of those listed.
    Choice,
    /// The value has the right type and is wrong in a detail.
    Detail,
}

/// Returns the assertions of the node that the value fails, except for `required`.
pub(super) fn check_assertions(node: &Node, value: &Value, patterns: &Patterns) -> Vec<Failure> {
    let assertions = &node.assertions;
    if let Some(failure) = check_type(assertions, value) {
        return vec![failure];
    }
    if let Some(failure) = check_choice(assertions, value) {
        return vec![failure];
    }
    let expected = match value {
        Value::Number(number) => check_number(assertions, number),
        Value::String(text) => check_string(assertions, text, patterns),
        Value::Array(items) => check_array(assertions, items),
        Value::Object(members) => check_object(assertions, members),
        Value::Null | Value::Bool(_) => Vec::new(),
    };
    expected.into_iter().map(|(expected, given)| Failure { expected, given, kind: FailureKind::Detail }).collect()
}

/// Returns the names of the types that a node accepts; none if it accepts all.
pub(super) fn accepted_types(node: &Node) -> Vec<&str> {
    match node.assertions.get("type") {
        Some(Value::String(name)) => vec![name],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn check_type(assertions: &Map<String, Value>, value: &Value) -> Option<Failure> {
    let wanted: Vec<&str> = match assertions.get("type")? {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    if wanted.iter().any(|name| is_type(value, name)) {
        return None;
    }
    let expected = join_choices(wanted.iter().map(|name| describe_type(name).to_owned()));
    let hint = suggest_correction(&wanted, value).unwrap_or_default();
    Some(Failure { expected, given: describe_value(value) + &hint, kind: FailureKind::Type })
}

fn is_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => value.as_number().is_some_and(number::is_integer),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn check_choice(assertions: &Map<String, Value>, value: &Value) -> Option<Failure> {
    let listed = match (assertions.get("const"), assertions.get("enum")) {
        (Some(constant), _) if !is_equal(constant, value) => std::slice::from_ref(constant),
        (_, Some(Value::Array(listed))) if !listed.iter().any(|entry| is_equal(entry, value)) => listed.as_slice(),
        _ => return None,
    };
    let expected = match listed {
        [] => NO_CHOICE.to_owned(),
        [only] => format_value(only),
        listed => format!("one of {}", join_names(listed.iter().map(format_value))),
    };
    Some(Failure { expected, given: describe_value(value), kind: FailureKind::Choice })
}

/// The expected and the given value of a failed assertion, in words.
type Mismatch = (String, String);

fn check_number(assertions: &Map<String, Value>, given: &Number) -> Vec<Mismatch> {
    let mut found = Vec::new();
    let as_given = || describe_value(&Value::Number(given.clone()));
    for (keyword, words, fails) in [
        ("minimum", "a number of at least", [Ordering::Less, Ordering::Less]),
        ("exclusiveMinimum", "a number above", [Ordering::Less, Ordering::Equal]),
        ("maximum", "a number of at most", [Ordering::Greater, Ordering::Greater]),
        ("exclusiveMaximum", "a number below", [Ordering::Greater, Ordering::Equal]),
    ] {
        if let Some(Value::Number(limit)) = assertions.get(keyword)
            && number::compare(given, limit).is_some_and(|order| fails.contains(&order))
        {
            found.push((format!("{words} {limit}"), as_given()));
        }
    }
    if let Some(Value::Number(step)) = assertions.get("multipleOf")
        && !number::is_multiple(given, step)
    {
        found.push((format!("a multiple of {step}"), as_given()));
    }
    found
}

fn check_string(assertions: &Map<String, Value>, text: &str, patterns: &Patterns) -> Vec<Mismatch> {
    let mut found =
        check_count(assertions, "minLength", "maxLength", text.chars().count(), "a string of", "characters");
    if let Some(pattern) = assertions.get("pattern").and_then(Value::as_str)
        && !patterns.matches(pattern, text)
    {
        let expected = format!("a string that matches the pattern {}", quote(pattern));
        found.push((expected, describe_value(&Value::String(text.to_owned()))));
    }
    found
}

fn check_array(assertions: &Map<String, Value>, items: &[Value]) -> Vec<Mismatch> {
    let mut found = check_count(assertions, "minItems", "maxItems", items.len(), "an array of", "items");
    if assertions.get("uniqueItems") == Some(&Value::Bool(true)) {
        let mut seen = HashSet::new();
        if let Some(index) = items.iter().position(|item| !seen.insert(item.to_string())) {
            let repeated = items.get(index).map(format_value).unwrap_or_default();
            found.push(("items that all differ".to_owned(), format!("{repeated} twice, at index {index} again")));
        }
    }
    found
}

fn check_object(assertions: &Map<String, Value>, members: &Map<String, Value>) -> Vec<Mismatch> {
    let mut found =
        check_count(assertions, "minProperties", "maxProperties", members.len(), "an object of", "properties");
    let Some(Value::Object(dependent)) = assertions.get("dependentRequired") else {
        return found;
    };
    for (name, required) in dependent.iter().filter(|(name, _)| members.contains_key(*name)) {
        let required = required.as_array().into_iter().flatten().filter_map(Value::as_str);
        for missing in required.filter(|required| !members.contains_key(*required)) {
            let expected = format!("the property {} next to {}", quote(missing), quote(name));
            found.push((expected, format!("{} alone", quote(name))));
        }
    }
    found
}

fn check_count(
    assertions: &Map<String, Value>,
    min: &str,
    max: &str,
    count: usize,
    what: &str,
    unit: &str,
) -> Vec<Mismatch> {
    let limit = |keyword| assertions.get(keyword).and_then(Value::as_f64);
    // Counts are far below 2^53.
    let exact = count as f64;
    let mut found = Vec::new();
    if let Some(limit) = limit(min).filter(|limit| exact < *limit) {
        found.push((format!("{what} at least {limit} {unit}"), format!("{count} {unit}")));
    }
    if let Some(limit) = limit(max).filter(|limit| exact > *limit) {
        found.push((format!("{what} at most {limit} {unit}"), format!("{count} {unit}")));
    }
    found
}

/// Compares as JSON Schema does (Core 2020-12, section 4.2.2): 1 and 1.0 are the same number.
fn is_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => number::compare(left, right) == Some(Ordering::Equal),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| is_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, value)| right.get(name).is_some_and(|other| is_equal(value, other)))
        }
        _ => left == right,
    }
}
