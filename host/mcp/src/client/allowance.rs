//! How much a server may say that nobody asked for.

use std::time::{Duration, Instant};

/// After so long the count begins anew.
const WINDOW: Duration = Duration::from_secs(60);

/// Counts messages that are no answers: news, requests, answers to questions that nobody asked.
#[derive(Debug)]
pub(crate) struct Allowance {
    most: u32,
    said: u32,
    since: Option<Instant>,
}

impl Allowance {
    /// So many for one call, and for one minute between calls.
    pub(crate) fn new(most: u32) -> Self {
        Self { most, said: 0, since: None }
    }

    /// Something was asked or answered: the count begins anew.
    pub(crate) fn renew(&mut self) {
        (self.said, self.since) = (0, None);
    }

    /// One more was said. Whether it was within what is allowed.
    pub(crate) fn take(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) > WINDOW {
            (self.said, self.since) = (0, Some(now));
        }
        self.said = self.said.saturating_add(1);
        self.said <= self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_begins_anew_with_every_call_and_every_minute() {
        let (mut allowance, start) = (Allowance::new(2), Instant::now());
        let mut take = |seconds: u64| allowance.take(start + Duration::from_secs(seconds));
        assert_eq!(
            [take(0), take(1), take(2), take(60), take(61), take(62), take(63)],
            [true, true, false, false, true, true, false]
        );
        allowance.renew();
        assert!(allowance.take(start) && allowance.take(start) && !allowance.take(start));
    }
}
