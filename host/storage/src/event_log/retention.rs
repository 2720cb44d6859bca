//! Removal of old rows, after which the rest can still be verified.

use fumehood_core::time::Timestamp;

/// The rows that are kept. Rows are removed from the oldest on, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// The newest rows, up to this number.
    Newest(u64),
    /// All rows from the first one recorded at this time or later.
    Since(Timestamp),
}

/// The result of removing rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Number of rows that were removed.
    pub removed: u64,
    /// The last row that was removed, now or earlier; 0 if none ever was.
    pub up_to: u64,
}
