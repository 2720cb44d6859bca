//! The deadline of one call, and the ticks of the epoch that enforce it.

use std::time::{Duration, Instant};

/// Interval at which the epoch advances: the longest time for which a guest runs before its deadline is checked.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Ticks for which a guest runs before it first yields. The first tick may be almost over when a call starts, so with
/// one tick short calls would yield for no reason.
pub(crate) const FIRST_SLICE: u64 = 2;

/// The point in time by which a call must be over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    armed: Instant,
    at: Instant,
}

/// The error that stops a guest whose deadline has passed.
#[derive(Debug, thiserror::Error)]
#[error("the deadline of the call has passed")]
pub(crate) struct DeadlinePassed;

impl Deadline {
    /// Creates a deadline that is `budget` after `now`. [`fumehood_core::call::limits::Limits::check`] bounds the budget to a
    /// day.
    pub(crate) fn after(now: Instant, budget: Duration) -> Self {
        Self { armed: now, at: now + budget }
    }

    /// Returns the time at which the call began.
    pub(crate) fn armed(&self) -> Instant {
        self.armed
    }

    /// Returns the time at which the call must be over.
    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// Returns the time that is left; zero after the deadline.
    pub(crate) fn remaining(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Returns whether the deadline has passed.
    pub(crate) fn passed(&self) -> bool {
        Instant::now() >= self.at
    }
}
