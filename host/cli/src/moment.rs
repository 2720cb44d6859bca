//! Moments of the calendar, parsed and formatted. Always UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fumehood::limits::parse_duration;
use fumehood::time::Timestamp;

/// A moment as it was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// A point in time.
    At(Timestamp),
    /// A time before now.
    Ago(Duration),
}

impl Moment {
    /// Returns the point in time, with `now` as the current time.
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(moment) => moment,
            Self::Ago(ago) => Timestamp(now.0.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX))),
        }
    }
}

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    to_timestamp(SystemTime::now())
}

/// Parses `2026-11-21`, `2026-11-21T16:30:00Z`, `2026-11-21 16:30:00`, or `2h`, which is two hours ago.
pub(crate) fn parse_moment(text: &str) -> Result<Moment, String> {
    let text = text.trim();
    let is_day = text.len() == 10 && text.bytes().filter(|byte| *byte == b'-').count() == 2;
    let whole = if is_day { format!("{text}T00:00:00Z") } else { text.to_owned() };
    if let Ok(moment) = humantime::parse_rfc3339_weak(&whole) {
        return Ok(Moment::At(to_timestamp(moment)));
    }
    let wrong = "expected a date (`2026-11-21`), a time in UTC (`2026-11-21T16:30:00Z`), or a duration (`2h` for two \
                 hours ago)";
    parse_duration(text).map(Moment::Ago).map_err(|_| wrong.to_owned())
}

/// Formats a timestamp like `2026-11-21 16:30:00`.
pub(crate) fn format_second(moment: Timestamp) -> String {
    to_rfc3339(moment).get(..19).unwrap_or_default().replace('T', " ")
}

/// Formats a timestamp like `16:30:00.123`.
pub(crate) fn format_time_of_day(moment: Timestamp) -> String {
    to_rfc3339(moment).get(11..23).unwrap_or_default().to_owned()
}

/// Formats a timestamp by RFC 3339. One after the year 9999 is shown as the first moment of the calendar.
fn to_rfc3339(moment: Timestamp) -> String {
    /// The end of the year 9999.
    const LAST: u64 = 253_402_300_799_999;
    let since = Duration::from_millis(if moment.0 > LAST { 0 } else { moment.0 });
    humantime::format_rfc3339_millis(UNIX_EPOCH + since).to_string()
}

fn to_timestamp(moment: SystemTime) -> Timestamp {
    let since = moment.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_parsed(text: &str, expected: &str) {
        let found = parse_moment(text).map(|moment| format_second(moment.resolve(Timestamp(1_795_278_600_000))));
        assert_eq!(found.unwrap_or_else(|error| error[..8].to_owned()), expected, "{text}");
    }

    #[test]
    fn parses_days_times_and_ages() {
        assert_parsed("2026-11-21", "2026-11-21 00:00:00");
        assert_parsed("2026-11-21T16:30:00Z", "2026-11-21 16:30:00");
        assert_parsed(" 2026-11-21 16:30:00 ", "2026-11-21 16:30:00");
        assert_parsed("2h", "2026-11-21 14:30:00");
        assert_parsed("1000000000h", "1970-01-01 00:00:00");
        assert_parsed("yesterday", "expected");
        assert_parsed("2026-13-01", "expected");
        assert_parsed("", "expected");
    }

    #[test]
    fn formats_a_moment_beyond_the_calendar() {
        assert_eq!(format_second(Timestamp(u64::MAX)), "1970-01-01 00:00:00");
        assert_eq!(format_time_of_day(Timestamp(1_795_278_600_123)), "16:30:00.123");
    }
}
