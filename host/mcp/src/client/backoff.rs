//! How long to leave a server alone that cannot be reached.

use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(30);

/// Failures in a row, and until when nothing is tried.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// How long it is still too early.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        self.until.and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// It failed again: twice as long as before, at most half a minute.
    pub(crate) fn failed(&mut self, now: Instant) {
        let wait = FIRST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        self.until = now.checked_add(wait);
    }

    /// It worked.
    pub(crate) fn worked(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_doubles_the_wait_up_to_a_limit() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        assert_eq!(backoff.wait(now), None);
        for expected in [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            backoff.failed(now);
            assert_eq!(backoff.wait(now), Some(Duration::from_millis(expected)));
            assert_eq!(backoff.wait(now + Duration::from_millis(expected)), None);
        }
        backoff.worked();
        assert_eq!(backoff.wait(now), None);
    }
}
