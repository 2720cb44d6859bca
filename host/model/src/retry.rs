//! Whether to ask a provider again, and when.

use std::time::{Duration, SystemTime};

use fumehood_core::chat::{ModelError, ModelFailure};

use crate::config::Retries;

/// How long to wait before the try after `tries` tries; `None`: do not try again.
///
/// `random` is any number; it takes up to half off the wait, so that many clients do not come back at once.
pub(crate) fn wait(retries: &Retries, tries: u32, error: &ModelError, random: u64) -> Option<Duration> {
    let passing = matches!(error.failure, ModelFailure::RateLimited | ModelFailure::Unavailable);
    if !passing || tries > retries.most {
        return None;
    }
    match error.retry_after {
        Some(asked) if asked > retries.longest_wait => None,
        Some(asked) => Some(asked),
        None => {
            let doublings = 2_u32.saturating_pow(tries.saturating_sub(1));
            let full = retries.first_wait.saturating_mul(doublings).min(retries.longest_wait);
            let off = u32::try_from(random % 1024).unwrap_or(0);
            Some(full - full / 2 * off / 1024)
        }
    }
}

/// What `retry-after` or `retry-after-ms` ask for: milliseconds, seconds, or a date.
pub(crate) fn asked_for(seconds: Option<&str>, millis: Option<&str>, now: SystemTime) -> Option<Duration> {
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
    fn waits_double_up_to_the_longest() {
        let retries = Retries { most: 9, ..Retries::default() };
        let check = |tries, random, expected| {
            let found = wait(&retries, tries, &error(ModelFailure::Unavailable, None), random);
            assert_eq!(found.map(|wait| wait.as_millis()), expected);
        };
        check(1, 0, Some(500));
        check(2, 0, Some(1000));
        check(2, 512, Some(750));
        check(2, 1024, Some(1000));
        check(7, 0, Some(30_000));
        check(9, 0, Some(30_000));
        check(10, 0, None);
    }

    #[test]
    fn only_what_passes_is_tried_again() {
        let retries = Retries::default();
        let check = |failure, retry_after, expected| {
            assert_eq!(wait(&retries, 1, &error(failure, retry_after), 0).map(|wait| wait.as_secs()), expected);
        };
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
    fn retry_after_is_read_in_its_three_forms() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let check = |seconds, millis, expected: Option<u64>| {
            assert_eq!(asked_for(seconds, millis, now), expected.map(Duration::from_millis));
        };
        check(Some("2"), None, Some(2000));
        check(Some("0.5"), None, Some(500));
        check(Some("2"), Some("20"), Some(20));
        check(Some("Sun, 06 Nov 1994 08:49:40 GMT"), None, Some(3000));
        check(Some("Sun, 06 Nov 1994 08:49:00 GMT"), None, Some(0));
        check(Some("-1"), None, None);
        check(Some("NaN"), None, None);
        check(Some("soon"), None, None);
        check(None, None, None);
    }
}
