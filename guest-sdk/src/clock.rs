//! The time of day, and waiting.
//!
//! In a component for `wasm32-wasip2` this is the host's clock, with a resolution that the operator sets. A pure
//! component, for `wasm32-unknown-unknown`, has no clock: both functions panic. In tests the clock advances only when a
//! test or the tool itself advances it: see [`testing`](crate#testing).

use std::time::{Duration, SystemTime};

use crate::host;

/// Returns the time of day.
#[must_use]
pub fn now() -> SystemTime {
    host::now()
}

/// Blocks for `duration`. In tests it returns at once, and advances the clock.
pub fn sleep(duration: Duration) {
    host::sleep(duration);
}
