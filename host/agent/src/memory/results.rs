//! Results of calls, kept so that a model can read on what it was not shown.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fumehood_core::call::CallContext;
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::tool::definition::Annotations;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tools::MemoryToolsError;
use crate::registry::{BuiltIn, BuiltInError, BuiltIns};

/// The name of the tool.
pub const READ_RESULT: &str = "read_result";

/// Default maximum of the results of all sessions, in bytes.
pub const DEFAULT_STORE_BYTES: usize = 16 << 20;

/// Results of at most this size are not kept, in bytes: they are neither cut nor left out.
const MIN_RESULT_BYTES: usize = 512;

/// The part of a result that one call returns, in bytes.
const CHUNK_BYTES: usize = 3_000;

/// The results of the latest calls, in memory, as a model may see them and before they are cut.
///
/// A session reads its own results only. The oldest is removed if there are too many.
pub struct ResultStore {
    max_bytes: usize,
    results: Mutex<Results>,
}

#[derive(Default)]
struct Results {
    entries: VecDeque<Entry>,
    bytes: usize,
}

struct Entry {
    session: String,
    id: String,
    text: Arc<str>,
}

impl fmt::Debug for ResultStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultStore").field("max_bytes", &self.max_bytes).finish_non_exhaustive()
    }
}

impl Default for ResultStore {
    /// Creates an empty store of [`DEFAULT_STORE_BYTES`].
    fn default() -> Self {
        Self::new(DEFAULT_STORE_BYTES)
    }
}

impl ResultStore {
    /// Creates an empty store for this many bytes of results.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { max_bytes, results: Mutex::default() }
    }

    /// Keeps the result of an execution.
    pub(crate) fn add(&self, session: &str, id: &str, text: &str) {
        if text.len() <= MIN_RESULT_BYTES || text.len() > self.max_bytes {
            return;
        }
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.bytes = results.bytes.saturating_add(text.len());
        while results.bytes > self.max_bytes
            && let Some(oldest) = results.entries.pop_front()
        {
            results.bytes = results.bytes.saturating_sub(oldest.text.len());
        }
        results.entries.push_back(Entry { session: session.to_owned(), id: id.to_owned(), text: Arc::from(text) });
    }

    fn find(&self, session: &str, id: &str) -> Option<Arc<str>> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let mut newest_first = results.entries.iter().rev();
        let found = newest_first.find(|entry| entry.session == session && entry.id == id);
        found.map(|entry| Arc::clone(&entry.text))
    }
}

#[derive(Deserialize, JsonSchema)]
struct ReadArguments {
    /// The id of the result, as it was given where the result was cut or left out.
    id: String,
    /// The byte to begin with: 0, or `next_offset` of the part before.
    #[serde(default)]
    offset: usize,
}

/// A part of a result.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Part {
    text: String,
    /// The size of the whole result, in bytes.
    bytes: usize,
    /// The offset of the next part, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
}

/// Returns the part of a text from `offset` on, or the error for the model.
fn part(text: &str, offset: usize) -> Result<Part, String> {
    let bytes = text.len();
    let rest = text.get(offset..).filter(|rest| !rest.is_empty()).ok_or_else(|| {
        format!("offset {offset} is past the end: the result has {bytes} bytes; use `next_offset` of the previous part")
    })?;
    let chunk = truncate_str(rest, CHUNK_BYTES);
    let end = offset.saturating_add(chunk.len());
    Ok(Part { text: chunk.to_owned(), bytes, next_offset: (end < bytes).then_some(end) })
}

/// Registers [`READ_RESULT`] for this store.
///
/// # Errors
/// If its name is taken.
pub fn register_read_result(tools: &BuiltIns, store: &Arc<ResultStore>) -> Result<(), MemoryToolsError> {
    let reads = Annotations { read_only: Some(true), idempotent: Some(true), ..Annotations::default() };
    let store = Arc::clone(store);
    let run = move |ReadArguments { id, offset }: ReadArguments, call: CallContext| {
        let session = call.step.map(|step| step.session).unwrap_or_default();
        let found = store.find(&session, &id);
        std::future::ready(match found {
            Some(text) => part(&text, offset).map_err(BuiltInError::from),
            None => Err(BuiltInError::from(format!(
                "the result {id:?} is no longer available, or was shown completely; call its tool again if you need it"
            ))),
        })
    };
    let description = "Reads a result that was cut, or left out of the conversation, part by part.";
    tools.register(BuiltIn::new(READ_RESULT, description, run)?.with_annotations(reads))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_and_end() {
        let text = "ä".repeat(4_000);
        let mut read = String::new();
        let mut offset = Some(0);
        while let Some(at) = offset {
            let part = part(&text, at).unwrap();
            assert!(part.text.len() <= CHUNK_BYTES && part.bytes == 8_000);
            read.push_str(&part.text);
            offset = part.next_offset;
        }
        assert_eq!(read, text);
        assert!(part(&text, 1).is_err(), "in the middle of a character");
        assert!(part(&text, 8_000).unwrap_err().contains("8000 bytes"));
    }

    #[test]
    fn oldest_results_make_room_and_sessions_are_apart() {
        let store = ResultStore::new(2_000);
        let text = "x".repeat(900);
        for id in ["a", "b", "c"] {
            store.add("s", id, &text);
        }
        store.add("s", "small", "x");
        store.add("s", "huge", &"x".repeat(3_000));
        let found = ["a", "b", "c", "small", "huge"].map(|id| store.find("s", id).is_some());
        assert_eq!(found, [false, true, true, false, false]);
        assert!(store.find("t", "b").is_none());
    }
}
