//! A log in one SQLite file: one chain, which one or several processes write.

mod columns;
mod flusher;
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

use self::flusher::Flusher;
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
    /// True if each transaction waits for the disk.
    waits_for_disk: bool,
    /// True if the newest rows may not be on disk.
    is_unsynced: bool,
    /// Started with the first rows that do not wait for the disk.
    flusher: Option<Flusher>,
}

impl SqliteStore {
    pub(super) fn new(connection: Arc<Mutex<Connection>>, sealer: Sealer, keep_journal: bool) -> Self {
        let has_pruned = false;
        let waits_for_disk = true;
        let is_unsynced = false;
        let flusher = None;
        Self { connection, sealer, keep_journal, has_pruned, waits_for_disk, is_unsynced, flusher }
    }
}

impl RecordStore for SqliteStore {
    fn append(&mut self, rows: &[&Rows], needs_disk: bool) -> Result<Vec<Outcome>, StorageError> {
        let mut connection = lock(&self.connection);
        if needs_disk != self.waits_for_disk {
            // The journal is consistent either way; a transaction that waits flushes those before it as well.
            connection.pragma_update(None, "synchronous", if needs_disk { "FULL" } else { "NORMAL" })?;
            self.waits_for_disk = needs_disk;
        }
        let outcomes = store::append(&mut connection, &self.sealer, rows)?;
        self.is_unsynced = !needs_disk;
        if !needs_disk {
            self.flusher = self.flusher.take().or_else(|| Flusher::start(&connection));
            self.flusher.iter().for_each(Flusher::mark);
        }
        Ok(outcomes)
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        let connection = lock(&self.connection);
        if let Some(path) = connection.path().filter(|path| self.is_unsynced && !path.is_empty()) {
            sqlite::sync_journal(Path::new(path)).map_err(|error| StorageError::Other(error.to_string()))?;
        }
        self.is_unsynced = false;
        Ok(())
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
        self.flusher = None;
        drop(self.sync());
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
