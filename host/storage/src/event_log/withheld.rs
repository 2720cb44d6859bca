//! Contents of saved sessions that must not be on disk: they are in the memory of the process that wrote them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fumehood_core::saved_session::SessionEntry;

/// Maximum size of all contents, in bytes. Beyond it, the session that changed first is forgotten.
const MAX_BYTES: usize = 64 << 20;

/// The contents that were withheld from a database.
#[derive(Default)]
pub(crate) struct WithheldEntries(Mutex<Sessions>);

#[derive(Default)]
struct Sessions {
    by_id: HashMap<String, Session>,
    bytes: usize,
    changes: u64,
}

#[derive(Default)]
struct Session {
    /// The placeholder and the content of each entry, by its number.
    entries: HashMap<u64, (String, String)>,
    bytes: usize,
    /// The number of its last change, over all sessions.
    changed: u64,
}

impl WithheldEntries {
    /// Keeps the content of an entry, whose place on disk has this placeholder.
    pub(crate) fn add(&self, entry: &SessionEntry, placeholder: &str) {
        let mut sessions = self.lock();
        sessions.changes = sessions.changes.wrapping_add(1);
        let bytes = entry.content.len();
        let changed = sessions.changes;
        sessions.bytes = sessions.bytes.saturating_add(bytes);
        let session = sessions.by_id.entry(entry.session.clone()).or_default();
        session.bytes = session.bytes.saturating_add(bytes);
        session.changed = changed;
        session.entries.insert(entry.number, (placeholder.to_owned(), entry.content.clone()));
        while sessions.bytes > MAX_BYTES {
            let oldest = sessions.by_id.iter().min_by_key(|(_, session)| session.changed).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            sessions.forget(&oldest);
        }
    }

    /// Forgets a session.
    pub(crate) fn remove(&self, session: &str) {
        self.lock().forget(session);
    }

    /// Puts the contents back into entries that were read from the database.
    pub(crate) fn fill(&self, entries: &mut [SessionEntry]) {
        let sessions = self.lock();
        for entry in entries {
            let withheld = sessions.by_id.get(&entry.session).and_then(|session| session.entries.get(&entry.number));
            // Another process may have written an entry of its own in this place.
            if let Some((_, content)) = withheld.filter(|(placeholder, _)| *placeholder == entry.content) {
                entry.content.clone_from(content);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        // No code that holds the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    fn forget(&mut self, session: &str) {
        if let Some(session) = self.by_id.remove(session) {
            self.bytes = self.bytes.saturating_sub(session.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::saved_session::SessionStore as _;
    use fumehood_core::time::Timestamp;
    use futures_executor::block_on;

    use super::*;
    use crate::event_log::{EventLog, Options};

    fn entry(session: &str, number: u64, content: &str) -> SessionEntry {
        SessionEntry { session: session.to_owned(), number, at: Timestamp(1), content: content.to_owned() }
    }

    #[test]
    fn withheld_contents_are_in_memory_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log.db");
        let log = EventLog::open(&file, &Options::default()).unwrap();
        block_on(log.append(entry("a", 0, "head"), vec![])).unwrap();
        block_on(log.append_withheld(entry("a", 1, "the secret"), "{}".to_owned(), vec![])).unwrap();
        let whole = [entry("a", 0, "head"), entry("a", 1, "the secret")];
        assert_eq!(log.reader().session_entries("a").unwrap(), whole);
        let other = EventLog::open_read_only(&file, &Options::default()).unwrap();
        assert_eq!(other.session_entries("a").unwrap()[1].content, "{}");
        for path in EventLog::files(&file) {
            let bytes = std::fs::read(&path).unwrap_or_default();
            assert!(!bytes.windows(10).any(|window| window == b"the secret"), "{}", path.display());
        }
        block_on(log.remove_session("a")).unwrap();
        block_on(log.append(entry("a", 1, "{}"), vec![])).unwrap();
        assert_eq!(log.reader().session_entries("a").unwrap(), [entry("a", 1, "{}")], "it is another session");
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_session_goes_first() {
        let withheld = WithheldEntries::default();
        let content = "x".repeat(MAX_BYTES / 2);
        for session in ["a", "b", "c"] {
            withheld.add(&entry(session, 1, &content), "{}");
        }
        let mut read = ["a", "b", "c"].map(|session| entry(session, 1, "{}"));
        withheld.fill(&mut read);
        assert_eq!(read.map(|entry| entry.content.len()), [2, content.len(), content.len()]);
    }
}
