//! Clocks: how small their smallest step is.

use std::time::Duration;

use super::quote::quote;
use crate::limits::parse_duration;

/// The smallest step of a tool's clocks. The finer, the better a tool can measure what others do on the same machine.
///
/// It says nothing of how long a tool may run or sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClockStep(Duration);

/// A step that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClockStepError {
    /// Not an amount of time.
    #[error("`{0}` is not the step of a clock; write a number and a unit, such as `100us` or `1ms`")]
    NotATime(String),
    /// Such a clock would not move.
    #[error("a clock whose step is zero has no meaning; give 1us to 1s, or leave it out for 1ms")]
    Zero,
    /// Outside of what can be granted.
    #[error("the step of a clock is {}; give 1us to 1s", humantime::format_duration(*.0))]
    OutOfRange(Duration),
}

impl ClockStep {
    /// One microsecond.
    pub const FINEST: Self = Self(Duration::from_micros(1));
    /// One millisecond: what a tool has that was granted nothing else.
    pub const USUAL: Self = Self(Duration::from_millis(1));
    /// One second.
    pub const COARSEST: Self = Self(Duration::from_secs(1));

    /// A step of `step`.
    ///
    /// # Errors
    /// If it is zero, or not between [`Self::FINEST`] and [`Self::COARSEST`].
    pub fn new(step: Duration) -> Result<Self, ClockStepError> {
        if step.is_zero() {
            return Err(ClockStepError::Zero);
        }
        if Self(step) < Self::FINEST || Self(step) > Self::COARSEST {
            return Err(ClockStepError::OutOfRange(step));
        }
        Ok(Self(step))
    }

    /// Reads `100us`, `1ms`, `1s`.
    ///
    /// # Errors
    /// If it is not an amount of time, and otherwise as [`Self::new`].
    pub fn parse(text: &str) -> Result<Self, ClockStepError> {
        let step = parse_duration(text).map_err(|_| ClockStepError::NotATime(quote(text)))?;
        Self::new(step)
    }

    /// The step.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// `time` in whole steps, never more than it is.
    #[must_use]
    pub fn round_down(self, time: Duration) -> Duration {
        let step = self.0.as_nanos().max(1);
        let whole = time.as_nanos() / step * step;
        Duration::from_nanos(u64::try_from(whole).unwrap_or(u64::MAX))
    }
}

impl Default for ClockStep {
    fn default() -> Self {
        Self::USUAL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_between_a_microsecond_and_a_second() {
        let check = |text: &str, expected: &str| {
            let found = ClockStep::parse(text);
            let found = found.map_or_else(|error| error.to_string(), |step| format!("{:?}", step.duration()));
            assert!(found.contains(expected), "{text}: {found}");
        };
        check("1us", "1µs");
        check("100 us", "100µs");
        check("1s", "1s");
        check("0s", "a clock whose step is zero has no meaning; give 1us to 1s");
        check("999ns", "the step of a clock is 999ns; give 1us to 1s");
        check("1s 1ns", "the step of a clock is 1s 1ns");
        check("fine", "`fine` is not the step of a clock");
        check("1", "`1` is not the step of a clock");
        assert_eq!(ClockStep::default().duration(), Duration::from_millis(1));
    }

    #[test]
    fn times_become_whole_steps() {
        let check = |step: ClockStep, time: Duration, expected: Duration| assert_eq!(step.round_down(time), expected);
        check(ClockStep::DEFAULT, Duration::from_micros(1999), Duration::from_millis(1));
        check(ClockStep::DEFAULT, Duration::from_micros(999), Duration::ZERO);
        check(ClockStep::MIN, Duration::from_nanos(1999), Duration::from_micros(1));
        check(ClockStep::MAX, Duration::from_millis(2999), Duration::from_secs(2));
        check(ClockStep::DEFAULT, Duration::MAX, Duration::from_nanos(u64::MAX));
    }
}
