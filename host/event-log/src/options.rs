//! What an operator may choose about a log.

use std::path::PathBuf;
use std::time::Duration;

/// How a log is opened.
#[derive(Clone)]
pub struct Options {
    /// Seals the anchors. `None`: the key in a file.
    pub key: Option<[u8; 32]>,
    /// The file with the key, unless `key` is given; made when the log is new. `None`: the file beside the database,
    /// `<path>.key`, where whoever may write both can rewrite the whole log unseen.
    pub key_file: Option<PathBuf>,
    /// How many records may wait to be written before whoever records waits for room. Four times as many are the
    /// end: what comes on top while nobody waits, or while the disk refuses, is refused.
    pub capacity: usize,
    /// How long to wait for another process that holds the database.
    pub busy_timeout: Duration,
    /// The longest that closing, or dropping, the log waits for the records that are not on disk yet.
    pub close_timeout: Duration,
    /// Whether a journal that is still small stays beside the database when the log is closed. Moving it into the database costs
    /// more than a short session does.
    pub keep_journal: bool,
}

impl Default for Options {
    /// The key beside the database, 8192 records, 5 s and 5 s, and one file once the log is closed.
    fn default() -> Self {
        let (busy_timeout, close_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
        Self { key: None, key_file: None, capacity: 8192, busy_timeout, close_timeout, keep_journal: false }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
