//! The tool `regex_search`.

use fumehood_guest::{ToolError, tool};
use regex::{Captures, Match, Regex};
use schemars::JsonSchema;
use serde::Serialize;

use crate::pattern;

/// The matches that were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Found {
    /// The matches, in order.
    pub matches: Vec<Occurrence>,
    /// True if there are more matches than `limit`.
    pub truncated: bool,
}

/// One match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Occurrence {
    /// The matching text.
    pub text: String,
    /// The position at which it begins, in characters from the start of the text, which is 0.
    pub start: usize,
    /// The position at which it ends: the character after the last one.
    pub end: usize,
    /// On which line it begins; the first is 1.
    pub line: usize,
    /// The texts of the pattern's groups, in the order of their opening parentheses.
    pub groups: Vec<Group>,
}

/// One group of a match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Group {
    /// Its name, if the pattern names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The text of the group; null if it took no part in the match.
    pub text: Option<String>,
}

/// Finds all parts of a text that match a regular expression, with their positions and groups.
///
/// The syntax is that of RE2 and Rust's `regex`: no look-around and no backreferences. `^` and `$` match at every line.
/// `(?s)` at the beginning lets `.` match line breaks too.
#[tool(title = "Search with a regular expression", read_only, idempotent, destructive = false, open_world = false)]
pub fn regex_search(
    /// The text to search.
    text: String,
    /// The regular expression, for example `(?<key>\w+)=(\d+)`.
    pattern: String,
    /// True to ignore case.
    #[default(false)]
    ignore_case: bool,
    /// The most matches to return.
    #[default(100)]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
) -> Result<Found, ToolError> {
    let regex = pattern::compile(&pattern, ignore_case)?;
    let mut position = Position::default();
    let mut captures = regex.captures_iter(&text);
    let matches = captures.by_ref().take(limit).filter_map(|found| occurrence(&regex, &text, &found, &mut position));
    let matches = matches.collect();
    Ok(Found { matches, truncated: captures.next().is_some() })
}

fn occurrence(regex: &Regex, text: &str, captures: &Captures<'_>, position: &mut Position) -> Option<Occurrence> {
    let whole = captures.get(0)?;
    position.advance(text, whole.start());
    let start = position.character;
    let line = position.line;
    let own = |part: Match<'_>| part.as_str().to_owned();
    let groups = regex
        .capture_names()
        .zip(captures.iter())
        .skip(1)
        .map(|(name, part)| Group { name: name.map(str::to_owned), text: part.map(own) })
        .collect();
    Some(Occurrence { text: own(whole), start, end: start + whole.as_str().chars().count(), line, groups })
}

/// A position in the text. Matches come in order, so it only moves forward.
struct Position {
    byte: usize,
    character: usize,
    line: usize,
}

impl Default for Position {
    fn default() -> Self {
        Self { byte: 0, character: 0, line: 1 }
    }
}

impl Position {
    fn advance(&mut self, text: &str, to: usize) {
        let passed = text.get(self.byte..to).unwrap_or_default();
        self.byte = to;
        self.character += passed.chars().count();
        self.line += passed.matches('\n').count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(text: &str, pattern: &str, limit: usize) -> Found {
        regex_search(text.to_owned(), pattern.to_owned(), false, limit).unwrap()
    }

    #[test]
    fn returns_positions_and_groups() {
        let found = search("größe=12\nbreite=7, tiefe=", r"(?<key>\w+)=(\d+)?", 10);
        fn group(name: Option<&str>, text: Option<&str>) -> Group {
            Group { name: name.map(str::to_owned), text: text.map(str::to_owned) }
        }

        fn occurrence(text: &str, start: usize, line: usize, key: &str, value: Option<&str>) -> Occurrence {
            let groups = vec![group(Some("key"), Some(key)), group(None, value)];
            Occurrence { text: text.to_owned(), start, end: start + text.chars().count(), line, groups }
        }

        let expected = vec![
            occurrence("größe=12", 0, 1, "größe", Some("12")),
            occurrence("breite=7", 9, 2, "breite", Some("7")),
            occurrence("tiefe=", 19, 2, "tiefe", None),
        ];
        assert_eq!(found, Found { matches: expected, truncated: false });
    }

    #[test]
    fn reports_the_limit() {
        let some = search("a a a", "a", 2);
        assert_eq!((some.matches.len(), some.truncated), (2, true));
        let all = search("a a a", "a", 3);
        assert_eq!((all.matches.len(), all.truncated), (3, false));
    }

    #[test]
    fn matches_at_lines_and_ignores_case() {
        assert_eq!(search("one\ntwo", "^t", 9).matches.len(), 1);
        assert_eq!(search("One", "one", 9).matches.len(), 0);
        let found = regex_search("ONE".to_owned(), "one".to_owned(), true, 9).unwrap();
        assert_eq!(found.matches.len(), 1);
        assert!(regex_search(String::new(), "(".to_owned(), false, 9).is_err());
    }
}
