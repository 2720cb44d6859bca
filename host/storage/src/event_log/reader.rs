//! Queries, exports and following of a log.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::chain::Key;
use super::chain::Mark;
use super::filter::{Filter, Order};
use super::key;
use super::log::Options;
use super::row::{self, StoredRecord};
use super::store::DATABASE;
use crate::error::{KeyError, OpenError, StorageError};

/// Number of records of an export that are in memory at once.
const EXPORT_PAGE_RECORDS: usize = 500;

/// Time between two polls of the database. A poll without new records is one step in its index.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Errors of reading records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A row does not contain a record.
    #[error("row {seq} of the event log cannot be read: {what}; verify the log to see whether somebody changed it")]
    Row {
        /// The number of the row.
        seq: u64,
        /// The problem with the row.
        what: &'static str,
    },
    /// An error of the database.
    #[error("the event log cannot be read: {0}")]
    Storage(#[from] StorageError),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Storage(error.into())
    }
}

/// Errors of an export.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The records cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The output cannot be written.
    #[error("the exported records cannot be written")]
    Write(#[from] io::Error),
}

/// A reader of an event log. Cheap to clone; its methods block on the disk.
#[derive(Clone)]
pub struct Reader {
    connection: Arc<Mutex<Connection>>,
    key: Result<Key, Arc<KeyError>>,
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
        let connection = DATABASE.open_read_only(path, options.busy_timeout)?;
        // A user who may not read the key can still read the log; the report then says that seals were not checked.
        let key = match options.key {
            Some(key) => Ok(key),
            None => key::read_existing(&key::path_of(path, options.key_file.as_deref())).map_err(Arc::new),
        };
        Ok(Self { connection: Arc::new(Mutex::new(connection)), key })
    }

    /// Creates a reader that shares the connection of the writer.
    pub(crate) fn from_connection(connection: Arc<Mutex<Connection>>, key: Key) -> Self {
        Self { connection, key: Ok(key) }
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref().ok()
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
        let (sql, values) = filter.sql();
        self.select(&sql, values)
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

    /// Runs a query that selects `seq, hash` and [`CELLS`](super::row::CELLS).
    pub(crate) fn select(&self, sql: &str, values: Vec<Value>) -> Result<Vec<StoredRecord>, ReadError> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let stored = row::read(row)?;
            found.push(stored.map_err(|unreadable| ReadError::Row { seq: unreadable.seq, what: unreadable.what })?);
        }
        Ok(found)
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
