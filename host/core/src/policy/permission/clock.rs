//! Resolution of a tool's clocks.

use std::time::Duration;

use super::GrantError;
use crate::call::limits::parse_duration;
use crate::call::quote;

/// The resolution of a tool's clocks.
///
/// The finer it is, the better a tool can measure the activity of others on the same machine. It does not limit how
/// long a tool may run or sleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct ClockStep(Duration);

impl ClockStep {
    /// The finest resolution: one microsecond.
    pub const MIN: Self = Self(Duration::from_micros(1));
    /// The resolution without a grant: one millisecond.
    pub const DEFAULT: Self = Self(Duration::from_millis(1));
    /// The coarsest resolution: one second.
    pub const MAX: Self = Self(Duration::from_secs(1));

    /// Creates a resolution of `step`.
    ///
    /// # Errors
    /// If it is zero, or not between [`Self::MIN`] and [`Self::MAX`].
    pub fn new(step: Duration) -> Result<Self, GrantError> {
        if step.is_zero() {
            return Err(GrantError::new("the clock resolution is zero; expected 1us to 1s, or leave it out for 1ms"));
        }
        if Self(step) < Self::MIN || Self(step) > Self::MAX {
            let found = humantime::format_duration(step);
            return Err(GrantError::new(format!("the clock resolution is {found}; expected 1us to 1s")));
        }
        Ok(Self(step))
    }

    /// Parses a resolution, such as `100us`, `1ms`, `1s`.
    ///
    /// # Errors
    /// If it is not an amount of time, or [`Self::new`] fails.
    pub fn parse(text: &str) -> Result<Self, GrantError> {
        let Ok(step) = parse_duration(text) else {
            return Err(GrantError::new(format!(
                "invalid clock resolution `{}`; expected a number with a unit, such as `100us` or `1ms`",
                quote(text)
            )));
        };
        Self::new(step)
    }

    /// Returns the step.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// Rounds `time` down to whole steps.
    #[must_use]
    pub fn round_down(self, time: Duration) -> Duration {
        let step = self.0.as_nanos().max(1);
        let whole = time.as_nanos() / step * step;
        Duration::from_nanos(u64::try_from(whole).unwrap_or(u64::MAX))
    }
}

impl Default for ClockStep {
    fn default() -> Self {
        Self::DEFAULT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_steps_from_one_microsecond_to_one_second() {
        fn check(text: &str, expected: &str) {
            let found = ClockStep::parse(text);
            let found = found.map_or_else(|error| error.to_string(), |step| format!("{:?}", step.duration()));
            assert!(found.contains(expected), "{text}: {found}");
        }

        check("1us", "1µs");
        check("100 us", "100µs");
        check("1s", "1s");
        check("0s", "the clock resolution is zero; expected 1us to 1s");
        check("999ns", "the clock resolution is 999ns; expected 1us to 1s");
        check("1s 1ns", "the clock resolution is 1s 1ns");
        check("fine", "invalid clock resolution `fine`");
        check("1", "invalid clock resolution `1`");
        assert_eq!(ClockStep::default().duration(), Duration::from_millis(1));
    }

    #[test]
    fn rounds_times_down_to_whole_steps() {
        fn check(step: ClockStep, time: Duration, expected: Duration) {
            assert_eq!(step.round_down(time), expected);
        }

        check(ClockStep::DEFAULT, Duration::from_micros(1999), Duration::from_millis(1));
        check(ClockStep::DEFAULT, Duration::from_micros(999), Duration::ZERO);
        check(ClockStep::MIN, Duration::from_nanos(1999), Duration::from_micros(1));
        check(ClockStep::MAX, Duration::from_millis(2999), Duration::from_secs(2));
        check(ClockStep::DEFAULT, Duration::MAX, Duration::from_nanos(u64::MAX));
    }
}
