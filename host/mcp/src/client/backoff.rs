//! Waits between attempts to connect to a server.

use std::time::{Duration, Instant};

/// Wait after the first failure.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
/// Maximum wait between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Exponential backoff of connection attempts.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Returns the time until the next attempt is allowed, if that is not now.
    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        self.until.and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Records a failure. Each one in a row doubles the wait, from [`MIN_BACKOFF`] up to [`MAX_BACKOFF`].
    pub(crate) fn record_failure(&mut self, now: Instant) {
        let wait = MIN_BACKOFF.saturating_mul(1 << self.failures.min(16)).min(MAX_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        self.until = now.checked_add(wait);
    }

    /// Resets the wait after a success.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_the_wait_up_to_a_limit() {
        let mut backoff = Backoff::default();
        let now = Instant::now();
        assert_eq!(backoff.remaining(now), None);
        for expected in [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            backoff.record_failure(now);
            assert_eq!(backoff.remaining(now), Some(Duration::from_millis(expected)));
            assert_eq!(backoff.remaining(now + Duration::from_millis(expected)), None);
        }
        backoff.reset();
        assert_eq!(backoff.remaining(now), None);
    }
}
