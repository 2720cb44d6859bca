//! The port behind which notes are kept, and an implementation that forgets them with the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fumehood_core::boxed::BoxFuture;

/// Notes of one owner, at most.
const NOTES: usize = 1_000;

/// Bytes of a note, at most.
const NOTE_BYTES: usize = 16 << 10;

/// One note.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Note {
    /// What it is called.
    pub key: String,
    /// What it says.
    pub text: String,
}

/// Why the memory did not do what was asked. The message is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct MemoryError(pub String);

/// Keeps notes. Those of one owner are invisible to every other; the host says who the owner is, never a model.
pub trait Memory: Send + Sync {
    /// The note of this key.
    fn read<'a>(&'a self, owner: Option<&'a str>, key: &'a str) -> BoxFuture<'a, Result<Option<String>, MemoryError>>;

    /// Keeps a note, in the place of any other of this key.
    fn write<'a>(
        &'a self,
        owner: Option<&'a str>,
        key: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), MemoryError>>;

    /// At most `limit` notes that have all the words of the query, in the order of their keys.
    fn search<'a>(
        &'a self,
        owner: Option<&'a str>,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Note>, MemoryError>>;
}

type Notes = BTreeMap<Option<String>, BTreeMap<String, String>>;

/// Notes in the memory of the process.
#[derive(Debug, Default)]
pub struct InMemory(Mutex<Notes>);

impl InMemory {
    fn with<T>(&self, owner: Option<&str>, act: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> T {
        // A panic elsewhere leaves the map whole: every change is one operation.
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(notes.entry(owner.map(str::to_owned)).or_default())
    }
}

impl Memory for InMemory {
    fn read<'a>(&'a self, owner: Option<&'a str>, key: &'a str) -> BoxFuture<'a, Result<Option<String>, MemoryError>> {
        let found = self.with(owner, |notes| notes.get(key).cloned());
        Box::pin(std::future::ready(Ok(found)))
    }

    fn write<'a>(
        &'a self,
        owner: Option<&'a str>,
        key: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        let written = self.with(owner, |notes| {
            if text.len() > NOTE_BYTES {
                return Err(MemoryError(format!("a note has at most {NOTE_BYTES} bytes; write less")));
            }
            if notes.len() >= NOTES && !notes.contains_key(key) {
                return Err(MemoryError(format!("there are {NOTES} notes already; write over an old one")));
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
        let found = self.with(owner, |notes| {
            let has = |(key, text): &(&String, &String)| {
                let note = format!("{key}\n{text}").to_lowercase();
                words.iter().all(|word| note.contains(word))
            };
            let note = |(key, text): (&String, &String)| Note { key: key.clone(), text: text.clone() };
            notes.iter().filter(has).take(limit).map(note).collect()
        });
        Box::pin(std::future::ready(Ok(found)))
    }
}
