//! Time as a guest sees it: whole milliseconds, so that it cannot measure what others do.

use std::time::{Duration, Instant, SystemTime};

use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder};

/// The smallest step of a guest's clocks.
pub(crate) const QUANTUM: Duration = Duration::from_millis(1);

/// Gives the guest clocks that tick in steps of [`QUANTUM`].
pub(crate) fn quantise(builder: &mut WasiCtxBuilder) {
    builder.wall_clock(QuantisedWallClock).monotonic_clock(QuantisedClock { start: Instant::now() });
}

struct QuantisedWallClock;

impl HostWallClock for QuantisedWallClock {
    fn resolution(&self) -> Duration {
        QUANTUM
    }

    fn now(&self) -> Duration {
        // A machine whose clock stands before 1970 has other troubles; its guests see 1970.
        round_down(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }
}

/// Nanoseconds since the guest first looked. It says nothing of how long the host has been up.
struct QuantisedClock {
    start: Instant,
}

impl HostMonotonicClock for QuantisedClock {
    fn resolution(&self) -> u64 {
        nanos(QUANTUM)
    }

    fn now(&self) -> u64 {
        nanos(round_down(self.start.elapsed()))
    }
}

fn round_down(time: Duration) -> Duration {
    let step = QUANTUM.as_nanos();
    let whole = time.as_nanos() / step * step;
    Duration::from_nanos(u64::try_from(whole).unwrap_or(u64::MAX))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_milliseconds() {
        assert_eq!(round_down(Duration::from_micros(1999)), Duration::from_millis(1));
        assert_eq!(round_down(Duration::from_micros(999)), Duration::ZERO);
        assert_eq!(round_down(Duration::MAX), Duration::from_nanos(u64::MAX));
        assert_eq!(nanos(QuantisedWallClock.now()) % 1_000_000, 0);
    }
}
