//! The circuit breaker: ends a run whose calls keep failing, before its budget is used up.

use crate::execution::{Status, ToolExecution};

/// The message when the breaker ends a run.
pub(crate) const CIRCUIT_OPEN_MESSAGE: &str = "Max failures. Terminating.";

/// A counter of consecutive failed batches. A batch that did not fail resets it; once open, it stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Breaker {
    limit: u32,
    failures: u32,
}

impl Default for Breaker {
    /// Creates a breaker that opens after three consecutive failed batches.
    fn default() -> Self {
        Self::new(3)
    }
}

impl Breaker {
    /// Creates a breaker that opens after `limit` consecutive failed batches; never, if `limit` is 0.
    #[must_use]
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, failures: 0 }
    }

    /// Records a batch. Returns whether the breaker is open, so that the run has to end.
    ///
    /// A batch failed if it has calls and none of them succeeded. An empty batch is no failure. Calls that were not
    /// tried, because of a budget or because the batch had ended, are not counted.
    pub(crate) fn record_batch(&mut self, executions: &[ToolExecution]) -> bool {
        let untried = [Status::RejectedBudget, Status::Skipped];
        let mut tried = executions.iter().filter(|execution| !untried.contains(&execution.status)).peekable();
        if tried.peek().is_none() { self.is_open() } else { self.record(tried.any(|execution| !execution.has_error())) }
    }

    /// Records a success or a failure. Returns whether the breaker is open.
    pub(crate) fn record(&mut self, succeeded: bool) -> bool {
        if !self.is_open() {
            self.failures = if succeeded { 0 } else { self.failures.saturating_add(1) };
        }
        self.is_open()
    }

    /// Returns whether the breaker is open, so that the run has to end.
    #[must_use]
    pub(crate) fn is_open(&self) -> bool {
        self.limit > 0 && self.failures >= self.limit
    }
}

#[cfg(test)]
mod tests {
    use fumehood_core::call::error_kind::ErrorKind;
    use fumehood_core::call::result::{CallError, CallResult, Metadata};
    use fumehood_core::chat::ToolIntent;
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
    fn three_failed_batches_in_a_row_open_the_breaker() {
        fn check(batches: &[&[bool]], expected: &[bool]) {
            let mut breaker = Breaker::default();
            let found: Vec<_> = batches
                .iter()
                .map(|batch| {
                    breaker.record_batch(&batch.iter().map(|succeeds| execution(*succeeds)).collect::<Vec<_>>())
                })
                .collect();
            assert_eq!(found, expected, "{batches:?}");
        }

        check(&[&[false], &[false], &[false]], &[false, false, true]);
        check(&[&[false], &[false], &[true], &[false], &[false]], &[false; 5]);
        check(&[&[false, false], &[false, true], &[false], &[false]], &[false; 4]);
        check(&[&[false], &[], &[false], &[], &[false]], &[false, false, false, false, true]);
        check(&[&[false], &[false], &[false], &[true]], &[false, false, true, true]);
        assert_eq!(CIRCUIT_OPEN_MESSAGE, "Max failures. Terminating.");
    }

    #[test]
    fn no_limit_never_opens() {
        let mut breaker = Breaker::new(0);
        assert!((0..10).all(|_| !breaker.record(false)));
    }
}
