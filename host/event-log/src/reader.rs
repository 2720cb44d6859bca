//! Finding records again.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::chain::Key;
use crate::connect::{self, OpenError};
use crate::filter::{Filter, Order};
use crate::hash::Mark;
use crate::key::{self, KeyError};
use crate::options::Options;
use crate::row::{self, Stored};
use crate::storage_error::StorageError;

/// How many records of an export are in memory at once.
const PAGE: usize = 500;

/// Why records cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// A row holds something else than a record.
    #[error("row {seq} of the event log cannot be read: {what}; verify the log to see whether somebody changed it")]
    Row {
        /// The number of the row.
        seq: u64,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The database does not do what is asked.
    #[error("the event log cannot be read: {0}")]
    StorageError(#[from] StorageError),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        Self::StorageError(error.into())
    }
}

/// Why an export stopped.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The records cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// They cannot be written where they should go.
    #[error("the exported records cannot be written")]
    Write(#[from] io::Error),
}

/// Reads an event log. Cheap to clone; its methods block on the disk.
#[derive(Clone)]
pub struct Reader {
    connection: Arc<Mutex<Connection>>,
    key: Result<Key, Arc<KeyError>>,
}

impl Reader {
    /// Opens the log in this file for reading alone, also while others write to it. The seals of anchors are checked
    /// if the key is given or can be read beside the file.
    ///
    /// # Errors
    /// The file cannot be read, or is not an event log of this version.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let connection = connect::read_only(path, options.busy_timeout)?;
        // Whoever may read the log but not its key still reads it; the report says that seals were not checked.
        let key = match options.key {
            Some(key) => Ok(key),
            None => key::read_existing(&key::file(path, options)).map_err(Arc::new),
        };
        Ok(Self { connection: Arc::new(Mutex::new(connection)), key })
    }

    /// Reads over the connection that writes.
    pub(crate) fn sharing(connection: Arc<Mutex<Connection>>, key: Key) -> Self {
        Self { connection, key: Ok(key) }
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn key(&self) -> Option<&Key> {
        self.key.as_ref().ok()
    }

    /// Why seals cannot be checked, if they cannot.
    #[must_use]
    pub fn key_error(&self) -> Option<&KeyError> {
        self.key.as_ref().err().map(AsRef::as_ref)
    }

    /// The records that fit a filter, in its order; the next page begins after the last of them.
    ///
    /// # Errors
    /// The database cannot be read, or a row holds no record.
    pub fn query(&self, filter: &Filter) -> Result<Vec<Stored>, ReadError> {
        let (sql, values) = filter.sql();
        self.select(&sql, values)
    }

    /// The last record's place in the chain, to be kept elsewhere; nothing if there is no record.
    ///
    /// # Errors
    /// The database cannot be read, or the row holds no record.
    pub fn last(&self) -> Result<Option<Mark>, ReadError> {
        let last = Filter { order: Order::Descending, limit: Some(1), ..Filter::default() };
        Ok(self.query(&last)?.first().map(Stored::mark))
    }

    /// Writes the records that fit a filter as JSON Lines, and says how many. Without a limit, all of them.
    ///
    /// # Errors
    /// A record cannot be read, or not be written; the lines before it were written.
    pub fn export(&self, filter: &Filter, out: &mut dyn Write) -> Result<u64, ExportError> {
        let mut left = filter.limit.unwrap_or(usize::MAX);
        let mut page = filter.clone();
        let mut written = 0_u64;
        while left > 0 {
            page.limit = Some(left.min(PAGE));
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

    /// The records that a query of `seq, hash` and the cells finds.
    pub(crate) fn select(&self, sql: &str, values: Vec<Value>) -> Result<Vec<Stored>, ReadError> {
        let connection = self.connection();
        let mut statement = connection.prepare_cached(sql)?;
        let mut rows = statement.query(params_from_iter(values))?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let stored = row::stored(row)?;
            found.push(stored.map_err(|unreadable| ReadError::Row { seq: unreadable.seq, what: unreadable.what })?);
        }
        Ok(found)
    }
}
