//! Names for records, executions and calls: a random part for the pipeline, and a number that only grows.

use std::sync::atomic::{AtomicU64, Ordering};

/// Makes names that are never made twice.
#[derive(Debug)]
pub(super) struct Ids {
    origin: String,
    next: AtomicU64,
}

impl Ids {
    /// Starts with a random part of its own.
    pub(super) fn new() -> Result<Self, getrandom::Error> {
        let origin = format!("{:016x}", getrandom::u64()?);
        Ok(Self { origin, next: AtomicU64::new(0) })
    }

    /// The next name, with what it is for in front.
    pub(super) fn next(&self, prefix: &str) -> String {
        format!("{prefix}_{}_{:x}", self.origin, self.next.fetch_add(1, Ordering::Relaxed))
    }
}
