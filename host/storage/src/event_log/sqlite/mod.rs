//! A log in one SQLite file: one chain, which one or several processes write.

mod columns;
mod prune;
mod sessions;
mod source;
pub(super) mod store;
#[cfg(feature = "postgres")]
mod transfer;
mod verify;

pub(super) use source::SqliteSource;
#[cfg(feature = "postgres")]
pub(super) use transfer::FileCopy;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::anchor::Sealer;
use super::port::{Outcome, RecordStore};
use super::queue::Rows;
use super::retention::{PruneReport, Retention};
use crate::error::StorageError;
use crate::sqlite;

/// Maximum size of a journal that may stay when the log is closed, in bytes.
const MAX_JOURNAL_BYTES: u64 = 2 << 20;

/// The database of a log in a file or in memory, as its writer thread uses it.
pub(super) struct SqliteStore {
    connection: Arc<Mutex<Connection>>,
    sealer: Sealer,
    /// True if a small journal stays when the log is closed.
    keep_journal: bool,
    /// True if old records were removed, of which the journal may contain copies.
    has_pruned: bool,
}

impl SqliteStore {
    pub(super) fn new(connection: Arc<Mutex<Connection>>, sealer: Sealer, keep_journal: bool) -> Self {
        Self { connection, sealer, keep_journal, has_pruned: false }
    }
}

impl RecordStore for SqliteStore {
    fn append(&mut self, rows: &[&Rows]) -> Result<Vec<Outcome>, StorageError> {
        Ok(store::append(&mut lock(&self.connection), &self.sealer, rows)?)
    }

    fn remove_session(&mut self, session: &str) -> Result<bool, StorageError> {
        let removed = sessions::remove(&lock(&self.connection), session)?;
        self.has_pruned |= removed;
        Ok(removed)
    }

    fn prune(&mut self, keep: Retention) -> Result<PruneReport, StorageError> {
        let pruned = prune::prune(&mut lock(&self.connection), &self.sealer, keep)?;
        self.has_pruned |= pruned.removed > 0;
        Ok(pruned)
    }

    /// Moves the journal into the database as well, unless it is small and may stay.
    fn close(&mut self) {
        let mut connection = lock(&self.connection);
        drop(store::anchor_head(&mut connection, &self.sealer));
        let journal = connection.path().map_or(0, |path| sqlite::journal_bytes(Path::new(path)));
        if self.keep_journal && journal <= MAX_JOURNAL_BYTES && !self.has_pruned {
            return;
        }
        drop(connection.execute_batch("PRAGMA optimize"));
        drop(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    }
}

pub(super) fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}
