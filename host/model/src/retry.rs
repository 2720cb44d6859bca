//! The retry policy: delays between attempts, and the `retry-after` header.

use std::time::{Duration, SystemTime};

use fumehood_core::chat::{ModelError, ModelFailure};

use crate::config::Retries;

/// Returns the delay before the next attempt after `failures` failed ones, or `None` if there is no point in another.
///
/// `random` is any number. It shortens the delay by up to half (jitter), so that many clients do not return at once.
pub(crate) fn retry_delay(retries: &Retries, failures: u32, error: &ModelError, random: u64) -> Option<Duration> {
    let is_transient = matches!(error.failure, ModelFailure::RateLimited | ModelFailure::Unavailable);
    if !is_transient || failures > retries.max_retries {
        return None;
    }
    match error.retry_after {
        Some(requested) if requested > retries.max_delay => None,
        Some(requested) => Some(requested),
        None => {
            let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
            let full = retries.initial_delay.saturating_mul(factor).min(retries.max_delay);
            let jitter = u32::try_from(random % 1024).unwrap_or(0);
            Some(full - full / 2 * jitter / 1024)
        }
    }
}

/// Parses `retry-after-ms` in milliseconds, or else `retry-after` in seconds or as a date (RFC 9110, section 10.2.3).
pub(crate) fn parse_retry_after(seconds: Option<&str>, millis: Option<&str>, now: SystemTime) -> Option<Duration> {
    if let Some(millis) = millis.and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let text = seconds?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(failure: ModelFailure, retry_after: Option<u64>) -> ModelError {
        ModelError { retry_after: retry_after.map(Duration::from_secs), ..ModelError::new(failure, "") }
    }

    #[test]
    fn delay_doubles_up_to_the_maximum() {
        fn check(failures: u32, random: u64, expected: Option<u128>) {
            let retries = Retries { max_retries: 9, ..Retries::default() };
            let found = retry_delay(&retries, failures, &error(ModelFailure::Unavailable, None), random);
            assert_eq!(found.map(|delay| delay.as_millis()), expected);
        }

        check(1, 0, Some(500));
        check(2, 0, Some(1000));
        check(2, 512, Some(750));
        check(2, 1024, Some(1000));
        check(7, 0, Some(30_000));
        check(9, 0, Some(30_000));
        check(10, 0, None);
    }

    #[test]
    fn only_transient_failures_are_retried() {
        fn check(failure: ModelFailure, retry_after: Option<u64>, expected: Option<u64>) {
            assert_eq!(
                retry_delay(&Retries::default(), 1, &error(failure, retry_after), 0).map(|delay| delay.as_secs()),
                expected
            );
        }

        check(ModelFailure::RateLimited, Some(2), Some(2));
        check(ModelFailure::RateLimited, Some(30), Some(30));
        check(ModelFailure::RateLimited, Some(31), None);
        check(ModelFailure::Unavailable, Some(0), Some(0));
        for failure in [
            ModelFailure::ToolsUnsupported,
            ModelFailure::Refused,
            ModelFailure::Timeout,
            ModelFailure::Malformed,
            ModelFailure::Setup,
        ] {
            check(failure, Some(1), None);
        }
    }

    #[test]
    fn parses_retry_after_in_its_three_forms() {
        fn check(now: SystemTime, seconds: Option<&str>, millis: Option<&str>, expected: Option<u64>) {
            assert_eq!(parse_retry_after(seconds, millis, now), expected.map(Duration::from_millis));
        }

        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        check(now, Some("2"), None, Some(2000));
        check(now, Some("0.5"), None, Some(500));
        check(now, Some("2"), Some("20"), Some(20));
        check(now, Some("Sun, 06 Nov 1994 08:49:40 GMT"), None, Some(3000));
        check(now, Some("Sun, 06 Nov 1994 08:49:00 GMT"), None, Some(0));
        check(now, Some("-1"), None, None);
        check(now, Some("NaN"), None, None);
        check(now, Some("soon"), None, None);
        check(now, None, None, None);
    }
}
