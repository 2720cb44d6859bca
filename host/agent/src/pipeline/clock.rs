//! What time it is: the one place of the pipeline that reads the calendar.

use std::time::{SystemTime, UNIX_EPOCH};

use fumehood_core::time::Timestamp;

/// Tells the time.
pub trait Clock: Send + Sync {
    /// This moment.
    fn now(&self) -> Timestamp;
}

/// The clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct WallClock;

impl Clock for WallClock {
    /// A clock that stands before 1970 is taken to stand at 1970.
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}
