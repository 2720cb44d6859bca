//! Clocks with a coarse resolution, so that a guest cannot time the work of others.

use std::time::{Duration, Instant, SystemTime};

use fumehood_core::policy::permission::ClockStep;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder};

/// Sets wall and monotonic clocks that advance in steps of `step`. With a fixed time, the wall clock stands still.
pub(crate) fn configure(builder: &mut WasiCtxBuilder, step: ClockStep, fixed: Option<Duration>) {
    builder.wall_clock(SteppedWallClock { step, fixed }).monotonic_clock(SteppedClock { step, start: Instant::now() });
}

struct SteppedWallClock {
    step: ClockStep,
    fixed: Option<Duration>,
}

impl HostWallClock for SteppedWallClock {
    fn resolution(&self) -> Duration {
        self.step.duration()
    }

    fn now(&self) -> Duration {
        // A clock before 1970 reads as 1970.
        let now =
            self.fixed.unwrap_or_else(|| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default());
        self.step.round_down(now)
    }
}

/// A monotonic clock in nanoseconds, which begins with one step. It does not reveal the uptime of the host.
struct SteppedClock {
    step: ClockStep,
    start: Instant,
}

impl HostMonotonicClock for SteppedClock {
    fn resolution(&self) -> u64 {
        nanos(self.step.duration())
    }

    fn now(&self) -> u64 {
        // Never zero, which the runtime of Go takes for a broken clock.
        nanos(self.step.round_down(self.start.elapsed()).saturating_add(self.step.duration()))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_wall_clock_stands_still() {
        let fixed = Some(Duration::from_micros(1_700_000_000_001_500));
        let wall = SteppedWallClock { step: ClockStep::DEFAULT, fixed };
        assert_eq!(wall.now(), Duration::from_millis(1_700_000_000_001));
        assert_eq!(wall.now(), wall.now());
    }

    #[test]
    fn clocks_report_multiples_of_their_resolution() {
        for step in [ClockStep::MIN, ClockStep::DEFAULT, ClockStep::MAX] {
            let wall = SteppedWallClock { step, fixed: None };
            assert_eq!(nanos(wall.now()) % nanos(step.duration()), 0);
            let clock = SteppedClock { step, start: Instant::now() };
            assert_eq!(clock.now() % clock.resolution(), 0);
            assert!(clock.now() > 0);
            assert_eq!((wall.resolution(), clock.resolution()), (step.duration(), nanos(step.duration())));
        }
    }
}
