//! The tool `search`.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fumehood_guest::{ToolError, context, tool};
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Serialize;

use crate::failure::io_failure;
use crate::grants;
use crate::reading::{next_line, open};

/// The search stops when less time of the call is left, and returns the matches so far.
const RESERVED_TIME: Duration = Duration::from_millis(300);
/// Maximum length of the part of a line that is returned, in characters.
const MAX_EXCERPT_CHARACTERS: usize = 300;
/// Maximum size of a compiled pattern, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A line that was found.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Match {
    /// The absolute path of the file.
    pub path: String,
    /// The number of the line, counted from 1.
    pub line: u64,
    /// The line, or the beginning of a long one.
    pub text: String,
}

/// The matches that were found.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Found {
    /// The lines, file by file, in the order of their paths.
    pub matches: Vec<Match>,
    /// Files that were not searched, because they are not text or cannot be read.
    pub skipped: u32,
    /// True if everything else was searched; false if there were too many matches or too little time.
    pub complete: bool,
}

/// Searches a file, or all files below a folder, line by line. Symbolic links are not followed.
#[tool(title = "Search files", read_only, idempotent, open_world = false)]
pub fn search(
    /// The absolute path of the file or folder.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// The text to search for: plain text, or a regular expression if `regex` is true.
    #[schemars(length(min = 1, max = 1000))]
    text: String,
    /// True if `text` is a regular expression.
    #[default]
    regex: bool,
    /// True to distinguish upper and lower case.
    #[default]
    case_sensitive: bool,
    /// Maximum number of lines to return.
    #[default(50)]
    #[schemars(range(min = 1, max = 500))]
    limit: usize,
) -> Result<Found, ToolError> {
    let wanted = pattern(&text, regex, case_sensitive)?;
    let start = grants::check_path(&path)?;
    let mut found = Found { matches: Vec::new(), skipped: 0, complete: true };
    let is_folder = fs::metadata(&start).map_err(|error| io_failure("search", &start, &error))?.is_dir();
    if !is_folder {
        search_file(&start, &wanted, limit, &mut found)?;
        return Ok(found);
    }
    let mut waiting = VecDeque::from(list_entries(&start).map_err(|error| io_failure("search", &start, &error))?);
    while let Some((path, is_folder)) = waiting.pop_front() {
        if !found.complete || context::remaining() < RESERVED_TIME {
            found.complete = false;
            break;
        }
        if !is_folder {
            if search_file(&path, &wanted, limit, &mut found).is_err() {
                found.skipped += 1;
            }
        } else if let Ok(inner) = list_entries(&path) {
            inner.into_iter().rev().for_each(|entry| waiting.push_front(entry));
        } else {
            found.skipped += 1;
        }
    }
    Ok(found)
}

fn pattern(text: &str, is_regex: bool, case_sensitive: bool) -> Result<Regex, ToolError> {
    let pattern = if is_regex { text.to_owned() } else { regex::escape(text) };
    RegexBuilder::new(&pattern)
        .case_insensitive(!case_sensitive)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| ToolError::invalid_arguments(format!("`text` is not a valid regular expression: {error}")))
}

/// Returns the files and folders in a folder, sorted by name, with `true` for a folder. Anything else is not searched.
fn list_entries(folder: &Path) -> std::io::Result<Vec<(PathBuf, bool)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() || kind.is_file() {
            entries.push((entry.path(), kind.is_dir()));
        }
    }
    entries.sort();
    Ok(entries)
}

/// Adds the matches in one file. If it turns out to be binary, its matches are removed again.
fn search_file(path: &Path, wanted: &Regex, limit: usize, found: &mut Found) -> Result<(), ToolError> {
    let before = found.matches.len();
    let added = search_lines(path, wanted, limit, found);
    if added.is_err() {
        found.matches.truncate(before);
        found.complete = true;
    }
    added
}

fn search_lines(path: &Path, wanted: &Regex, limit: usize, found: &mut Found) -> Result<(), ToolError> {
    let mut reader = open(path)?;
    let mut line = Vec::new();
    let mut number = 0;
    while next_line(&mut reader, &mut line, path)? {
        number += 1;
        if line.contains(&0) {
            return Err(ToolError::failed(format!("`{}` is not text", path.display())));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches(['\r', '\n']);
        if !wanted.is_match(text) {
            continue;
        }
        if found.matches.len() == limit || context::remaining() < RESERVED_TIME {
            found.complete = false;
            return Ok(());
        }
        let text = text.chars().take(MAX_EXCERPT_CHARACTERS).collect();
        found.matches.push(Match { path: path.display().to_string(), line: number, text });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use fumehood_guest::{FailureKind, testing::Call};

    use super::*;
    use crate::grants::tests::Folder;

    fn folder() -> Folder {
        Folder::with(&[("a.txt", "Milk\nbread\n"), ("b/c.txt", "no\nmilk 2"), ("b.bin", "milk\n\0"), ("z.txt", "tea")])
    }

    fn run_search(text: &str, regex: bool, case_sensitive: bool, limit: usize) -> (Vec<(String, u64)>, u32, bool) {
        let folder = folder();
        let found = search(folder.path(""), text.to_owned(), regex, case_sensitive, limit).unwrap();
        let short = |path: String| path.strip_prefix(&folder.path("")).unwrap().trim_start_matches('/').to_owned();
        (
            found.matches.into_iter().map(|found| (short(found.path), found.line)).collect(),
            found.skipped,
            found.complete,
        )
    }

    #[test]
    fn finds_lines_file_by_file() {
        let a = ("a.txt".to_owned(), 1);
        let c = ("b/c.txt".to_owned(), 2);
        assert_eq!(run_search("milk", false, false, 10), (vec![a.clone(), c.clone()], 1, true));
        assert_eq!(run_search("milk", false, true, 10), (vec![c.clone()], 1, true));
        assert_eq!(run_search("milk [0-9]", true, false, 10), (vec![c], 1, true));
        assert_eq!(run_search("milk [0-9]", false, false, 10), (vec![], 1, true));
        assert_eq!(run_search("milk", false, false, 1).0, vec![a]);
        assert!(!run_search("milk", false, false, 1).2);
    }

    #[test]
    fn searches_a_single_file() {
        let folder = folder();
        let search = |path: &str| search(folder.path(path), "bread".to_owned(), false, false, 10);
        assert_eq!(search("a.txt").unwrap().matches[0].line, 2);
        assert_eq!(search("b.bin").unwrap_err().kind(), FailureKind::Failed);
        assert_eq!(search("absent").unwrap_err().kind(), FailureKind::InvalidArguments);
    }

    #[test]
    fn stops_in_time_and_rejects_invalid_patterns() {
        let folder = folder();
        let late = || search(folder.path(""), "milk".to_owned(), false, false, 10).unwrap();
        let run = Call::new().remaining(Duration::from_millis(100)).run(late);
        assert_eq!((run.returned.matches.len(), run.returned.complete), (0, false));
        for text in ["(", "a{1000}{1000}{1000}"] {
            let error = search(folder.path(""), text.to_owned(), true, false, 10).unwrap_err();
            assert_eq!(error.kind(), FailureKind::InvalidArguments, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn does_not_follow_links() {
        let folder = folder();
        std::os::unix::fs::symlink(folder.path("a.txt"), folder.path("link.txt")).unwrap();
        let found = search(folder.path(""), "bread".to_owned(), false, false, 10).unwrap();
        assert_eq!(found.matches.len(), 1);
    }
}
