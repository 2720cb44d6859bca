//! Counts batches that failed, one after the other.

use std::num::NonZeroU32;

use crate::execution::{Status, ToolExecution};

/// What the person is told when too many batches in a row have failed.
pub const MAX_FAILURES: &str = "Max failures. Terminating.";

/// Batches in a row of which no call succeeded.
#[derive(Debug, Default)]
pub(super) struct FailedBatches {
    count: u32,
}

impl FailedBatches {
    /// Takes one batch; whether there have now been `limit` in a row.
    ///
    /// Calls that were not tried, for want of budget or because the batch had ended, say nothing about the tools.
    pub(super) fn note(&mut self, executions: &[ToolExecution], limit: Option<NonZeroU32>) -> bool {
        let untried = [Status::RejectedBudget, Status::Skipped];
        let mut tried = executions.iter().filter(|execution| !untried.contains(&execution.status)).peekable();
        if tried.peek().is_none() {
            return false;
        }
        self.count = if tried.all(ToolExecution::has_error) { self.count.saturating_add(1) } else { 0 };
        limit.is_some_and(|limit| self.count >= limit.get())
    }
}
