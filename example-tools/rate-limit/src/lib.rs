//! A hook that refuses the calls of an actor beyond a number in each minute.

use fumehood_guest::store;
use fumehood_guest_hooks::{BeforeDecision, Hook, ToolCall};

/// The environment variable with the number of calls in a minute.
const VARIABLE: &str = "PER_MINUTE";
/// The number of calls in a minute where the environment has none.
const DEFAULT_PER_MINUTE: u64 = 60;
const MINUTE_MS: u64 = 60_000;
/// Maximum length of an actor's name, in bytes: it is part of a key of the store.
const MAX_ACTOR_BYTES: usize = 200;

/// Counts the calls of each actor.
#[derive(Debug)]
pub struct RateLimit;

impl Hook for RateLimit {
    fn before(call: ToolCall) -> BeforeDecision {
        let written = std::env::var(VARIABLE).ok();
        let limit = match written.as_deref().map(str::parse::<u64>) {
            None => DEFAULT_PER_MINUTE,
            Some(Ok(limit)) => limit,
            Some(Err(_)) => {
                return BeforeDecision::Deny(format!("`{VARIABLE}` is not a number; an operator has to set it"));
            }
        };
        decide(&call, limit)
    }
}

fumehood_guest_hooks::export!(RateLimit);

/// Counts a call, and refuses it if it is one too many.
fn decide(call: &ToolCall, limit: u64) -> BeforeDecision {
    let key = match call.actor.as_deref() {
        Some(actor) if actor.len() > MAX_ACTOR_BYTES => {
            return BeforeDecision::Deny("the name of the actor is too long to count its calls".to_owned());
        }
        Some(actor) => format!("actor/{actor}"),
        None => "guests".to_owned(),
    };
    let minute = call.time_ms / MINUTE_MS;
    let failed = |error: store::StoreError| BeforeDecision::Deny(format!("calls cannot be counted: {error}"));
    let count = match store::get(&key) {
        Ok(before) => before.and_then(|before| count_in(minute, &before)).unwrap_or(0),
        Err(error) => return failed(error),
    };
    if count >= limit {
        let seconds = (MINUTE_MS - call.time_ms % MINUTE_MS).div_ceil(1000);
        return BeforeDecision::Deny(format!("{limit} calls in a minute are used up; call again in {seconds} s"));
    }
    match store::set(&key, format!("{minute} {}", count + 1)) {
        Ok(()) => BeforeDecision::Allow,
        Err(error) => failed(error),
    }
}

/// Returns the count that was stored, if it is of this minute.
fn count_in(minute: u64, stored: &[u8]) -> Option<u64> {
    let (stored_minute, count) = str::from_utf8(stored).ok()?.split_once(' ')?;
    (stored_minute.parse() == Ok(minute)).then(|| count.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(actor: Option<&str>, time_ms: u64) -> ToolCall {
        ToolCall { actor: actor.map(str::to_owned), time_ms, ..ToolCall::default() }
    }

    #[test]
    fn counts_the_calls_of_each_actor_in_each_minute() {
        let allows = |actor: Option<&str>, time_ms: u64| decide(&call(actor, time_ms), 2) == BeforeDecision::Allow;
        assert_eq!([(); 3].map(|()| allows(Some("ada"), 1_000)), [true, true, false]);
        assert_eq!([(); 3].map(|()| allows(Some("eve"), 1_000)), [true, true, false]);
        assert_eq!([(); 3].map(|()| allows(None, 1_000)), [true, true, false]);
        assert!(!allows(Some("ada"), 59_999));
        assert!(allows(Some("ada"), 60_000));
        let refused = decide(&call(Some("eve"), 30_500), 2);
        let expected = "2 calls in a minute are used up; call again in 30 s";
        assert_eq!(refused, BeforeDecision::Deny(expected.to_owned()));
    }

    #[test]
    fn refuses_calls_that_it_cannot_count() {
        let long = "a".repeat(MAX_ACTOR_BYTES + 1);
        assert!(matches!(decide(&call(Some(&long), 0), 9), BeforeDecision::Deny(_)));
        assert!(matches!(decide(&call(Some("a\n"), 0), 9), BeforeDecision::Deny(_)));
    }
}
