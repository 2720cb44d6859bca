//! Notes that persist across calls, in the component's own store, by title.

mod searching;

use fumehood_guest::{ToolError, store, tool};
use schemars::JsonSchema;
use serde::Serialize;

pub use searching::{Found, Match, search};

/// A note that was written.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Written {
    /// Its title.
    pub title: String,
    /// The new size in bytes.
    pub bytes: usize,
    /// True if a note of this title existed before.
    pub replaced: bool,
}

/// Writes a note, which later calls can read. A note of the same title is replaced, unless the text is appended to it.
#[tool(title = "Write a note", destructive, open_world = false)]
pub fn write(
    /// The title. At most 256 bytes, without control characters.
    #[schemars(length(min = 1, max = 200))]
    title: String,
    /// The text.
    text: String,
    /// True to append the text as a new line to the note, if it exists.
    #[default]
    append: bool,
) -> Result<Written, ToolError> {
    let before = store::get(&title)?;
    let replaced = before.is_some();
    let mut note = before.filter(|_| append).unwrap_or_default();
    if !note.is_empty() {
        note.push(b'\n');
    }
    note.extend_from_slice(text.as_bytes());
    store::set(&title, &note)?;
    Ok(Written { title, bytes: note.len(), replaced })
}

/// Reads a note.
#[tool(title = "Read a note", read_only, idempotent, open_world = false)]
pub fn read(
    /// The title.
    #[schemars(length(min = 1, max = 200))]
    title: String,
) -> Result<String, ToolError> {
    match store::get(&title)? {
        Some(note) => Ok(String::from_utf8_lossy(&note).into_owned()),
        None => Err(ToolError::invalid_arguments(format!("there is no note called `{title}`; `list` lists all notes"))),
    }
}

/// Titles of notes.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Listed {
    /// The titles, in the order of their bytes.
    pub titles: Vec<String>,
    /// The `after` of the next page; null if these are the last.
    pub next: Option<String>,
}

/// Lists the titles of the notes.
#[tool(title = "List notes", read_only, idempotent, open_world = false)]
pub fn list(
    /// The prefix of the titles.
    #[default]
    #[schemars(length(max = 200))]
    prefix: String,
    /// The `next` of the list before.
    after: Option<String>,
    /// Maximum number of titles to list.
    #[default(50)]
    #[schemars(range(min = 1, max = 200))]
    limit: u32,
) -> Result<Listed, ToolError> {
    let page = store::page(&prefix, after.as_deref(), limit)?;
    Ok(Listed { titles: page.keys, next: page.next })
}

/// The result of deleting a note.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Deleted {
    /// The title.
    pub title: String,
    /// True if the note existed.
    pub existed: bool,
}

/// Deletes a note for good.
#[tool(title = "Delete a note", destructive, idempotent, open_world = false)]
pub fn delete(
    /// The title.
    #[schemars(length(min = 1, max = 200))]
    title: String,
) -> Result<Deleted, ToolError> {
    let existed = store::delete(&title)?;
    Ok(Deleted { title, existed })
}

fumehood_guest::export!(write, read, search, list, delete);

#[cfg(test)]
mod tests {
    use fumehood_guest::{FailureKind, testing};

    use super::*;

    fn written(title: &str, text: &str, append: bool) -> (usize, bool) {
        let written = write(title.to_owned(), text.to_owned(), append).unwrap();
        (written.bytes, written.replaced)
    }

    #[test]
    fn writes_reads_and_deletes_notes() {
        let run = testing::Call::new().run(|| {
            assert_eq!(written("shopping", "milk", false), (4, false));
            assert_eq!(written("shopping", "bread", true), (10, true));
            assert_eq!(read("shopping".to_owned()), Ok("milk\nbread".to_owned()));
            assert_eq!(written("shopping", "tea", false), (3, true));
            assert_eq!(written("work", "call Ada", true), (8, false));
            assert!(delete("work".to_owned()).unwrap().existed);
            assert!(!delete("work".to_owned()).unwrap().existed);
        });
        assert_eq!(run.stored, [("shopping".to_owned(), b"tea".to_vec())].into());
    }

    #[test]
    fn lists_titles_in_pages() {
        let call = ["b", "a/2", "a/1", "a/3"].iter().fold(testing::Call::new(), |call, title| call.stored(*title, ""));
        call.run(|| {
            let first = list("a/".to_owned(), None, 2).unwrap();
            assert_eq!((first.titles, first.next.as_deref()), (vec!["a/1".to_owned(), "a/2".to_owned()], Some("a/2")));
            let second = list("a/".to_owned(), first.next, 2).unwrap();
            assert_eq!(second, Listed { titles: vec!["a/3".to_owned()], next: None });
        });
    }

    #[test]
    fn failures_have_a_reason() {
        let kind = |call: testing::Call, title: &str, text: &str| {
            let run = call.run(|| write(title.to_owned(), text.to_owned(), false));
            run.returned.unwrap_err().kind()
        };
        assert_eq!(kind(testing::Call::new().without_store(), "a", "b"), FailureKind::Denied);
        assert_eq!(kind(testing::Call::new().store_quota(100), "a", &"b".repeat(100)), FailureKind::Failed);
        assert_eq!(kind(testing::Call::new(), "a\nb", "c"), FailureKind::InvalidArguments);
        assert_eq!(kind(testing::Call::new(), "a", &"b".repeat(70_000)), FailureKind::InvalidArguments);
        let missing = testing::Call::new().run(|| read("work".to_owned())).returned.unwrap_err();
        assert_eq!(missing.message(), "there is no note called `work`; `list` lists all notes");
    }
}
