//! The tool `diff`.

use std::ops::Range;

use fumehood_guest::{ToolError, tool};
use schemars::JsonSchema;
use serde::Serialize;
use similar::algorithms::{Capture, Replace, myers};
use similar::{DiffOp, DiffTag};

/// The differences between two texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// A unified diff; empty if the texts are the same.
    pub diff: String,
    /// The number of added lines.
    pub added: usize,
    /// The number of removed lines.
    pub removed: usize,
}

/// Compares two texts line by line and returns a unified diff.
#[tool(title = "Compare texts", read_only, idempotent, destructive = false, open_world = false)]
pub fn diff(
    /// The text before.
    before: String,
    /// The text after.
    after: String,
    /// The number of unchanged lines around each change.
    #[default(3)]
    #[schemars(range(min = 0, max = 100))]
    context: usize,
) -> Result<Difference, ToolError> {
    let before: Vec<&str> = lines(&before);
    let after: Vec<&str> = lines(&after);
    // `similar::TextDiff` does this and more, but brings five algorithms where one is needed: that is most of a
    // component's size.
    let mut operations = Replace::new(Capture::new());
    myers::diff(&mut operations, &before, 0..before.len(), &after, 0..after.len()).map_err(ToolError::failed)?;
    let hunks = operations.into_inner().into_grouped_ops(context);

    let mut report = Report::default();
    for hunk in &hunks {
        report.hunk(hunk, &before, &after);
    }
    Ok(Difference { diff: report.text, added: report.added, removed: report.removed })
}

/// Splits a text into lines, each with its line break.
fn lines(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Builds a unified diff.
#[derive(Default)]
struct Report {
    text: String,
    added: usize,
    removed: usize,
}

impl Report {
    fn hunk(&mut self, operations: &[DiffOp], before: &[&str], after: &[&str]) {
        let (Some(first), Some(last)) = (operations.first(), operations.last()) else {
            return;
        };
        if self.text.is_empty() {
            self.text.push_str("--- before\n+++ after\n");
        }
        let old = format_range(&(first.old_range().start..last.old_range().end));
        let new = format_range(&(first.new_range().start..last.new_range().end));
        self.text.push_str(&format!("@@ -{old} +{new} @@\n"));
        for operation in operations {
            let removed = before.get(operation.old_range()).unwrap_or_default();
            let added = after.get(operation.new_range()).unwrap_or_default();
            if operation.tag() == DiffTag::Equal {
                self.lines(' ', removed);
            } else {
                self.lines('-', removed);
                self.lines('+', added);
                self.removed += removed.len();
                self.added += added.len();
            }
        }
    }

    fn lines(&mut self, sign: char, lines: &[&str]) {
        for line in lines {
            self.text.push(sign);
            self.text.push_str(line);
            if !line.ends_with('\n') {
                self.text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
}

/// Formats the range of a hunk: lines are counted from 1, the length of a single line is omitted, and an empty range is
/// after the previous line.
fn format_range(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        length => format!("{},{length}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(before: &str, after: &str, context: usize) -> Difference {
        diff(before.to_owned(), after.to_owned(), context).unwrap()
    }

    #[test]
    fn shows_a_change_in_its_context() {
        let expected = "--- before\n+++ after\n@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n-d\n+d\n\\ No newline at end of file\n";
        let Difference { diff, added, removed } = compare("a\nb\nc\nd\n", "a\nB\nc\nd", 1);
        assert_eq!((diff.as_str(), added, removed), (expected, 2, 2));
    }

    #[test]
    fn separates_distant_changes() {
        let before: String = (1..=9).map(|number| format!("{number}\n")).collect();
        let after = before.replace("2\n", "").replace("8\n", "8\nx\n");
        let expected = "--- before\n+++ after\n@@ -1,3 +1,2 @@\n 1\n-2\n 3\n@@ -8,2 +7,3 @@\n 8\n+x\n 9\n";
        let Difference { diff, added, removed } = compare(&before, &after, 1);
        assert_eq!((diff.as_str(), added, removed), (expected, 1, 1));
    }

    #[test]
    fn compares_with_an_empty_text() {
        let expected = "--- before\n+++ after\n@@ -0,0 +1 @@\n+a\n";
        assert_eq!(compare("", "a\n", 3).diff, expected);
        assert_eq!(compare("a\n", "", 0).diff, "--- before\n+++ after\n@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn equal_texts_have_no_diff() {
        let same = Difference { diff: String::new(), added: 0, removed: 0 };
        assert_eq!(compare("a\n", "a\n", 3), same);
        assert_eq!(compare("", "", 3), same);
    }
}
