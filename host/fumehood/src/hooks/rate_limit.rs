//! A hook that limits the rate of calls.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::policy::call::{Decision, Policy, Ruling};
use fumehood_core::tool::{Tool, ValidatedCall};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use super::tool_patterns::ToolPatterns;

/// Number of actors with a state above which those are removed that have not called for so long that it does not matter.
const MAX_KEPT_ACTORS: usize = 10_000;

/// A hook that refuses the calls of an actor beyond a rate, counted exactly and in memory.
///
/// Every actor has a budget of its own for all matching tools together; guests share one. The budget is full at first and
/// is refilled continuously (the generic cell rate algorithm).
///
/// ```
/// use std::num::NonZeroU32;
///
/// use fumehood::hooks::{RateLimit, ToolPatterns};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sixty = NonZeroU32::new(60).ok_or("it is not zero")?;
/// let web = ToolPatterns::new(["web__*"])?;
/// // The calls of all other actors are not counted.
/// let _limit = RateLimit::per_minute("searches", web, sixty).actor(Some("ann".into()));
/// # Ok(())
/// # }
/// ```
pub struct RateLimit {
    name: String,
    tools: ToolPatterns,
    counter: Counter<DefaultClock>,
}

/// A limiter with a budget for each actor.
type ActorLimiter<C> = RateLimiter<Actor, HashMapStateStore<Actor>, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// `None` for guests.
type Actor = Option<Arc<str>>;

/// The calls of each actor.
struct Counter<C: Clock> {
    /// The only actor whose calls are counted; `None` counts those of all.
    actor: Option<Arc<str>>,
    per_minute: NonZeroU32,
    limiter: ActorLimiter<C>,
    clock: C,
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RateLimit {
    /// Creates a limit on calls of these tools.
    #[must_use]
    pub fn per_minute(name: impl Into<String>, tools: ToolPatterns, calls: NonZeroU32) -> Self {
        Self { name: name.into(), tools, counter: Counter::new(calls, DefaultClock::default()) }
    }

    /// Limits only calls of this actor; `None` limits those of every actor.
    #[must_use]
    pub fn actor(mut self, actor: Option<Arc<str>>) -> Self {
        self.counter.actor = actor;
        self
    }
}

impl<C: Clock + Clone> Counter<C> {
    fn new(per_minute: NonZeroU32, clock: C) -> Self {
        let limiter = RateLimiter::new(Quota::per_minute(per_minute), HashMapStateStore::default(), clock.clone());
        Self { actor: None, per_minute, limiter, clock }
    }

    /// Counts a call.
    fn decide(&self, context: &CallContext) -> Decision<Arguments> {
        if self.actor.is_some() && self.actor != context.actor {
            return Decision::Allow;
        }
        if self.limiter.len() > MAX_KEPT_ACTORS {
            self.limiter.retain_recent();
        }
        match self.limiter.check_key(&context.actor) {
            Ok(()) => Decision::Allow,
            Err(refused) => {
                let wait = refused.wait_time_from(self.clock.now());
                let message = format!("more than {} calls per minute", self.per_minute);
                let error = CallError::new(ErrorKind::Quota, message);
                Decision::Deny { error: error.with_hint("call again later").with_retry_after(wait) }
            }
        }
    }
}

impl Policy for RateLimit {
    fn name(&self) -> &str {
        &self.name
    }

    fn applies_to(&self, tool: &Tool) -> bool {
        self.tools.matches(tool.full_name())
    }

    fn before<'a>(
        &'a self,
        _: &'a ValidatedCall,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<Ruling, CallError>> {
        Box::pin(std::future::ready(Ok(self.counter.decide(context).into())))
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

    fn limit(per_minute: u32) -> Counter<FakeRelativeClock> {
        Counter::new(NonZeroU32::new(per_minute).unwrap(), FakeRelativeClock::default())
    }

    fn is_allowed(limit: &Counter<FakeRelativeClock>, actor: Option<&str>) -> bool {
        limit.decide(&of(actor)) == Decision::Allow
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
        let Decision::Deny { error } = limit.decide(&of(None)) else { panic!("it is allowed") };
        assert_eq!((error.kind, error.retry_after), (ErrorKind::Quota, Some(Duration::from_secs(40))));
    }

    #[test]
    fn limits_only_the_named_actor() {
        let limit = Counter { actor: Some("eve".into()), ..limit(1) };
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
