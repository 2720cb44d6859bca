//! Retries of failed calls, before the model gets the error.

use std::time::Duration;

use fumehood_core::call::error_kind::{ErrorKind, Stage};
use fumehood_core::call::result::CallError;

/// Maximum delay between two attempts, also if the tool requests a longer one.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The number and the delay of retries of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts after the first.
    pub max_retries: u32,
    /// The delay before the second attempt. It doubles with each attempt, up to 5 seconds.
    pub initial_delay: Duration,
    /// True to also retry tools that are not annotated as idempotent or read-only.
    pub even_if_not_idempotent: bool,
}

impl RetryPolicy {
    /// Creates a policy of at most `max_retries` retries, without delay, and only of idempotent tools.
    #[must_use]
    pub fn new(max_retries: u32) -> Self {
        Self { max_retries, initial_delay: Duration::ZERO, even_if_not_idempotent: false }
    }

    /// Returns the delay after attempt `attempt` (from 1) failed; `None` if it is not retried.
    #[must_use]
    pub fn delay_after(&self, attempt: u32, is_idempotent: bool, error: &CallError) -> Option<Duration> {
        // A refused call would be refused again, and a caller who cancelled does not want a retry.
        let is_final = error.kind.stage() == Stage::Refused || error.kind == ErrorKind::Cancelled;
        if attempt > self.max_retries || is_final || !(is_idempotent || self.even_if_not_idempotent) {
            return None;
        }
        let doubled = self.initial_delay.saturating_mul(1 << (attempt - 1).min(16));
        Some(doubled.max(error.retry_after.unwrap_or_default()).min(MAX_DELAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_only_idempotent_tools_by_default() {
        let error = CallError::new(ErrorKind::Unavailable, "down");
        let retry = RetryPolicy { initial_delay: Duration::from_millis(100), ..RetryPolicy::new(2) };
        assert_eq!(retry.delay_after(1, true, &error), Some(Duration::from_millis(100)));
        assert_eq!(retry.delay_after(2, true, &error), Some(Duration::from_millis(200)));
        assert_eq!(retry.delay_after(3, true, &error), None);
        assert_eq!(retry.delay_after(1, false, &error), None);
        let forced = RetryPolicy { even_if_not_idempotent: true, ..retry };
        assert_eq!(forced.delay_after(1, false, &error), Some(Duration::from_millis(100)));
        let waits = error.with_retry_after(Duration::from_secs(60));
        assert_eq!(retry.delay_after(1, true, &waits), Some(MAX_DELAY));
        assert_eq!(retry.delay_after(1, true, &CallError::new(ErrorKind::Denied, "no")), None);
    }
}
