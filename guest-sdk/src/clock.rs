//! The time of day, and waiting.
//!
//! In a component for `wasm32-wasip2` it is the host's clock, in steps as coarse as the operator chose. A pure component, for
//! `wasm32-unknown-unknown`, has no clock: both functions panic there. In tests it is a clock that only moves when a test or
//! the tool itself moves it: see [`testing`](crate#testing).

use std::time::{Duration, SystemTime};

use crate::host;

/// The time of day.
#[must_use]
pub fn now() -> SystemTime {
    host::now()
}

/// Waits. In tests it moves the clock instead, at once.
pub fn sleep(duration: Duration) {
    host::sleep(duration);
}
