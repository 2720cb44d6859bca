//! Options of a log.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Options for opening a log.
#[derive(Clone)]
pub struct Options {
    /// The key that seals the anchors. `None`: the key in `key_file`.
    pub key: Option<[u8; 32]>,
    /// The file with the key, unless `key` is set. It is created with a new log. `None`: `<path>.key` beside the
    /// database; then anyone with write access to both can rewrite the whole log undetected.
    pub key_file: Option<PathBuf>,
    /// Number of records that may wait to be written before [`record`](fumehood_core::record::Recorder::record) waits
    /// for room. At four times this number further records are rejected; that many accumulate only if callers do not
    /// wait, or while writing fails.
    pub capacity: usize,
    /// Maximum time to wait for another process that has locked the database.
    pub busy_timeout: Duration,
    /// Maximum time that closing or dropping the log waits for the records that are not on disk yet.
    pub close_timeout: Duration,
    /// True if a small journal stays beside the database when the log is closed. Moving it into the database takes
    /// longer than a short session.
    pub keep_journal: bool,
}

impl Default for Options {
    /// Returns options with the key beside the database, a capacity of 8192 records, both timeouts of 5 s, and no
    /// journal after closing.
    fn default() -> Self {
        let (busy_timeout, close_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
        Self { key: None, key_file: None, capacity: 8192, busy_timeout, close_timeout, keep_journal: false }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("key", &self.key.map(|_| "…"))
            .field("key_file", &self.key_file)
            .field("capacity", &self.capacity)
            .field("busy_timeout", &self.busy_timeout)
            .field("close_timeout", &self.close_timeout)
            .field("keep_journal", &self.keep_journal)
            .finish()
    }
}
