//! Sessions as they are saved, entry by entry, and the port that keeps them.
//!
//! A session is a state machine, so what came into it, in order, is all of it. The entries belong to the crate of the
//! agent loop; here they are text with a number.

use std::fmt;

use crate::boxed::BoxFuture;
use crate::record::{Record, RecordError};
use crate::time::Timestamp;

/// Maximum length of the id of a saved session, in bytes.
pub const MAX_ID_BYTES: usize = 64;

/// One entry of a saved session. Entries have the numbers 0, 1, 2 and so on, without a gap.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionEntry {
    /// The id of the session.
    pub session: String,
    /// The number of the entry.
    pub number: u64,
    /// The time of the entry.
    pub at: Timestamp,
    /// The content, as JSON. It has what the model saw, so it may be confidential.
    pub content: String,
}

impl fmt::Debug for SessionEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.content.len();
        let Self { session, number, at, .. } = self;
        f.debug_struct("SessionEntry")
            .field("session", session)
            .field("number", number)
            .field("at", at)
            .field("bytes", &bytes)
            .finish()
    }
}

/// The port for saving sessions.
pub trait SessionStore: Send + Sync {
    /// Stores an entry and the records that belong to it, after everything before: all of them or none. Completes when
    /// they are on disk.
    ///
    /// The entry is accepted by the call itself, even if the future is dropped.
    ///
    /// # Errors
    /// If nothing can be written, or the session has an entry of this number already, because another process
    /// continued it.
    fn append(&self, entry: SessionEntry, records: Vec<Record>) -> BoxFuture<'_, Result<(), RecordError>>;

    /// Like [`Self::append`], for an entry whose content must not be on disk: `placeholder` takes its place there. A store
    /// may keep the content in memory, so that this process can go on with the session. By default it does not.
    ///
    /// # Errors
    /// As for [`Self::append`].
    fn append_withheld(
        &self,
        entry: SessionEntry,
        placeholder: String,
        records: Vec<Record>,
    ) -> BoxFuture<'_, Result<(), RecordError>> {
        self.append(SessionEntry { content: placeholder, ..entry }, records)
    }
}

/// Returns whether a text can be the id of a saved session: 1 to 64 of `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`, with a
/// letter or digit first. Ids appear in file names, commands and the ids of records.
#[must_use]
pub fn is_session_id(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    text.len() <= MAX_ID_BYTES
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && text.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_words() {
        for id in ["a", "s0123456789abcdef", "trip-to_Rome.2", &"x".repeat(MAX_ID_BYTES)] {
            assert!(is_session_id(id), "{id}");
        }
        for id in ["", "-a", ".", "a b", "a/b", "ä", &"x".repeat(MAX_ID_BYTES + 1)] {
            assert!(!is_session_id(id), "{id}");
        }
    }

    #[test]
    fn content_is_not_shown() {
        let entry = SessionEntry { session: "s".into(), number: 1, at: Timestamp(0), content: "secret".into() };
        assert!(!format!("{entry:?}").contains("secret"));
    }
}
