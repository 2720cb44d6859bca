//! Extraction of JSON from the text of a model, with repairs that need no guess.
//!
//! Fences and prose around it are skipped. Brackets that are missing at the very end are added if the text ends after
//! a complete value. Nothing else is repaired: no quotes, no commas, no incomplete words.

use std::borrow::Cow;

use fumehood_core::call::content::JsonText;
use fumehood_core::chat::StopReason;

/// Maximum nesting, which is that of `serde_json`.
const MAX_DEPTH: usize = 127;

/// Permission to add brackets that are missing at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// Brackets may be added: the model ended its reply itself.
    Allowed,
    /// Brackets must not be added: the reply was cut off, so a missing argument was not necessarily omitted on purpose.
    Never,
}

impl From<StopReason> for Closing {
    fn from(stop: StopReason) -> Self {
        match stop {
            StopReason::Done => Self::Allowed,
            StopReason::Length
            | StopReason::Filtered
            | StopReason::Refused
            | StopReason::Paused
            | StopReason::Failed => Self::Never,
        }
    }
}

/// JSON found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecoveredJson {
    /// The JSON as it was written, except for added brackets.
    pub(crate) json: JsonText,
    /// True if brackets were added.
    pub(crate) repaired: bool,
}

/// Errors returned by [`recover`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecoverError {
    /// No JSON.
    #[error("there is no JSON object in it")]
    NotFound,
    /// Incomplete JSON.
    #[error("the JSON object in it is not complete")]
    Cut,
    /// Malformed JSON.
    #[error("the JSON object in it is malformed: {0}")]
    Malformed(String),
}

/// Extracts the first JSON object of a text, or the first array if the text begins with one, or the whole text if it is
/// any JSON value.
///
/// Text that looks like an object but is malformed ends the search, because objects inside or after it were not meant
/// to stand alone.
///
/// # Errors
/// If there is no JSON, it is incomplete and may not be completed, or it is malformed.
pub(crate) fn recover(text: &str, closing: Closing) -> Result<RecoveredJson, RecoverError> {
    let body = strip_fence(text);
    if let Ok(json) = JsonText::parse(body.trim_end().to_owned()) {
        return Ok(RecoveredJson { json, repaired: false });
    }
    let candidate = if body.starts_with('[') && looks_like_array(body) { Some(body) } else { first_object(body) };
    let candidate = candidate.ok_or(RecoverError::NotFound)?;
    match scan(candidate) {
        ScanResult::Whole(end) => parse(Cow::Borrowed(candidate.get(..end).unwrap_or_default()), false),
        ScanResult::Broken => Err(RecoverError::Malformed("its brackets do not match".to_owned())),
        ScanResult::InString => Err(RecoverError::Cut),
        ScanResult::Open(_) if closing == Closing::Never => Err(RecoverError::Cut),
        ScanResult::Open(missing) => close(candidate, &missing),
    }
}

/// Removes the thoughts that some models write before their reply, in `<think>`. Returns an empty text if they never
/// end.
#[must_use]
pub(crate) fn strip_thoughts(text: &str) -> &str {
    match text.trim_start().strip_prefix("<think>") {
        Some(thoughts) => thoughts.split_once("</think>").map_or("", |(_, rest)| rest),
        None => text,
    }
}

/// Removes white space and a Markdown fence around a text.
fn strip_fence(text: &str) -> &str {
    let text = text.trim();
    let Some(inside) = text.strip_prefix("```") else {
        return text;
    };
    // The first line of a fence names its language. Without a line break the fence is on one line.
    let inside = inside.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
    inside.trim_end().strip_suffix("```").unwrap_or(inside).trim_start()
}

/// Returns the text from the first bracket that begins an object rather than a word in brackets.
fn first_object(text: &str) -> Option<&str> {
    text.match_indices('{').find_map(|(at, _)| {
        let candidate = text.get(at..)?;
        let next = candidate.bytes().skip(1).find(|byte| !byte.is_ascii_whitespace());
        matches!(next, None | Some(b'"' | b'}')).then_some(candidate)
    })
}

/// Returns whether a text that begins with `[` is a list of objects or strings, rather than a remark in brackets.
fn looks_like_array(text: &str) -> bool {
    let next = text.bytes().skip(1).find(|byte| !byte.is_ascii_whitespace());
    matches!(next, Some(b'{' | b'"' | b'['))
}

/// The result of scanning brackets and strings.
enum ScanResult {
    /// The value ends before this byte.
    Whole(usize),
    /// The text ends outside of strings, with these brackets missing.
    Open(String),
    /// The text ends inside a string.
    InString,
    /// A bracket does not match, or the nesting is too deep.
    Broken,
}

/// Scans brackets and strings from a bracket on. Brackets, quotes and backslashes are single bytes in UTF-8.
fn scan(text: &str) -> ScanResult {
    let mut open = Vec::new();
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' if open.len() == MAX_DEPTH => return ScanResult::Broken,
            b'{' => open.push('}'),
            b'[' => open.push(']'),
            b'}' | b']' if open.pop() != Some(char::from(byte)) => return ScanResult::Broken,
            b'}' | b']' if open.is_empty() => return ScanResult::Whole(at.saturating_add(1)),
            _ => {}
        }
    }
    if in_string { ScanResult::InString } else { ScanResult::Open(open.into_iter().rev().collect()) }
}

/// Adds brackets at the end of a text that ends after a complete value.
fn close(text: &str, missing: &str) -> Result<RecoveredJson, RecoverError> {
    let trimmed = text.trim_end();
    let trimmed = trimmed.strip_suffix("```").unwrap_or(trimmed);
    // A number at the end of the text may have lost its last digits, but not before the end of a fence. White space
    // after it is no evidence, because clients trim and add it.
    let is_complete = |last: char| match last {
        '"' | '}' | ']' | 'e' | 'l' => true,
        '0'..='9' => trimmed.len() != trimmed.trim_end().len() || trimmed.len() != text.len(),
        _ => false,
    };
    if !trimmed.trim_end().chars().next_back().is_some_and(is_complete) {
        return Err(RecoverError::Cut);
    }
    parse(Cow::Owned(format!("{}{missing}", trimmed.trim_end())), true).map_err(|_| RecoverError::Cut)
}

fn parse(text: Cow<'_, str>, repaired: bool) -> Result<RecoveredJson, RecoverError> {
    let json = JsonText::parse(text.into_owned()).map_err(|error| RecoverError::Malformed(error.to_string()))?;
    Ok(RecoveredJson { json, repaired })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: &str) {
        let found = match recover(text, Closing::Allowed) {
            Ok(found) => format!("{}{}", if found.repaired { "repaired " } else { "" }, found.json.expose_raw()),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn skips_fences_and_prose() {
        check(r#"{"a": 1}"#, r#"{"a": 1}"#);
        check("```json\n{\"a\": 1}\n```", r#"{"a": 1}"#);
        check("``` {\"a\": 1} ```", r#"{"a": 1}"#);
        check("```json\n[1, 2]\n```", "[1, 2]");
        check("Sure, {see} below:\n```json\n{\"a\": {\"b\": \"}\"}}\n```\nDone {}", r#"{"a": {"b": "}"}}"#);
        check(r#"{"a": 1} {"b": 2}"#, r#"{"a": 1}"#);
        check(r#"[1] {"a": "\"{"} tail"#, r#"{"a": "\"{"}"#);
        check("42", "42");
    }

    #[test]
    fn adds_only_brackets_at_the_end() {
        check(r#"{"a": {"b": ["c"#, "the JSON object in it is not complete");
        check(r#"{"a": {"b": ["c""#, r#"repaired {"a": {"b": ["c"]}}"#);
        check(r#"{"a": true"#, r#"repaired {"a": true}"#);
        check(r#"{"a": tru"#, "the JSON object in it is not complete");
        check(r#"{"a": 1"#, "the JSON object in it is not complete");
        check("{\"a\": 1\n", "the JSON object in it is not complete");
        check("```json\n{\"a\": [1\n```", r#"repaired {"a": [1]}"#);
        check(r#"[1, {"a": true"#, r#"repaired {"a": true}"#);
        for cut in [r#"{"a""#, r#"{"a":"#, r#"{"a": 1,"#, r#"{"a": ["#, "{", r#"{"a": -"#, r#"{"a": "\"#] {
            check(cut, "the JSON object in it is not complete");
        }
    }

    #[test]
    fn never_completes_cut_text() {
        assert_eq!(recover(r#"{"a": {"b": "c"}"#, Closing::from(StopReason::Length)), Err(RecoverError::Cut));
        assert!(recover(r#"{"a": {"b": "c"}"#, Closing::from(StopReason::Done)).unwrap().repaired);
        assert!(!recover(r#"{"a": 1}"#, Closing::Never).unwrap().repaired);
    }

    #[test]
    fn ignores_objects_inside_malformed_ones() {
        check(
            r#"{"type": call, "args": {"a": 1}}"#,
            "the JSON object in it is malformed: expected value at line 1 column 10",
        );
        check(r#"{"a": [1}"#, "the JSON object in it is malformed: its brackets do not match");
        check("no braces", "there is no JSON object in it");
        check("", "there is no JSON object in it");
        let deep = "{\"a\":".repeat(200);
        check(&deep, "the JSON object in it is malformed: its brackets do not match");
    }

    #[test]
    fn skips_thoughts_before_the_reply() {
        assert_eq!(strip_thoughts("<think>{\"a\"</think> b"), " b");
        assert_eq!(strip_thoughts("<think>{\"a\": 1}"), "");
        assert_eq!(strip_thoughts("plain"), "plain");
    }

    #[test]
    fn hostile_text_takes_linear_time() {
        for piece in ["{", "[", "{ ", "{\"", "{a", "\"", "{\"a\":[", "```"] {
            let text = piece.repeat(2_000_000 / piece.len());
            assert!(recover(&text, Closing::Allowed).is_err());
        }
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i64>().prop_map(serde_json::Value::from),
            ".*".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
                prop::collection::btree_map(".*", inner, 0..6)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn never_panics_on_any_text(text in any::<String>()) {
            let _ = recover(&text, Closing::Allowed);
        }

        #[test]
        fn recovers_the_same_json_twice(text in r#"[\[\]{}":,\\ a1`t]{0,40}"#) {
            if let Ok(found) = recover(&text, Closing::Allowed) {
                let again = recover(found.json.expose_raw(), Closing::Never).unwrap();
                prop_assert_eq!(again, RecoveredJson { repaired: false, ..found });
            }
        }

        #[test]
        fn keeps_valid_json(value in json()) {
            let text = value.to_string();
            let found = recover(&text, Closing::Allowed).unwrap();
            prop_assert_eq!(found.json.expose_raw(), text.as_str());
            prop_assert!(!found.repaired);
        }

        #[test]
        fn repair_only_adds_brackets(value in json(), at in any::<prop::sample::Index>()) {
            let text = value.to_string();
            let cut: String = text.chars().take(at.index(text.chars().count() + 1)).collect();
            if let Ok(found) = recover(&cut, Closing::Allowed) && found.repaired {
                // Of a list that does not begin with an object or a string, the first object inside is taken.
                let json = found.json.expose_raw();
                let without_brackets = json.trim_end_matches(['}', ']']).len();
                let only_added = (without_brackets..json.len()).any(|end| cut.trim_end().ends_with(&json[..end]));
                prop_assert!(only_added, "{json} of {cut}");
            }
        }
    }
}
