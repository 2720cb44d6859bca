//! Time as a guest sees it: in whole steps, so that it cannot measure what others do.

use std::time::{Duration, Instant, SystemTime};

use fumehood_core::permission::ClockStep;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock, WasiCtxBuilder};

/// Gives the guest clocks that tick in steps of `step`.
pub(crate) fn give(builder: &mut WasiCtxBuilder, step: ClockStep) {
    builder.wall_clock(SteppedWallClock { step }).monotonic_clock(SteppedClock { step, start: Instant::now() });
}

struct SteppedWallClock {
    step: ClockStep,
}

impl HostWallClock for SteppedWallClock {
    fn resolution(&self) -> Duration {
        self.step.duration()
    }

    fn now(&self) -> Duration {
        // A machine whose clock stands before 1970 has other troubles; its guests see 1970.
        self.step.round_down(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }
}

/// Nanoseconds since the guest first looked. It says nothing of how long the host has been up.
struct SteppedClock {
    step: ClockStep,
    start: Instant,
}

impl HostMonotonicClock for SteppedClock {
    fn resolution(&self) -> u64 {
        nanos(self.step.duration())
    }

    fn now(&self) -> u64 {
        nanos(self.step.round_down(self.start.elapsed()))
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_tell_whole_steps_and_say_so() {
        for step in [ClockStep::MIN, ClockStep::DEFAULT, ClockStep::MAX] {
            let wall = SteppedWallClock { step };
            assert_eq!(nanos(wall.now()) % nanos(step.duration()), 0);
            let clock = SteppedClock { step, start: Instant::now() };
            assert_eq!(clock.now() % clock.resolution(), 0);
            assert_eq!((wall.resolution(), clock.resolution()), (step.duration(), nanos(step.duration())));
        }
    }
}
