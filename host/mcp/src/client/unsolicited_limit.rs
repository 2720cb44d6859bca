//! The limit on messages that a server sends without being asked.

use std::time::{Duration, Instant};

/// The time after which the count starts again.
const WINDOW: Duration = Duration::from_secs(60);

/// A limit on unsolicited messages: notifications, requests, and answers to unknown requests.
#[derive(Debug)]
pub(crate) struct UnsolicitedLimit {
    max: u32,
    count: u32,
    since: Option<Instant>,
}

impl UnsolicitedLimit {
    /// Creates a limit of `max` messages for one call, and for one minute between calls.
    pub(crate) fn new(max: u32) -> Self {
        Self { max, count: 0, since: None }
    }

    /// Starts the count again, after a request or its answer.
    pub(crate) fn reset(&mut self) {
        (self.count, self.since) = (0, None);
    }

    /// Counts one message. Returns whether it is within the limit.
    pub(crate) fn admit(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) > WINDOW {
            (self.count, self.since) = (0, Some(now));
        }
        self.count = self.count.saturating_add(1);
        self.count <= self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resets_with_every_call_and_every_minute() {
        let mut unsolicited = UnsolicitedLimit::new(2);
        let start = Instant::now();
        let mut take = |seconds: u64| unsolicited.admit(start + Duration::from_secs(seconds));
        assert_eq!(
            [take(0), take(1), take(2), take(60), take(61), take(62), take(63)],
            [true, true, false, false, true, true, false]
        );
        unsolicited.reset();
        assert!(unsolicited.admit(start) && unsolicited.admit(start) && !unsolicited.admit(start));
    }
}
