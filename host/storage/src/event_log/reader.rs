//! Queries, exports and following of a log.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::chain::{Key, Mark};
use super::checkpoint::LogId;
use super::filter::{Filter, Order};
use super::key;
use super::log::Options;
use super::port::RecordSource;
use super::row::{StoredRecord, UnreadableRow};
use super::sqlite::SqliteSource;
use super::withheld::WithheldEntries;
use crate::error::{KeyError, OpenError, StorageError};

/// Number of records of an export that are in memory at once.
const EXPORT_PAGE_RECORDS: usize = 500;

/// Time between two polls of the database. A poll without new records is one step in its index.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Errors of reading records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A row does not contain a record.
    #[error("cannot read row {seq} of the event log: {what}; verify the log to see whether it was changed")]
    Row {
        /// The number of the row.
        seq: u64,
        /// The problem with the row.
        what: &'static str,
    },
    /// An error of the database.
    #[error("cannot read the event log: {0}")]
    Storage(#[from] StorageError),
    /// The database of several writers has none yet.
    #[error("the event log is empty; a command that records a call creates its first record")]
    Empty,
}

impl From<UnreadableRow> for ReadError {
    fn from(row: UnreadableRow) -> Self {
        Self::Row { seq: row.seq, what: row.what }
    }
}

/// Errors of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The records cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output cannot be written.
    #[error("cannot write the exported records")]
    Write(#[from] io::Error),
}

/// A reader of an event log. Cheap to clone; its methods block on the disk.
#[derive(Clone)]
pub struct Reader {
    source: Arc<dyn RecordSource>,
    key: Result<Key, Arc<KeyError>>,
    /// Keys of other writers.
    other_keys: Vec<Key>,
    /// Contents of saved sessions that are not in the database.
    withheld: Arc<WithheldEntries>,
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Reader {
    /// Opens the log in a file for reading only, even while other processes write to it. The seals of anchors are
    /// checked if the key is given or can be read from its file.
    ///
    /// # Errors
    /// If the file cannot be read, or is not an event log of this version.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let source = SqliteSource::open(path, options)?;
        // A user who may not read the key can still read the log; the report then says that seals were not checked.
        let key = match options.key {
            Some(key) => Ok(key),
            None => key::read_existing(&key::path_of(path, options.key_file.as_deref())).map_err(Arc::new),
        };
        Ok(Self::from_source(Arc::new(source), key))
    }

    /// Creates a reader of a database that is open.
    pub(crate) fn from_source(source: Arc<dyn RecordSource>, key: Result<Key, Arc<KeyError>>) -> Self {
        Self { source, key, other_keys: Vec::new(), withheld: Arc::default() }
    }

    /// Sets the contents of saved sessions that are not in the database.
    pub(super) fn with_withheld(self, withheld: Arc<WithheldEntries>) -> Self {
        Self { withheld, ..self }
    }

    pub(super) fn withheld(&self) -> &WithheldEntries {
        &self.withheld
    }

    /// Adds keys of other writers, whose seals are then checked as well.
    ///
    /// # Errors
    /// If a file cannot be read, or has no key in it.
    pub fn with_key_files<'p>(mut self, files: impl IntoIterator<Item = &'p Path>) -> Result<Self, KeyError> {
        for file in files {
            self.other_keys.push(key::read_existing(file)?);
        }
        Ok(self)
    }

    pub(crate) fn source(&self) -> &dyn RecordSource {
        self.source.as_ref()
    }

    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref().ok()
    }

    /// Returns all keys, the own one first.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.key().into_iter().chain(&self.other_keys)
    }

    /// Returns the error that prevents seals from being checked, if any.
    #[must_use]
    pub fn key_error(&self) -> Option<&KeyError> {
        self.key.as_ref().err().map(AsRef::as_ref)
    }

    /// Returns the records that match a filter, in its order. The next page begins after the last of them.
    ///
    /// # Errors
    /// If the database cannot be read, or a row does not contain a record.
    pub fn query(&self, filter: &Filter) -> Result<Vec<StoredRecord>, ReadError> {
        self.source.query(filter)
    }

    /// Returns the identity of the log; of a database of several writers, that of the first one.
    ///
    /// # Errors
    /// If the database cannot be read.
    pub fn log_id(&self) -> Result<LogId, ReadError> {
        let chains = self.source.chains()?;
        Ok(LogId(chains.first().map(|chain| chain.log).unwrap_or_default()))
    }

    /// Returns the last record's position in the chain, to be kept elsewhere, or `None` if there is no record.
    ///
    /// # Errors
    /// If the database cannot be read, or the row does not contain a record.
    pub fn last(&self) -> Result<Option<Mark>, ReadError> {
        let last = Filter { order: Order::Descending, limit: Some(1), ..Filter::default() };
        Ok(self.query(&last)?.first().map(StoredRecord::mark))
    }

    /// Writes the records that match a filter as JSON Lines, and returns their number. Without a limit, writes all of
    /// them.
    ///
    /// # Errors
    /// If a record cannot be read or written; the lines before it were written.
    pub fn export(&self, filter: &Filter, out: &mut dyn Write) -> Result<u64, ExportError> {
        let mut left = filter.limit.unwrap_or(usize::MAX);
        let mut page = filter.clone();
        let mut written = 0_u64;
        while left > 0 {
            page.limit = Some(left.min(EXPORT_PAGE_RECORDS));
            let records = self.query(&page)?;
            let Some(last) = records.last() else {
                break;
            };
            page.after_seq = Some(last.seq);
            left = left.saturating_sub(records.len());
            for record in &records {
                serde_json::to_writer(&mut *out, record).map_err(io::Error::from)?;
                out.write_all(b"\n")?;
                written = written.saturating_add(1);
            }
        }
        out.flush()?;
        Ok(written)
    }

    /// Follows the records that match a filter, after its `after_seq` or from the first record on. The order of the
    /// filter is ignored; its limit applies to each call of [`Follower::next`].
    #[must_use]
    pub fn follow(&self, filter: Filter) -> Follower {
        Follower { reader: self.clone(), filter: Filter { order: Order::Ascending, ..filter } }
    }
}

/// A cursor over the new records of a log, including those that other processes write.
pub struct Follower {
    reader: Reader,
    filter: Filter,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").finish_non_exhaustive()
    }
}

impl Follower {
    /// Blocks until there are new records, and returns them in order. Returns none if there are none within `timeout`.
    ///
    /// # Errors
    /// If the database cannot be read, or a row does not contain a record. The next call tries the same again.
    pub fn next(&mut self, timeout: Duration) -> Result<Vec<StoredRecord>, ReadError> {
        let started = Instant::now();
        loop {
            let found = self.reader.query(&self.filter)?;
            if let Some(last) = found.last() {
                self.filter.after_seq = Some(last.seq);
                return Ok(found);
            }
            let left = timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Ok(found);
            }
            thread::sleep(left.min(POLL_INTERVAL));
        }
    }
}
