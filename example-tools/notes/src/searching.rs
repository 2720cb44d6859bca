//! The tool `search`, for titles and lines.

use std::time::Duration;

use fumehood_guest::{ToolError, context, store, tool};
use schemars::JsonSchema;
use serde::Serialize;

/// The search stops when less time of the call is left, and returns the matches so far.
const RESERVED_TIME: Duration = Duration::from_millis(200);

/// Maximum length of the part of a line that is returned, in characters.
const MAX_EXCERPT_CHARACTERS: usize = 200;

/// A line, or a title.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Match {
    /// The title of the note.
    pub title: String,
    /// The number of the line, counted from 1; null if only the title matches.
    pub line: Option<usize>,
    /// The line, or the beginning of a long one.
    pub text: String,
}

/// The matches that were found.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Found {
    /// The lines that hold the text, note by note.
    pub matches: Vec<Match>,
    /// True if all notes were searched; false if there were too many matches or too little time.
    pub complete: bool,
}

/// Searches the titles and the lines of all notes for a text, whatever the case.
#[tool(title = "Search notes", read_only, idempotent, open_world = false)]
pub fn search(
    /// The text to search for. It is taken literally, not as a pattern.
    #[schemars(length(min = 1, max = 200))]
    text: String,
    /// Maximum number of matches to return.
    #[default(20)]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
) -> Result<Found, ToolError> {
    let wanted = text.to_lowercase();
    let mut matches = Vec::new();
    for title in store::keys("") {
        if context::remaining() < RESERVED_TIME {
            return Ok(Found { matches, complete: false });
        }
        let title = title?;
        // It may have been deleted since it was listed.
        let Some(note) = store::get(&title)? else { continue };
        for found in search_note(&title, &String::from_utf8_lossy(&note), &wanted) {
            if matches.len() == limit {
                return Ok(Found { matches, complete: false });
            }
            matches.push(found);
        }
    }
    Ok(Found { matches, complete: true })
}

impl Match {
    fn new(title: &str, line: Option<usize>, text: &str) -> Self {
        Self { title: title.to_owned(), line, text: text.chars().take(MAX_EXCERPT_CHARACTERS).collect() }
    }
}

/// Returns the lines that match, or else the title if it matches.
fn search_note(title: &str, note: &str, wanted: &str) -> Vec<Match> {
    let holds = |text: &str| text.to_lowercase().contains(wanted);
    let lines = note.lines().enumerate().filter(|(_, line)| holds(line));
    let mut found: Vec<Match> = lines.map(|(number, line)| Match::new(title, Some(number + 1), line)).collect();
    if found.is_empty() && holds(title) {
        found.push(Match::new(title, None, note.lines().next().unwrap_or_default()));
    }
    found
}

#[cfg(test)]
mod tests {
    use fumehood_guest::testing::Call;

    use super::*;

    fn run_search(call: Call, text: &str, limit: usize) -> (Vec<(String, Option<usize>)>, bool) {
        let found = call.run(|| search(text.to_owned(), limit)).returned.unwrap();
        (found.matches.into_iter().map(|found| (found.title, found.line)).collect(), found.complete)
    }

    fn notes() -> Call {
        Call::new()
            .stored("milk", "where to get it")
            .stored("shopping", "bread\nMilk\nmore milk")
            .stored("work", "none")
    }

    #[test]
    fn finds_lines_and_titles_in_any_case() {
        let all = vec![("milk".to_owned(), None), ("shopping".to_owned(), Some(2)), ("shopping".to_owned(), Some(3))];
        assert_eq!(run_search(notes(), "MILK", 20), (all.clone(), true));
        assert_eq!(run_search(notes(), "milk", 3), (all.clone(), true));
        assert_eq!(run_search(notes(), "milk", 2), (all[..2].to_vec(), false));
        assert_eq!(run_search(notes(), "cheese", 20), (vec![], true));
    }

    #[test]
    fn stops_in_time() {
        assert_eq!(run_search(notes().remaining(Duration::from_millis(100)), "milk", 20), (vec![], false));
    }

    #[test]
    fn truncates_long_lines() {
        let run = Call::new().stored("long", "ä".repeat(1000)).run(|| search("Ä".to_owned(), 1));
        assert_eq!(run.returned.unwrap().matches[0].text, "ä".repeat(MAX_EXCERPT_CHARACTERS));
    }
}
