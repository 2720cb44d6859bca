//! Saved sessions: their entries, in the database of the log, so that one transaction writes an entry and its records.

use fumehood_core::saved_session::SessionEntry;
use fumehood_core::time::Timestamp;

use super::reader::{ReadError, Reader};

/// A saved session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSessionInfo {
    /// Its id.
    pub session: String,
    /// Number of its entries.
    pub entries: u64,
    /// Size of its entries in bytes.
    pub bytes: u64,
    /// The time of its first entry.
    pub began_at: Timestamp,
    /// The time of its last entry.
    pub changed_at: Timestamp,
}

impl Reader {
    /// Returns the entries of a saved session, in their order; none if there is no such session.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn session_entries(&self, session: &str) -> Result<Vec<SessionEntry>, ReadError> {
        let mut entries = self.source().session_entries(session)?;
        self.withheld().fill(&mut entries);
        Ok(entries)
    }

    /// Returns the saved sessions, the one that changed last first.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn saved_sessions(&self) -> Result<Vec<SavedSessionInfo>, ReadError> {
        self.source().saved_sessions()
    }
}

/// Returns the outcome of an entry whose place is taken: one that was sent again after a failure is accepted, and that of
/// another process refused.
pub(crate) fn compare_repeated(entry: &SessionEntry, kept: Option<&str>) -> Result<(), String> {
    if kept == Some(&entry.content) {
        return Ok(());
    }
    let session = &entry.session;
    Err(format!("session {session} was continued by another process; stop one of the two, and resume it again"))
}

#[cfg(test)]
mod tests {
    use fumehood_core::record::{Record, RecordKind};
    use fumehood_core::saved_session::SessionStore as _;
    use futures_executor::block_on;
    use serde_json::Value;

    use super::*;
    use crate::event_log::{EventLog, Filter, Options};

    fn entry(session: &str, number: u64, content: &str) -> SessionEntry {
        SessionEntry { session: session.to_owned(), number, at: Timestamp(number * 10), content: content.to_owned() }
    }

    fn record(id: &str) -> Record {
        Record {
            id: id.to_owned(),
            parent: None,
            session: "a".to_owned(),
            at: Timestamp(1),
            kind: RecordKind::StepFinished,
            actor: None,
            tool: None,
            digest: None,
            call: None,
            status: None,
            body: Value::Null,
        }
    }

    #[test]
    fn entries_are_kept_with_their_records_until_they_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log.db");
        let log = EventLog::open(&file, &Options::default()).unwrap();
        block_on(log.append(entry("a", 0, "head"), vec![])).unwrap();
        block_on(log.append(entry("a", 1, "one"), vec![record("r1"), record("r2")])).unwrap();
        block_on(log.append(entry("b", 7, "other"), vec![])).unwrap();
        log.close().unwrap();

        let log = EventLog::open(&file, &Options::default()).unwrap();
        let reader = EventLog::open_read_only(&file, &Options::default()).unwrap();
        assert_eq!(reader.session_entries("a").unwrap(), [entry("a", 0, "head"), entry("a", 1, "one")]);
        assert_eq!(reader.session_entries("c").unwrap(), []);
        let listed = reader.saved_sessions().unwrap();
        assert_eq!(listed.iter().map(|info| info.session.as_str()).collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!((listed[1].entries, listed[1].bytes, listed[1].changed_at), (2, 7, Timestamp(10)));
        assert_eq!(reader.query(&Filter::default()).unwrap().len(), 2);
        assert_eq!(reader.verify(None).unwrap().finding, None);
        assert!(block_on(log.remove_session("a")).unwrap());
        assert!(!block_on(log.remove_session("a")).unwrap());
        assert_eq!(reader.session_entries("a").unwrap(), []);
        assert_eq!(reader.query(&Filter::default()).unwrap().len(), 2, "the records stay");
    }

    #[test]
    fn entry_of_another_process_is_refused_with_its_records() {
        let log = EventLog::in_memory(&Options::default()).unwrap();
        block_on(log.append(entry("a", 0, "head"), vec![])).unwrap();
        block_on(log.append(entry("a", 0, "head"), vec![])).unwrap();
        let error = block_on(log.append(entry("a", 0, "another"), vec![record("r1")])).unwrap_err().to_string();
        assert!(error.contains("session a was continued by another process"), "{error}");
        assert_eq!(log.reader().session_entries("a").unwrap(), [entry("a", 0, "head")]);
        assert!(log.reader().query(&Filter::default()).unwrap().is_empty());
    }
}
