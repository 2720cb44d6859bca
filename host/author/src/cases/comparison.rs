//! Comparison of a call with what its case expects.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use similar::{ChangeTag, TextDiff};

use super::case::{Case, ExpectedResult};
use super::runner::Observation;

/// The comparison of one call with its case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// The verdict.
    pub verdict: Verdict,
    /// The differences: lines that begin with `-` for what was expected, and with `+` for what was found. May contain
    /// characters that a terminal should not get.
    pub differences: Vec<String>,
    /// Remarks that do not fail the case.
    pub notes: Vec<String>,
}

/// The verdict on a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is as expected.
    Passed,
    /// Something differs.
    Failed,
    /// The case expects nothing yet.
    Unexpected,
}

impl Comparison {
    /// Compares a call with its case.
    #[must_use]
    pub fn new(case: &Case, found: &Observation) -> Self {
        let Some(expect) = &case.expect else {
            let notes = vec!["it has no `expect` yet; `--update` writes the actual result".to_owned()];
            return Self { verdict: Verdict::Unexpected, differences: changes(&Value::Null, &found.result), notes };
        };
        let mut differences = match expect.result() {
            Ok(expected) => compare_results(&expected, expect.message.as_deref(), &found.result),
            Err(error) => vec![error],
        };
        if let Some(store) = &expect.store
            && *store != found.store
        {
            differences.push("the store differs:".to_owned());
            differences.extend(changes(&store_value(store), &store_value(&found.store)));
        }
        differences
            .extend(found.unanswered.iter().map(|request| format!("+ {request}: no [[case.http]] for this request")));
        differences
            .extend(found.unused.iter().map(|request| format!("- {request}: the tool did not send this request")));
        let mut notes = Vec::new();
        let costs = [("fuel", expect.fuel, found.fuel), ("memory", expect.memory, found.memory)];
        for (what, expected, found) in costs {
            match expected.map(|expected| (expected, compare_cost(expected, found, expect.tolerance()))) {
                Some((expected, Cost::More)) => {
                    let tolerance = expect.tolerance();
                    differences.push(format!("- {what} = {expected}, and at most {tolerance} % more"));
                    differences.push(format!("+ {what} = {found}"));
                }
                Some((expected, Cost::Less)) => {
                    notes.push(format!("{what} is {found}, far less than {expected}; save it with `--update`"));
                }
                Some((_, Cost::Same)) | None => {}
            }
        }
        let verdict = if differences.is_empty() { Verdict::Passed } else { Verdict::Failed };
        Self { verdict, differences, notes }
    }
}

/// The cost of a call, beside what was expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cost {
    Same,
    More,
    Less,
}

fn compare_cost(expected: u64, found: u64, tolerance_percent: u32) -> Cost {
    let expected = u128::from(expected) * 100;
    let found = u128::from(found) * 100;
    let slack = expected / 100 * u128::from(tolerance_percent);
    match () {
        () if found > expected + slack => Cost::More,
        () if found + slack < expected => Cost::Less,
        () => Cost::Same,
    }
}

fn compare_results(expected: &ExpectedResult, message: Option<&str>, found: &Value) -> Vec<String> {
    let expected = match expected {
        ExpectedResult::Text(expected) => json!({"text": fumehood::sanitize::printable(expected)}),
        ExpectedResult::Json(expected) => json!({"json": expected}),
        ExpectedResult::Content(expected) => json!({"content": expected}),
        ExpectedResult::Error(kind) => {
            let of_error = found.get("message").and_then(Value::as_str);
            // The message counts as expected if it contains what the case says.
            let is_contained = of_error.is_some_and(|found| message.is_none_or(|part| found.contains(part)));
            match (is_contained, message) {
                (true, _) => json!({"error": kind.as_str(), "message": of_error}),
                (false, Some(message)) => json!({"error": kind.as_str(), "message": format!("…{message}…")}),
                (false, None) => json!({"error": kind.as_str()}),
            }
        }
    };
    if is_same(&expected, found) { Vec::new() } else { changes(&expected, found) }
}

/// Compares values: numbers by their value, so that 8 and 8.0 are the same, and objects without their order.
fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (!(is_integer(a) && is_integer(b)) && a.as_f64() == b.as_f64())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// Returns whether a number is written without a fraction and an exponent. All of its digits count.
fn is_integer(number: &serde_json::Number) -> bool {
    !number.as_str().contains(['.', 'e', 'E'])
}

fn store_value(store: &BTreeMap<String, String>) -> Value {
    json!(store)
}

/// Returns the lines of two values that differ, with those around them. Members of objects are in the order of their
/// names.
fn changes(expected: &Value, found: &Value) -> Vec<String> {
    let expected = pretty(expected);
    let found = pretty(found);
    let diff = TextDiff::from_lines(&expected, &found);
    let lines = diff.grouped_ops(2).into_iter().flatten().flat_map(|op| diff.iter_changes(&op).collect::<Vec<_>>());
    let line = |change: similar::Change<&str>| {
        let sign = match change.tag() {
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
            ChangeTag::Equal => ' ',
        };
        format!("{sign} {}", change.value().trim_end_matches('\n'))
    };
    lines.map(line).collect()
}

fn pretty(value: &Value) -> String {
    if value.is_null() {
        return String::new();
    }
    let text = serde_json::to_string_pretty(&sorted(value)).unwrap_or_default();
    format!("{text}\n")
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        Value::Object(members) => {
            let members: BTreeMap<&String, Value> = members.iter().map(|(name, value)| (name, sorted(value))).collect();
            Value::Object(members.into_iter().map(|(name, value)| (name.clone(), value)).collect())
        }
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::CaseFile;
    use super::*;

    fn compare(expect: &str, found: Value) -> Comparison {
        let text = format!("[[case]]\nname = \"a\"\ntool = \"t\"\n{expect}");
        let file = CaseFile::parse(Path::new("a.toml"), &text).unwrap();
        let store = BTreeMap::new();
        let unanswered = Vec::new();
        let unused = Vec::new();
        let found =
            Observation { result: found, store, fuel: 1000, memory: 1 << 20, unanswered, unused, output: Vec::new() };
        Comparison::new(&file.cases[0], &found)
    }

    #[test]
    fn shows_expected_and_found_lines() {
        let found = json!({"json": {"b": 2, "a": 1}});
        assert_eq!(compare("expect = { json = { a = 1, b = 2.0 } }", found.clone()).verdict, Verdict::Passed);
        let failed = compare("expect = { json = { a = 1, b = 3 } }", found.clone());
        assert_eq!(failed.verdict, Verdict::Failed);
        let expected = ["    \"a\": 1,", "-     \"b\": 3", "+     \"b\": 2"];
        assert!(expected.iter().all(|line| failed.differences.iter().any(|found| found.contains(line))), "{failed:#?}");
        let other = compare("expect = { error = \"tool_failed\" }", found.clone());
        assert!(other.differences.iter().any(|line| line.starts_with("-   \"error\": \"tool_failed\"")), "{other:#?}");
        assert_eq!(compare("", found).verdict, Verdict::Unexpected);
    }

    #[test]
    fn message_has_to_contain_a_text() {
        let found = json!({"error": "tool_failed", "message": "no such city: Bonn"});
        let check = |expect: &str, verdict| assert_eq!(compare(expect, found.clone()).verdict, verdict, "{expect}");
        check("expect = { error = \"tool_failed\" }", Verdict::Passed);
        check("expect = { error = \"tool_failed\", message = \"no such city\" }", Verdict::Passed);
        check("expect = { error = \"tool_failed\", message = \"no such town\" }", Verdict::Failed);
        check("expect = { error = \"trap\" }", Verdict::Failed);
    }

    #[test]
    fn costs_have_a_tolerance() {
        fn check(found: &Value, cost: &str, verdict: Verdict, notes: usize) {
            let comparison = compare(&format!("expect = {{ text = \"a\", {cost} }}"), found.clone());
            assert_eq!((comparison.verdict, comparison.notes.len()), (verdict, notes), "{cost}: {comparison:?}");
        }

        let found = json!({"text": "a"});
        check(&found, "fuel = 1000", Verdict::Passed, 0);
        check(&found, "fuel = 910", Verdict::Passed, 0);
        check(&found, "fuel = 900", Verdict::Failed, 0);
        check(&found, "fuel = 900, tolerance = 20", Verdict::Passed, 0);
        check(&found, "fuel = 1200", Verdict::Passed, 1);
        check(&found, "memory = 1000000", Verdict::Passed, 0);
        check(&found, "memory = 100", Verdict::Failed, 0);
    }

    #[test]
    fn integers_beyond_floats_are_compared_exactly() {
        let found = json!({"json": 9_007_199_254_740_993_u64});
        assert_eq!(compare("expect = { json = 9007199254740993 }", found.clone()).verdict, Verdict::Passed);
        assert_eq!(compare("expect = { json = 9007199254740992 }", found).verdict, Verdict::Failed);
    }
}
