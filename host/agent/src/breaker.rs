//! The circuit breaker: a run that only fails is ended, however many turns it has left.

use crate::execution::{Status, ToolExecution};

/// What is said when the breaker ends a run.
pub const BROKEN: &str = "Max failures. Terminating.";

/// Counts failed batches in a row. A batch that is not failed sets it back, until it has opened; then it stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    limit: u32,
    failures: u32,
}

impl Default for Breaker {
    /// Opens after three failed batches in a row.
    fn default() -> Self {
        Self::new(3)
    }
}

impl Breaker {
    /// Opens after `limit` failed batches in a row. With 0, never.
    #[must_use]
    pub fn new(limit: u32) -> Self {
        Self { limit, failures: 0 }
    }

    /// Takes note of a batch, and says whether the run is to end. A batch has failed if it has calls and none of them
    /// succeeded: one that got anything done is no failure, and neither is an empty one. Calls that were not tried, for
    /// want of budget or because the batch had ended, say nothing about the tools.
    pub fn batch(&mut self, executions: &[ToolExecution]) -> bool {
        let untried = [Status::RejectedBudget, Status::Skipped];
        let mut tried = executions.iter().filter(|execution| !untried.contains(&execution.status)).peekable();
        if tried.peek().is_none() { self.is_open() } else { self.record(tried.any(|execution| !execution.has_error())) }
    }

    /// Takes note of a success or a failure, and says whether the run is to end.
    pub fn record(&mut self, succeeded: bool) -> bool {
        if !self.is_open() {
            self.failures = if succeeded { 0 } else { self.failures.saturating_add(1) };
        }
        self.is_open()
    }

    /// Whether the run is to end.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.limit > 0 && self.failures >= self.limit
    }

    /// How many batches in a row have failed.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::chat::ToolIntent;
    use fumehood_core::error_kind::ErrorKind;
    use fumehood_core::result::{CallError, CallResult, Metadata};
    use fumehood_core::time::Timestamp;

    use super::*;
    fn execution(succeeds: bool) -> ToolExecution {
        let call = ToolIntent { id: "c".to_owned(), name: "a".to_owned(), arguments: "{}".to_owned() };
        let outcome = if succeeds { Ok(Vec::new()) } else { Err(CallError::new(ErrorKind::ToolFailed, "no")) };
        ToolExecution {
            id: "e".to_owned(),
            status: if succeeds { Status::Ok } else { Status::HandlerError },
            result: CallResult { id: "c".to_owned(), tool: "a".to_owned(), outcome, metadata: Metadata::default() },
            call,
            started_at: Timestamp(0),
            completed_at: Timestamp(0),
            modified: None,
        }
    }

    #[test]
    fn g22_three_failed_batches_in_a_row_open_the_breaker() {
        let check = |batches: &[&[bool]], expected: &[bool]| {
            let mut breaker = Breaker::default();
            let found: Vec<_> = batches
                .iter()
                .map(|batch| breaker.batch(&batch.iter().map(|succeeds| execution(*succeeds)).collect::<Vec<_>>()))
                .collect();
            assert_eq!(found, expected, "{batches:?}");
        };
        check(&[&[false], &[false], &[false]], &[false, false, true]);
        check(&[&[false], &[false], &[true], &[false], &[false]], &[false; 5]);
        check(&[&[false, false], &[false, true], &[false], &[false]], &[false; 4]);
        check(&[&[false], &[], &[false], &[], &[false]], &[false, false, false, false, true]);
        check(&[&[false], &[false], &[false], &[true]], &[false, false, true, true]);
        assert_eq!(BROKEN, "Max failures. Terminating.");
    }

    #[test]
    fn g22_no_limit_never_opens() {
        let mut breaker = Breaker::new(0);
        assert!((0..10).all(|_| !breaker.record(false)));
        assert_eq!(breaker.failures(), 10);
    }
}
