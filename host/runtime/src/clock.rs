//! The deadline of one call: a moment, and how many ticks of the epoch fit before it.

use std::time::{Duration, Instant};

/// How often the epoch advances: the longest time for which a guest runs without the host having a look.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// A guest runs this many ticks before it first yields. The first tick may be almost over when a call starts, so with
/// one, short calls would yield for no reason.
pub(crate) const FIRST_SLICE: u64 = 2;

/// When a call must be over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    armed: Instant,
    at: Instant,
}

/// The guest was stopped because its time was up.
#[derive(Debug, thiserror::Error)]
#[error("the deadline of the call has passed")]
pub(crate) struct DeadlinePassed;

impl Deadline {
    /// A deadline `budget` after `now`. [`fumehood_core::limits::Limits::check`] bounds the budget to a day.
    pub(crate) fn after(now: Instant, budget: Duration) -> Self {
        Self { armed: now, at: now + budget }
    }

    pub(crate) fn armed(&self) -> Instant {
        self.armed
    }

    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub(crate) fn passed(&self) -> bool {
        Instant::now() >= self.at
    }
}
