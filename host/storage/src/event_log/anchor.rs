//! Anchors: rows at which the head of the chain is sealed, and when one is due.

use fumehood_core::record::RecordKind;

use super::chain::{self, Hash, Key, LogId, Mark};

/// Maximum number of rows between two anchors.
pub const ANCHOR_INTERVAL_ROWS: u64 = 1024;

/// Reasons for an anchor, as they are stored.
pub(crate) mod reason {
    /// [`super::ANCHOR_INTERVAL_ROWS`] rows were written.
    pub(crate) const ROWS: &str = "rows";
    /// A session ended.
    pub(crate) const SESSION: &str = "session";
    /// The log was closed.
    pub(crate) const CLOSE: &str = "close";
    /// The rows up to here were removed because they were old.
    pub(crate) const CUT: &str = "cut";
}

/// The identity and key that seal the anchors of one log.
#[derive(Clone)]
pub(crate) struct Sealer {
    pub(crate) log: LogId,
    pub(crate) key: Key,
}

impl Sealer {
    /// Computes the seal of an anchor.
    pub(crate) fn seal(&self, mark: Mark, reason: &str) -> Hash {
        chain::seal(&self.key, &self.log, mark.seq, reason, mark.hash)
    }
}

/// Returns the reason of the anchor that is due at a new row, if one is.
pub(crate) fn reason_at(seq: u64, kind: RecordKind) -> Option<&'static str> {
    if seq.is_multiple_of(ANCHOR_INTERVAL_ROWS) {
        Some(reason::ROWS)
    } else {
        (kind == RecordKind::SessionFinished).then_some(reason::SESSION)
    }
}
