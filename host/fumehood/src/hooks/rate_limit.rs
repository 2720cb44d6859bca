//! A hook that limits the rate of calls.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::CallContext;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::hook::{BeforeDecision, CallHook};
use fumehood_core::tool::ValidatedCall;
use governor::clock::{Clock, DefaultClock};
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::tool_patterns::ToolPatterns;

/// Number of actors with a state above which those are removed that have not called for so long that it does not matter.
const MAX_KEPT_ACTORS: usize = 10_000;

/// A hook that refuses the calls of an actor beyond a rate, counted exactly and in memory.
///
/// Every actor has a budget of its own for all matching tools together; guests share one. The budget is full at first and
/// is refilled continuously (the generic cell rate algorithm).
pub struct RateLimit<C: Clock = DefaultClock> {
    name: String,
    tools: ToolPatterns,
    actor: Option<Arc<str>>,
    per_minute: NonZeroU32,
    limiter: RateLimiter<Option<Arc<str>>, HashMapStateStore<Option<Arc<str>>>, C>,
    clock: C,
}

impl<C: Clock> fmt::Debug for RateLimit<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit")
            .field("name", &self.name)
            .field("per_minute", &self.per_minute)
            .finish_non_exhaustive()
    }
}

impl RateLimit {
    /// Creates a limit on calls of these tools.
    #[must_use]
    pub fn per_minute(name: impl Into<String>, tools: ToolPatterns, calls: NonZeroU32) -> Self {
        Self::with_clock(name, tools, calls, DefaultClock::default())
    }
}

impl<C: Clock> RateLimit<C> {
    /// Creates a limit that reads this clock.
    fn with_clock(name: impl Into<String>, tools: ToolPatterns, calls: NonZeroU32, clock: C) -> Self {
        let limiter = RateLimiter::new(Quota::per_minute(calls), HashMapStateStore::default(), clock.clone());
        Self { name: name.into(), tools, actor: None, per_minute: calls, limiter, clock }
    }

    /// Limits only calls of this actor.
    #[must_use]
    pub fn actor(mut self, actor: Option<Arc<str>>) -> Self {
        self.actor = actor;
        self
    }

    /// Counts a call.
    fn decide(&self, context: &CallContext) -> BeforeDecision {
        if self.actor.is_some() && self.actor != context.actor {
            return BeforeDecision::Allow;
        }
        if self.limiter.len() > MAX_KEPT_ACTORS {
            self.limiter.retain_recent();
        }
        match self.limiter.check_key(&context.actor) {
            Ok(()) => BeforeDecision::Allow,
            Err(refused) => {
                let wait = refused.wait_time_from(self.clock.now());
                let message = format!("more than {} calls in a minute", self.per_minute);
                let error = CallError::new(ErrorKind::Quota, message);
                BeforeDecision::Deny { error: error.with_hint("call again later").with_retry_after(wait) }
            }
        }
    }
}

impl<C: Clock + Send + Sync> CallHook for RateLimit<C>
where
    C::Instant: Send + Sync,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn applies_to(&self, tool: &str) -> bool {
        self.tools.matches(tool)
    }

    fn decides_on_results(&self) -> bool {
        false
    }

    fn before<'a>(
        &'a self,
        _: &'a ValidatedCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<BeforeDecision, CallError>> {
        Box::pin(std::future::ready(Ok(self.decide(context))))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;

    use super::*;

    fn of(actor: Option<&str>) -> CallContext {
        CallContext { actor: actor.map(Arc::from), ..CallContext::default() }
    }

    fn limit(per_minute: u32) -> RateLimit<FakeRelativeClock> {
        let calls = NonZeroU32::new(per_minute).unwrap();
        RateLimit::with_clock("limit", ToolPatterns::default(), calls, FakeRelativeClock::default())
    }

    fn is_allowed(limit: &RateLimit<FakeRelativeClock>, actor: Option<&str>) -> bool {
        limit.decide(&of(actor)) == BeforeDecision::Allow
    }

    #[test]
    fn counts_each_actor_and_refills() {
        let limit = limit(2);
        for actor in [Some("ada"), Some("eve"), None] {
            assert_eq!([(); 3].map(|()| is_allowed(&limit, actor)), [true, true, false], "{actor:?}");
        }
        limit.clock.advance(Duration::from_secs(30));
        assert_eq!([(); 2].map(|()| is_allowed(&limit, Some("ada"))), [true, false]);
    }

    #[test]
    fn says_when_to_call_again() {
        let limit = limit(1);
        assert!(is_allowed(&limit, None));
        limit.clock.advance(Duration::from_secs(20));
        let BeforeDecision::Deny { error } = limit.decide(&of(None)) else { panic!("it is allowed") };
        assert_eq!((error.kind, error.retry_after), (ErrorKind::Quota, Some(Duration::from_secs(40))));
    }

    #[test]
    fn limits_only_the_named_actor() {
        let limit = limit(1).actor(Some("eve".into()));
        assert_eq!([(); 3].map(|()| is_allowed(&limit, Some("ada"))), [true; 3]);
        assert_eq!([(); 2].map(|()| is_allowed(&limit, Some("eve"))), [true, false]);
    }

    #[test]
    fn forgets_actors_that_have_not_called_for_long() {
        let limit = limit(1);
        for number in 0..=MAX_KEPT_ACTORS {
            assert!(is_allowed(&limit, Some(&number.to_string())));
        }
        limit.clock.advance(Duration::from_secs(120));
        assert!(is_allowed(&limit, Some("another")));
        assert!(limit.limiter.len() <= 1);
    }
}
