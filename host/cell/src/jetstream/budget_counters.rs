//! Counters of budgets that the gateways of a cell share: an entry for each, of which gateways take slices by conditional writes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, BucketError};
use super::key_value_store::to_token;
use crate::link::ServerOptions;

/// The last part of the bucket's name.
const BUCKET: &str = "budgets";
/// The part of a budget that a gateway takes at most, unless it needs more at once: a sixteenth.
const MAX_SLICE: u64 = 16;
/// The part of what is left that a gateway takes at most: an eighth, so that gateways do not wait for each other at the end.
const MAX_SHARE_OF_REST: u64 = 8;
/// The part of a budget that a gateway takes at least: a 4,096th, so that the last eighths are not without number.
const MIN_SLICE: u64 = 4096;

/// A counter: what was taken in a window.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Counter {
    window: u64,
    taken: u64,
}

/// Counters of budgets in JetStream.
pub struct NatsCounters {
    bucket: Bucket,
}

impl fmt::Debug for NatsCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsCounters").field("bucket", &self.bucket.name()).finish_non_exhaustive()
    }
}

impl Counter {
    /// Goes on to a window. One that has passed counts for the later one, because clocks of gateways differ.
    fn advance(self, window: u64) -> Self {
        if window > self.window { Self { window, taken: 0 } } else { self }
    }
}

impl NatsCounters {
    /// Creates counters, which connect when they are used.
    #[must_use]
    pub fn new(server: ServerOptions) -> Self {
        Self { bucket: Bucket::new(server, BUCKET) }
    }

    /// Connects, and makes the bucket if there is none.
    ///
    /// # Errors
    /// If the server cannot be reached, has no JetStream or is too old, or the bucket has other settings.
    pub async fn open(&self) -> Result<(), BucketError> {
        self.bucket.open().await
    }

    /// Takes a slice of a budget of `max` in a window, of `at_least` if there is so much. Returns the window, which is a later
    /// one if another gateway has begun that, and the amount.
    ///
    /// # Errors
    /// If the counter cannot be changed.
    pub async fn take(
        &self,
        tenant: &str,
        kind: &str,
        window: u64,
        max: u64,
        at_least: u64,
    ) -> Result<(u64, u64), BucketError> {
        self.change(tenant, kind, |counter| {
            let counter = counter.advance(window);
            let rest = max.saturating_sub(counter.taken);
            let amount = slice(max, rest, at_least);
            (Counter { taken: counter.taken.saturating_add(amount), ..counter }, (counter.window, amount))
        })
        .await
    }

    /// Gives back what was not used of a window, unless that has passed.
    ///
    /// # Errors
    /// If the counter cannot be changed.
    pub async fn give_back(&self, tenant: &str, kind: &str, window: u64, amount: u64) -> Result<(), BucketError> {
        self.change(tenant, kind, |counter| {
            let amount = if counter.window == window { amount } else { 0 };
            (Counter { taken: counter.taken.saturating_sub(amount), ..counter }, ())
        })
        .await
    }

    /// Changes a counter, as often as it takes. A change whose answer is lost may count, so that too much is taken at worst.
    async fn change<T>(
        &self,
        tenant: &str,
        kind: &str,
        change: impl Fn(Counter) -> (Counter, T),
    ) -> Result<T, BucketError> {
        let key = format!("{}.{kind}", to_token(tenant));
        loop {
            let entry = self.bucket.get(&key).await?;
            let counter = entry.value.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
            let (counter, done) = change(counter);
            let bytes = serde_json::to_vec(&counter).unwrap_or_default();
            match self.bucket.put(&key, entry.revision, 0, Some(bytes.into())).await {
                Err(BucketError::Conflict) => {}
                other => return other.map(|_| done),
            }
        }
    }
}

/// Returns how much of the rest of a budget a gateway takes.
fn slice(max: u64, rest: u64, at_least: u64) -> u64 {
    let slice = (max / MAX_SLICE).min(rest / MAX_SHARE_OF_REST).max(max / MIN_SLICE).max(1);
    slice.max(at_least).min(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_shrink_with_the_rest_and_end_with_it() {
        for (max, rest, at_least, expected) in [
            (1600, 1600, 1, 100),
            (1600, 400, 1, 50),
            (1600, 9, 1, 1),
            (1600, 0, 1, 0),
            (1600, 1600, 300, 300),
            (1600, 200, 300, 200),
            (4096 * 100, 50, 1, 50),
            (1, 1, 1, 1),
        ] {
            assert_eq!(slice(max, rest, at_least), expected, "{max} {rest} {at_least}");
        }
        let mut rest = 1_u64 << 40;
        let mut rounds = 0;
        while rest > 0 {
            rest -= slice(1 << 40, rest, 1);
            rounds += 1;
        }
        assert!(rounds < 100, "{rounds}");
    }

    #[test]
    fn windows_go_forward_only() {
        let counter = Counter { window: 5, taken: 7 };
        assert_eq!((counter.advance(6).window, counter.advance(6).taken), (6, 0));
        assert_eq!((counter.advance(4).window, counter.advance(4).taken), (5, 7));
    }
}
