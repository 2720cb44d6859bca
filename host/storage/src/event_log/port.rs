//! The ports between a log and its database: one for the thread that writes, and one for readers.

use std::fmt;
use std::time::Duration;

use fumehood_core::saved_session::SessionEntry;

use super::chain::{Key, LogId, Mark};
use super::filter::{Filter, Order};
use super::joined_head::Heads;
use super::queue::Rows;
use super::reader::ReadError;
use super::retention::{PruneReport, Retention};
use super::row::StoredRecord;
use super::sessions::SavedSessionInfo;
#[cfg(feature = "postgres")]
use super::transfer::CopiedRow;
use super::verify::Report;
#[cfg(feature = "postgres")]
use super::verify::StoredAnchor;
use crate::error::StorageError;

/// The outcome of one item within a successful transaction.
pub(crate) type Outcome = Result<(), String>;

/// A database that the writer thread of a log has for itself. Every method blocks.
pub(crate) trait RecordStore: Send {
    /// Writes rows in one transaction, linked to the last row in their order, with the anchors that are due, and returns
    /// the outcome of each item. A record or an entry that is there already, unchanged, is not written again. The rows
    /// survive the death of this process; with `needs_disk`, they and all rows before them are on disk.
    ///
    /// # Errors
    /// If the transaction failed; then nothing was written, or it is not known, and the same rows may be sent again.
    fn append(&mut self, rows: &[&Rows], needs_disk: bool) -> Result<Vec<Outcome>, StorageError>;

    /// Returns the time after which an idle writer asks whether the database is still there; `None` if it cannot be lost.
    fn probe_interval(&self) -> Option<Duration> {
        None
    }

    /// Asks whether the database is still there.
    ///
    /// # Errors
    /// If it is not.
    fn probe(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Waits until all rows are on disk.
    ///
    /// # Errors
    /// If the disk does not take them.
    fn sync(&mut self) -> Result<(), StorageError>;

    /// Removes the entries of a saved session. Returns whether there were any.
    ///
    /// # Errors
    /// If the database cannot be written.
    fn remove_session(&mut self, session: &str) -> Result<bool, StorageError>;

    /// Removes the rows that need not be kept, and seals the row where the rest begins.
    ///
    /// # Errors
    /// If the database cannot be written. Some rows may have been removed; the rest is then sealed where it begins.
    fn prune(&mut self, keep: Retention) -> Result<PruneReport, StorageError>;

    /// Seals the last row, and tidies up. Written records are safe without, so that a failure is not reported; the log is
    /// then left like after a crash.
    fn close(&mut self);
}

/// A chain of rows in a database, which one or several processes with the same key write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) log: LogId,
    /// The fingerprint of the key that seals it; `None` if any key may be tried, since there is but one chain.
    pub(crate) key: Option<[u8; 16]>,
    /// True if it is written here, and is no copy of a log of another database.
    pub(crate) is_own: bool,
}

/// The direction in which the causes of records are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinship {
    /// The records that led to them.
    Ancestors,
    /// The records that followed from them.
    Descendants,
}

/// Maximum number of records in a causal chain. No session produces a longer one.
pub(crate) const MAX_KIN_RECORDS: i64 = 10_000;

/// A database as readers use it, several at once. Every method blocks.
pub(crate) trait RecordSource: fmt::Debug + Send + Sync {
    /// Returns the records that match a filter, in its order.
    fn query(&self, filter: &Filter) -> Result<Vec<StoredRecord>, ReadError>;

    /// Returns the next ids of calls after `from` in the order of their bytes, or the next ones before it; at most `max`.
    fn calls_beside(&self, from: &str, order: Order, max: usize) -> Result<Vec<String>, ReadError>;

    /// Returns these records and all their kin in one direction, in order. Even a forged cycle terminates.
    fn kin(&self, ids: &[String], direction: Kinship) -> Result<Vec<StoredRecord>, ReadError>;

    /// Returns the entries of a saved session, in order.
    fn session_entries(&self, session: &str) -> Result<Vec<SessionEntry>, ReadError>;

    /// Returns the saved sessions, the one that changed last first.
    fn saved_sessions(&self) -> Result<Vec<SavedSessionInfo>, ReadError>;

    /// Returns whether there is a chain for each writer, instead of one for all.
    fn has_writers(&self) -> bool;

    /// Returns the chains, in the order in which they were begun.
    fn chains(&self) -> Result<Vec<Chain>, ReadError>;

    /// Returns the next rows of a chain after this one, to be copied; none at its end.
    #[cfg(feature = "postgres")]
    fn read_chain(&self, log: &LogId, after: u64) -> Result<Vec<CopiedRow>, ReadError>;

    /// Returns the anchors of a chain, to be copied.
    #[cfg(feature = "postgres")]
    fn read_anchors(&self, log: &LogId) -> Result<Vec<StoredAnchor>, ReadError>;

    /// Returns the last row of a chain, or the last removed one if no row is left.
    fn head(&self, log: &LogId) -> Result<Mark, ReadError>;

    /// Returns the heads of all chains at this position, or now; `None` if there is one chain for all.
    fn heads_at(&self, _position: Option<u64>) -> Result<Option<Heads>, ReadError> {
        Ok(None)
    }

    /// Verifies a chain, its seals if the key is given, and that it contains the marks.
    fn verify(&self, log: &LogId, key: Option<&Key>, marks: &[Mark]) -> Result<Report, ReadError>;
}
