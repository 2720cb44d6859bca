//! The port for notes of an agent, and an implementation in the memory of the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fumehood_core::boxed::BoxFuture;

/// Maximum number of notes of one owner.
const MAX_NOTES: usize = 1_000;

/// Maximum length of a note, in bytes.
const MAX_NOTE_BYTES: usize = 16 << 10;

/// A note.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// The key.
    pub key: String,
    /// The text.
    pub text: String,
}

/// An error of a [`Memory`], with a message for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MemoryError(pub String);

/// A store of notes. Those of one owner are invisible to all others. The owner is set by the host, never by a model.
pub trait Memory: Send + Sync {
    /// Reads the note of this key.
    fn read<'a>(&'a self, owner: Option<&'a str>, key: &'a str) -> BoxFuture<'a, Result<Option<String>, MemoryError>>;

    /// Writes a note, and replaces the one of the same key.
    fn write<'a>(
        &'a self,
        owner: Option<&'a str>,
        key: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), MemoryError>>;

    /// Searches for notes that contain all words of the query. Returns at most `limit`, in the order of their keys.
    fn search<'a>(
        &'a self,
        owner: Option<&'a str>,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Note>, MemoryError>>;
}

type Notes = BTreeMap<Option<String>, BTreeMap<String, String>>;

/// A store of notes in the memory of the process, lost when it ends.
#[derive(Debug, Default)]
pub struct InMemoryStore(Mutex<Notes>);

impl InMemoryStore {
    /// Runs `access` with the notes of an owner.
    fn with_notes<T>(&self, owner: Option<&str>, access: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        // A poisoned map is consistent: every change is one operation.
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        access(notes.entry(owner.map(str::to_owned)).or_default())
    }
}

impl Memory for InMemoryStore {
    fn read<'a>(&'a self, owner: Option<&'a str>, key: &'a str) -> BoxFuture<'a, Result<Option<String>, MemoryError>> {
        let found = self.with_notes(owner, |notes| notes.get(key).cloned());
        Box::pin(std::future::ready(Ok(found)))
    }

    fn write<'a>(
        &'a self,
        owner: Option<&'a str>,
        key: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        let written = self.with_notes(owner, |notes| {
            if text.len() > MAX_NOTE_BYTES {
                return Err(MemoryError(format!("a note can have at most {MAX_NOTE_BYTES} bytes; write less")));
            }
            if notes.len() >= MAX_NOTES && !notes.contains_key(key) {
                return Err(MemoryError(format!(
                    "there are already {MAX_NOTES} notes, the maximum; overwrite an old one"
                )));
            }
            notes.insert(key.to_owned(), text.to_owned());
            Ok(())
        });
        Box::pin(std::future::ready(written))
    }

    fn search<'a>(
        &'a self,
        owner: Option<&'a str>,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Note>, MemoryError>> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let found = self.with_notes(owner, |notes| {
            let found = notes.iter().filter(|(key, text)| {
                let note = format!("{key}\n{text}").to_lowercase();
                words.iter().all(|word| note.contains(word))
            });
            found.take(limit).map(|(key, text)| Note { key: key.clone(), text: text.clone() }).collect()
        });
        Box::pin(std::future::ready(Ok(found)))
    }
}
