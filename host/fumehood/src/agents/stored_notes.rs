//! Notes of an agent in a key-value store, which outlive the process.

use std::sync::Arc;
use std::time::Duration;

use fumehood_agent::memory::{Memory, MemoryError, Note};
use fumehood_core::boxed::BoxFuture;
use fumehood_core::digest::Digest;
use fumehood_core::key_value::{Key, KeyValueStore, MAX_PAGE_KEYS, Prefix, Query, StoreError};
use fumehood_core::tool::name::Namespace;

/// Maximum size of a note, in bytes.
const NOTE_BYTES: usize = 16 << 10;
/// Maximum size of all notes of one owner, in bytes.
const OWNER_BYTES: u64 = 4 << 20;
/// Maximum wait of an operation for another process that writes.
const PATIENCE: Duration = Duration::from_secs(2);
/// The owner of the notes of sessions without an actor. No actor is mapped to this name.
const GUEST: &str = "guest";

/// A [`Memory`] in a store of its own, such as a `DiskStore`: 16 KiB for each note, 4
/// MiB for each actor. Give it a store that no tool uses.
///
/// Operations of the store may block, so they run on tokio's threads for blocking work.
#[derive(Debug, Clone)]
pub struct StoredNotes {
    store: Arc<dyn KeyValueStore>,
}

impl StoredNotes {
    /// Creates a memory in this store.
    #[must_use]
    pub fn new(store: Arc<dyn KeyValueStore>) -> Self {
        Self { store }
    }

    async fn step<T: Send + 'static>(
        &self,
        owner: Option<&str>,
        step: impl FnOnce(&dyn KeyValueStore, &Namespace) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let owner = namespace(owner)?;
        let store = Arc::clone(&self.store);
        let done = tokio::task::spawn_blocking(move || step(store.as_ref(), &owner)).await;
        done.unwrap_or_else(|_| Err(MemoryError("the notes are not available".to_owned())))
    }
}

/// Returns the owner of an actor's notes in the store. It is a digest, because the name of an actor may have any
/// characters.
fn namespace(owner: Option<&str>) -> Result<Namespace, MemoryError> {
    let name = owner.map_or_else(
        || GUEST.to_owned(),
        |actor| {
            let digest = Digest::of(actor.as_bytes()).hex();
            format!("actor-{}", digest.get(..40).unwrap_or(&digest))
        },
    );
    Namespace::parse(&name).map_err(|error| MemoryError(error.to_string()))
}

fn key_of(text: &str) -> Result<Key, MemoryError> {
    Key::parse(text).map_err(|error| MemoryError(format!("{error}; use a shorter name")))
}

fn in_words(error: StoreError) -> MemoryError {
    MemoryError(match error {
        StoreError::Full { .. } => "there is no space for more notes; overwrite an old one".to_owned(),
        StoreError::Unavailable(why) => format!("the notes are not available now: {why}"),
    })
}

fn text_at(store: &dyn KeyValueStore, owner: &Namespace, key: &Key) -> Result<Option<String>, MemoryError> {
    let value = store.get(owner, key, PATIENCE).map_err(in_words)?;
    Ok(value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn found(store: &dyn KeyValueStore, owner: &Namespace, query: &str, limit: usize) -> Result<Vec<Note>, MemoryError> {
    let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
    let mut notes = Vec::new();
    let mut after = None;
    loop {
        let query = Query { prefix: Prefix::default(), after: after.take(), limit: MAX_PAGE_KEYS };
        let page = store.list(owner, &query, PATIENCE).map_err(in_words)?;
        for key in &page.keys {
            if notes.len() >= limit {
                return Ok(notes);
            }
            let Some(text) = text_at(store, owner, key)? else { continue };
            let note = format!("{}\n{text}", key.as_str()).to_lowercase();
            if words.iter().all(|word| note.contains(word)) {
                notes.push(Note { key: key.as_str().to_owned(), text });
            }
        }
        match page.keys.last() {
            Some(last) if page.more => after = Some(last.clone()),
            _ => return Ok(notes),
        }
    }
}

impl Memory for StoredNotes {
    fn read<'a>(&'a self, owner: Option<&'a str>, key: &'a str) -> BoxFuture<'a, Result<Option<String>, MemoryError>> {
        Box::pin(async move {
            let key = key_of(key)?;
            self.step(owner, move |store, owner| text_at(store, owner, &key)).await
        })
    }

    fn write<'a>(
        &'a self,
        owner: Option<&'a str>,
        key: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), MemoryError>> {
        Box::pin(async move {
            if text.len() > NOTE_BYTES {
                return Err(MemoryError(format!("a note can have at most {NOTE_BYTES} bytes; write less")));
            }
            let key = key_of(key)?;
            let text = text.to_owned();
            let set = move |store: &dyn KeyValueStore, owner: &Namespace| {
                store.set(owner, &key, text.as_bytes(), OWNER_BYTES, PATIENCE).map_err(in_words)
            };
            self.step(owner, set).await
        })
    }

    fn search<'a>(
        &'a self,
        owner: Option<&'a str>,
        query: &'a str,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Note>, MemoryError>> {
        Box::pin(async move {
            let query = query.to_owned();
            self.step(owner, move |store, owner| found(store, owner, &query, limit)).await
        })
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::key_value::MemoryStore;

    use super::*;

    fn notes() -> StoredNotes {
        StoredNotes::new(Arc::new(MemoryStore::default()))
    }

    #[tokio::test]
    async fn notes_are_read_written_over_and_found_by_all_of_the_words() {
        let notes = notes();
        for (key, text) in [("milk", "Buy MILK soon."), ("bread", "Buy bread."), ("milk", "Buy milk today.")] {
            notes.write(Some("ann"), key, text).await.unwrap();
        }
        assert_eq!(notes.read(Some("ann"), "milk").await.unwrap().as_deref(), Some("Buy milk today."));
        assert_eq!(notes.read(Some("ann"), "tea").await.unwrap(), None);
        let keys = async |query: &str, limit: usize| {
            let found = notes.search(Some("ann"), query, limit).await.unwrap();
            found.into_iter().map(|note| note.key).collect::<Vec<_>>()
        };
        assert_eq!(keys("buy", 10).await, ["bread", "milk"]);
        assert_eq!(keys("TODAY buy", 10).await, ["milk"]);
        assert_eq!(keys("", 1).await, ["bread"]);
        assert!(keys("coffee", 10).await.is_empty());
    }

    #[tokio::test]
    async fn nobody_sees_the_notes_of_another() {
        let notes = notes();
        notes.write(Some("ann"), "pin", "1234").await.unwrap();
        for other in [None, Some("bob"), Some("ANN"), Some("guest"), Some("")] {
            assert_eq!(notes.read(other, "pin").await.unwrap(), None, "{other:?}");
            assert!(notes.search(other, "1234", 10).await.unwrap().is_empty(), "{other:?}");
        }
        notes.write(None, "ours", "of all guests").await.unwrap();
        assert_eq!(notes.read(Some("guest"), "ours").await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_is_too_much_is_said() {
        let notes = notes();
        let said = async |key: &str, text: &str| notes.write(None, key, text).await.unwrap_err().to_string();
        assert!(said("k", &"x".repeat(NOTE_BYTES + 1)).await.contains("at most 16384 bytes"));
        assert!(said("", "x").await.contains("1 to 256 bytes"));
        assert!(said("a\u{0}b", "x").await.contains("without control characters"));
        let mut written = 0;
        let full = loop {
            match notes.write(None, &format!("n{written}"), &"x".repeat(NOTE_BYTES)).await {
                Ok(()) => written += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert!(full.contains("overwrite an old one") && written > 200, "{written}: {full}");
        notes.write(None, "n0", "short").await.unwrap();
    }
}
