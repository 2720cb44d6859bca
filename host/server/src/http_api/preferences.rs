//! Preferences of a client: the `Prefer` header of requests (RFC 7240).

use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

/// Header of a request with its preferences.
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// Header of a response with the preferences that were honoured.
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
/// Maximum time that a request waits for the end of a job. A longer `wait` is shortened to it.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The preferences of a request that this API honours. Others are ignored, as the RFC has it, and so are malformed ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Preferences {
    /// The client prefers the address of a job to a wait for the result (`respond-async`).
    pub(crate) respond_async: bool,
    /// The time for which the client waits (`wait`), at most a minute.
    pub(crate) wait: Option<Duration>,
}

impl Preferences {
    /// Parses the preferences of a request. Of several of one name the first counts.
    pub(crate) fn parse(headers: &HeaderMap) -> Self {
        let mut respond_async = None;
        let mut wait = None;
        let values = headers.get_all(PREFER).iter().filter_map(|value| value.to_str().ok());
        for preference in values.flat_map(|value| split_unquoted(value, ',')) {
            // Its parameters come after a semicolon; those of this API have none.
            let preference = split_unquoted(preference, ';').first().copied().unwrap_or_default();
            let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
            let value = unquote(value.trim());
            match name.trim().to_ascii_lowercase().as_str() {
                // An empty value is none.
                "respond-async" => respond_async = respond_async.or(Some(value.is_empty())),
                "wait" => wait = wait.or(Some(parse_seconds(value))),
                _ => {}
            }
        }
        let respond_async = respond_async.unwrap_or_default();
        Self { respond_async, wait: wait.flatten().map(|time: Duration| time.min(MAX_WAIT)) }
    }

    /// Adds the preferences to the headers of a response that honours them, if there are any.
    pub(crate) fn apply(self, headers: &mut HeaderMap) {
        if let Some(applied) = self.to_header() {
            headers.insert(PREFERENCE_APPLIED, applied);
        }
    }

    fn to_header(self) -> Option<HeaderValue> {
        let respond_async = self.respond_async.then(|| "respond-async".to_owned());
        let wait = self.wait.map(|time| format!("wait={}", time.as_secs()));
        let applied: Vec<String> = respond_async.into_iter().chain(wait).collect();
        (!applied.is_empty()).then(|| HeaderValue::from_str(&applied.join(", ")).ok()).flatten()
    }
}

/// Splits a text where a character is not within quotes.
fn split_unquoted(text: &str, separator: char) -> Vec<&str> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let parts = text.split(|c: char| {
        let is_end = c == separator && !is_quoted;
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        is_end
    });
    parts.collect()
}

/// Returns the value within quotes; as it is if there are none. No value of this API has an escaped character.
fn unquote(value: &str) -> &str {
    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value)
}

/// Parses a number of seconds; `None` if it is none.
fn parse_seconds(value: &str) -> Option<Duration> {
    let is_number = !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit());
    // A number that is too large is larger than the maximum, too.
    is_number.then(|| Duration::from_secs(value.parse().unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str]) -> (bool, Option<u64>) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(PREFER, HeaderValue::from_str(value).unwrap());
        }
        let Preferences { respond_async, wait } = Preferences::parse(&headers);
        (respond_async, wait.map(|time| time.as_secs()))
    }

    fn check_parsed(values: &[&str], expected: (bool, Option<u64>)) {
        assert_eq!(parse(values), expected, "{values:?}")
    }

    #[test]
    fn known_preferences_are_found_among_others() {
        check_parsed(&[], (false, None));
        check_parsed(&["respond-async"], (true, None));
        check_parsed(&["Respond-Async , WAIT = 10"], (true, Some(10)));
        check_parsed(&["respond-async;foo=bar;wait=3", "wait=\"7\""], (true, Some(7)));
        check_parsed(&["return=minimal, foo=\"respond-async, wait=5\""], (false, None));
        check_parsed(&["foo=\"a\\\", respond-async\", wait=0"], (false, Some(0)));
        check_parsed(&["respond-async=\"\""], (true, None));
        // The first of a name counts.
        check_parsed(&["wait=1, wait=2", "wait=3"], (false, Some(1)));
        check_parsed(&["wait=99999999999999999999999"], (false, Some(60)));
    }

    #[test]
    fn malformed_preferences_are_ignored() {
        for value in ["wait=", "wait", "wait=-1", "wait=+1", "wait=1.5", "wait=ten", "wait=\"1", "wait=x, wait=2"] {
            assert_eq!(parse(&[value, "respond-async"]), (true, None), "{value}");
        }
        for value in ["respond-async=no", "respond", "respond-async wait=1", ",,;=", "\"respond-async\"", ""] {
            assert_eq!(parse(&[value]), (false, None), "{value}");
        }
    }

    fn header_of(preferences: Preferences) -> Option<String> {
        preferences.to_header().map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn applied_preferences_are_listed() {
        let wait = Some(Duration::from_secs(60));
        assert_eq!(header_of(Preferences::default()), None);
        assert_eq!(header_of(Preferences { respond_async: true, wait: None }).as_deref(), Some("respond-async"));
        assert_eq!(header_of(Preferences { respond_async: true, wait }).as_deref(), Some("respond-async, wait=60"));
    }
}
