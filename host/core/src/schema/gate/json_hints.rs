//! Explanations of invalid JSON: the location of the first error, and a hint on how to correct it.

use serde_json::Value;

use crate::text::sanitize::printable;

use super::format::truncate;
use super::violation::Violation;

/// Maximum size of the text shown on each side of the error, in bytes.
const MAX_EXCERPT_BYTES: usize = 24;

/// Literals of other languages, each with a hint on how to write it in JSON.
const FOREIGN_WORDS: [(&str, &str); 7] = [
    ("None", "write `null` instead of `None`"),
    ("True", "write `true` instead of `True`"),
    ("False", "write `false` instead of `False`"),
    ("undefined", "write `null` instead of `undefined`, or leave the property out"),
    ("NaN", "JSON has no `NaN`; write a number, or `null` if the tool takes it"),
    ("Infinity", "JSON has no `Infinity`; write a number"),
    ("-Infinity", "JSON has no `-Infinity`; write a number"),
];

/// Describes the first location at which `text` is not JSON.
pub(super) fn explain_syntax_error(text: &str, error: &serde_json::Error) -> Violation {
    let message = error.to_string();
    let what = message.split(" at line ").next().unwrap_or_default().replace("EOF", "the text ends");
    let line = error.line();
    let column = error.column();
    let place = find_offset(text, error);
    let sentence = format!(
        "the text is not JSON: {what} at line {line}, column {column}{}; {}",
        format_excerpt(text, place),
        find_remedy(text, place, error)
    );
    Violation::plain(String::new(), "JSON", sentence)
}

/// Describes a text that the strict parser rejects for a reason that no other check finds.
pub(super) fn explain_strictness(text: &str) -> Violation {
    match serde_json::from_str::<Value>(text) {
        Err(error) => explain_syntax_error(text, &error),
        Ok(_) => Violation::mismatch(String::new(), "strict JSON", truncate(text, 80)),
    }
}

/// Returns the offset of the byte that the parser rejected. Its columns are counted in bytes, from 1.
fn find_offset(text: &str, error: &serde_json::Error) -> usize {
    if error.is_eof() {
        return text.len();
    }
    let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
    let place = before.saturating_add(error.column().saturating_sub(1)).min(text.len());
    let place = text.floor_char_boundary(place);
    if !is_control(error) {
        return place;
    }
    // For a control character the parser reports the byte before it, or, after a line break, column 0 of the next line.
    let place = if error.column() == 0 { text.floor_char_boundary(place.saturating_sub(1)) } else { place };
    let control = text.get(place..).and_then(|rest| rest.find(|c: char| c.is_ascii_control()));
    place + control.unwrap_or(0)
}

/// Formats the text on both sides of the error.
fn format_excerpt(text: &str, place: usize) -> String {
    let start = text.ceil_char_boundary(place.saturating_sub(MAX_EXCERPT_BYTES));
    let end = text.floor_char_boundary(place.saturating_add(MAX_EXCERPT_BYTES).min(text.len()));
    let before = escape_excerpt(text.get(start..place));
    let after = escape_excerpt(text.get(place..end));
    let more = if start > 0 { "…" } else { "" };
    let rest = if end < text.len() { "…" } else { "" };
    match (before.is_empty(), after.is_empty()) {
        (true, true) => String::new(),
        (true, false) => format!(", before `{after}{rest}`"),
        (false, true) => format!(", after `{more}{before}`"),
        (false, false) => format!(", between `{more}{before}` and `{after}{rest}`"),
    }
}

fn escape_excerpt(piece: Option<&str>) -> String {
    printable(piece.unwrap_or_default()).replace('\n', "\\n").replace('\t', "\\t")
}

fn find_remedy(text: &str, place: usize, error: &serde_json::Error) -> &'static str {
    let before = text.get(..place).unwrap_or_default().trim_end();
    let at = text.get(place..).unwrap_or_default();
    let start = text.trim_start();
    if start.is_empty() {
        return "write one JSON value, `{}` if there are no arguments";
    }
    if start.starts_with("```") {
        return "leave the code fence out, and write the JSON alone";
    }
    if let Some((_, remedy)) = FOREIGN_WORDS.iter().find(|(word, _)| is_word(before, at, word)) {
        return remedy;
    }
    match at.chars().next() {
        Some('\n' | '\r') if is_control(error) => "write a line break within a string as `\\n`",
        Some('\t') if is_control(error) => "write a tab within a string as `\\t`",
        Some(_) if is_control(error) => "write control characters within a string as escapes such as `\\u001b`",
        Some('\'' | '‘' | '’' | '“' | '”' | '`') => "write names and strings in double quotes: \"…\"",
        Some('}' | ']') if before.ends_with(',') => "leave out the comma before the closing bracket",
        Some('/' | '#') => "leave the comment out; JSON has none",
        Some(c) if (before.ends_with(['{', ',']) && (c.is_alphabetic() || c == '_')) => {
            "write names of properties in double quotes: \"…\""
        }
        _ if error.is_eof() => "write the rest, and close every string and bracket that was opened",
        _ => "write one JSON value and nothing else",
    }
}

/// Returns whether the error is within `word`: the parser stops at the first byte of it that fits no literal.
fn is_word(before: &str, at: &str, word: &str) -> bool {
    (0..word.len()).any(|read| {
        let head = word.get(..read).unwrap_or_default();
        let tail = word.get(read..).unwrap_or_default();
        let ends = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        let begins = |rest: &str| !rest.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '"'));
        before.strip_suffix(head).is_some_and(begins) && at.strip_prefix(tail).is_some_and(ends)
    })
}

fn is_control(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("control character")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let error = serde_json::from_str::<Value>(text).unwrap_err();
        let sentence = explain_syntax_error(text, &error).to_string();
        assert!(sentence.ends_with(&format!("; {expected}")), "{text}: {sentence}");
    }

    #[test]
    fn suggests_remedies_for_common_mistakes() {
        check("", "write one JSON value, `{}` if there are no arguments");
        check("```json\n{}\n```", "leave the code fence out, and write the JSON alone");
        check("{'a': 1}", "write names and strings in double quotes: \"…\"");
        check("{\"a\": 'b'}", "write names and strings in double quotes: \"…\"");
        check("{“a”: 1}", "write names and strings in double quotes: \"…\"");
        check("{\"a\": [1, 2,]}", "leave out the comma before the closing bracket");
        check("{\"a\": 1,\n}", "leave out the comma before the closing bracket");
        check("{\"a\": None}", "write `null` instead of `None`");
        check("{\"a\": True, \"b\": 1}", "write `true` instead of `True`");
        check("[False]", "write `false` instead of `False`");
        check("{\"a\": NaN}", "JSON has no `NaN`; write a number, or `null` if the tool takes it");
        check("{\"a\": -Infinity}", "JSON has no `-Infinity`; write a number");
        check("{\"a\": \"b\nc\"}", "write a line break within a string as `\\n`");
        check("{\"a\": \"b\tc\"}", "write a tab within a string as `\\t`");
        check("{a: 1}", "write names of properties in double quotes: \"…\"");
        check("{\"a\": 1 // one\n}", "leave the comment out; JSON has none");
        check("{\"a\": {\"b\": 1}", "write the rest, and close every string and bracket that was opened");
        check("{\"a\": Nonesuch}", "write one JSON value and nothing else");
        check("{} {}", "write one JSON value and nothing else");
    }

    #[test]
    fn shows_short_excerpt_around_error() {
        fn sentence(text: &str) -> String {
            let error = serde_json::from_str::<Value>(text).unwrap_err();
            explain_syntax_error(text, &error).to_string()
        }

        let short = sentence("{\"a\": None}");
        assert!(short.contains("line 1, column 7, between `{\"a\": ` and `None}`;"), "{short}");
        let long = format!("{{\"é\": \"{}\", \u{200b}}}", "é".repeat(5_000));
        let shown = sentence(&long);
        assert!(shown.len() < 300 && shown.contains("between `…") && shown.contains("`\\u{200b}}`"), "{shown}");
        let lines = sentence("{\n  \"a\": 1,\n  'b': 2\n}");
        assert!(lines.contains("line 3, column 3, between `{\\n  \"a\": 1,\\n  ` and `'b': 2\\n}`"), "{lines}");
        assert!(sentence("{\"a\": \"b\nc\"}").contains("between `{\"a\": \"b` and `\\nc\"}`"));
        assert!(sentence("[1").contains(", after `[1`;"));
    }
}
