//! How much a session may use, how much it has used, and which limit stands in the way of more.
//!
//! Nothing here measures: time, tokens and fuel arrive as numbers that somebody else read.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fumehood_core::chat::Usage;
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Limits. `None` is no limit.
///
/// Those on turns, calls, time spent streaming and wall time begin anew with each user message, so that a long
/// conversation does not die of its length; `calls_in_all`, tokens and fuel are for the whole session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Most requests to the model for one user message. The one that tries again without tools counts.
    pub turns: u32,
    /// Most tool calls for one user message, rejected ones included: enough for some batches.
    pub calls: u32,
    /// Most tool calls of the session, rejected ones included.
    pub calls_in_all: Option<u64>,
    /// Longest time for one user message, everything included.
    pub wall_time: Option<Duration>,
    /// Longest time that the model may spend writing for one user message, from the first piece of each answer on. Neither the
    /// time before that nor that spent in tools is counted.
    pub stream_time: Option<Duration>,
    /// Most tokens of requests. Known only once a request was answered, so the last one may go over.
    pub tokens_in: Option<u64>,
    /// Most tokens of answers. Known only once a request was answered, so the last one may go over.
    pub tokens_out: Option<u64>,
    /// Most fuel of all tools. Known only once a batch has ended, so the last one may go over.
    pub fuel: Option<u64>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            turns: 8,
            calls: 25,
            calls_in_all: Some(40),
            wall_time: Some(Duration::from_secs(600)),
            stream_time: Some(Duration::from_secs(60)),
            tokens_in: Some(150_000),
            tokens_out: Some(20_000),
            fuel: None,
        }
    }
}

/// Which limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// [`Budget::turns`].
    Turns,
    /// [`Budget::calls`].
    Calls,
    /// [`Budget::calls_in_all`].
    CallsInAll,
    /// [`Budget::wall_time`].
    WallTime,
    /// [`Budget::stream_time`].
    StreamTime,
    /// [`Budget::tokens_in`].
    TokensIn,
    /// [`Budget::tokens_out`].
    TokensOut,
    /// [`Budget::fuel`].
    Fuel,
    /// The fuel that all sessions of a tenant share: [`TenantFuel`].
    TenantFuel,
}

impl fmt::Display for BudgetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Turns => "requests to the model for one message",
            Self::Calls => "tool calls for one message",
            Self::CallsInAll => "tool calls of the session",
            Self::WallTime => "time for one message",
            Self::StreamTime => "time for the model to write",
            Self::TokensIn => "tokens of requests",
            Self::TokensOut => "tokens of answers",
            Self::Fuel => "fuel of the session",
            Self::TenantFuel => "fuel of the tenant",
        })
    }
}

/// What has been used so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Spent {
    /// Requests for this user message.
    pub turns: u32,
    /// Further requests that a person allowed for it.
    pub granted_turns: u32,
    /// Tool calls for it.
    pub calls: u32,
    /// When it was taken up.
    pub since: Timestamp,
    /// How long the model wrote for it.
    pub streamed: Duration,
    /// How long its tools took.
    pub blocked: Duration,
    /// Tool calls of the session.
    pub calls_in_all: u64,
    /// Tokens of the session.
    pub usage: Usage,
    /// Fuel of the session.
    pub fuel: u64,
}

impl Spent {
    /// Begins a new user message; what counts for the session stays.
    pub fn begin(&mut self, now: Timestamp) {
        let (calls_in_all, usage, fuel) = (self.calls_in_all, self.usage, self.fuel);
        *self = Self { since: now, calls_in_all, usage, fuel, ..Self::default() };
    }

    /// Counts one tool call.
    pub fn call(&mut self) {
        self.calls = self.calls.saturating_add(1);
        self.calls_in_all = self.calls_in_all.saturating_add(1);
    }
}

impl Budget {
    /// The limit that forbids one more request, if one does.
    #[must_use]
    pub fn before_request(&self, spent: &Spent, now: Timestamp) -> Option<BudgetKind> {
        if spent.turns >= self.turns.saturating_add(spent.granted_turns) {
            return Some(BudgetKind::Turns);
        }
        let over = |limit: Option<u64>, used: u64| limit.is_some_and(|limit| used >= limit);
        [
            (over(self.tokens_in, spent.usage.input), BudgetKind::TokensIn),
            (over(self.tokens_out, spent.usage.output), BudgetKind::TokensOut),
            (self.wall_time.is_some_and(|limit| now.since(spent.since) >= limit), BudgetKind::WallTime),
            (self.stream_time.is_some_and(|limit| spent.streamed >= limit), BudgetKind::StreamTime),
        ]
        .into_iter()
        .find_map(|(over, kind)| over.then_some(kind))
    }

    /// The limit that forbids one more tool call, if one does.
    #[must_use]
    pub fn before_call(&self, spent: &Spent, now: Timestamp) -> Option<BudgetKind> {
        if self.wall_time.is_some_and(|limit| now.since(spent.since) >= limit) {
            Some(BudgetKind::WallTime)
        } else if self.calls_in_all.is_some_and(|limit| spent.calls_in_all >= limit) {
            Some(BudgetKind::CallsInAll)
        } else if self.fuel.is_some_and(|limit| spent.fuel >= limit) {
            Some(BudgetKind::Fuel)
        } else if spent.calls >= self.calls {
            Some(BudgetKind::Calls)
        } else {
            None
        }
    }

    /// The tokens of answers that are left; `None`: there is no limit.
    #[must_use]
    pub fn answer_tokens(&self, spent: &Spent) -> Option<u32> {
        let left = self.tokens_out?.saturating_sub(spent.usage.output);
        Some(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// How long the model may still write.
    #[must_use]
    pub fn stream_left(&self, spent: &Spent) -> Option<Duration> {
        Some(self.stream_time?.saturating_sub(spent.streamed))
    }

    /// How long there is until the message must have been dealt with.
    #[must_use]
    pub fn wall_left(&self, spent: &Spent, now: Timestamp) -> Option<Duration> {
        Some(self.wall_time?.saturating_sub(now.since(spent.since)))
    }
}

/// Fuel that all sessions of one tenant share. Share it in an `Arc`; it is not part of any session.
#[derive(Debug)]
pub struct TenantFuel {
    left: AtomicU64,
}

impl TenantFuel {
    /// So much fuel.
    #[must_use]
    pub fn new(fuel: u64) -> Self {
        Self { left: AtomicU64::new(fuel) }
    }

    /// How much is left. At 0, no session of the tenant starts another call.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left.load(Ordering::Acquire)
    }

    /// Takes what a batch has used. Known only once it has ended, so that it may be more than there was.
    pub fn spend(&self, fuel: u64) {
        self.change(|left| left.saturating_sub(fuel));
    }

    /// Adds fuel, as when a new day begins.
    pub fn refill(&self, fuel: u64) {
        self.change(|left| left.saturating_add(fuel));
    }

    fn change(&self, to: impl Fn(u64) -> u64) {
        // The update never declines, so there is no failure to look at.
        let _ = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| Some(to(left)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn c28_every_limit_has_its_edge() {
        let check = |change: &dyn Fn(&mut Spent), request: Option<BudgetKind>, call: Option<BudgetKind>| {
            let budget = Budget { fuel: Some(100), ..Budget::default() };
            let mut spent = Spent { since: NOW, ..Spent::default() };
            change(&mut spent);
            assert_eq!((budget.before_request(&spent, NOW), budget.before_call(&spent, NOW)), (request, call));
        };
        check(&|_| {}, None, None);
        check(&|spent| spent.turns = 7, None, None);
        check(&|spent| spent.turns = 8, Some(BudgetKind::Turns), None);
        check(&|spent| (spent.turns, spent.granted_turns) = (8, 1), None, None);
        check(&|spent| spent.calls = 24, None, None);
        check(&|spent| spent.calls = 25, None, Some(BudgetKind::Calls));
        check(&|spent| spent.calls_in_all = 39, None, None);
        check(&|spent| spent.calls_in_all = 40, None, Some(BudgetKind::CallsInAll));
        check(&|spent| spent.since = Timestamp(NOW.0 - 599_999), None, None);
        let wall = Some(BudgetKind::WallTime);
        check(&|spent| spent.since = Timestamp(NOW.0 - 600_000), wall, wall);
        check(&|spent| spent.streamed = Duration::from_millis(59_999), None, None);
        check(&|spent| spent.streamed = Duration::from_secs(60), Some(BudgetKind::StreamTime), None);
        check(&|spent| spent.blocked = Duration::from_secs(500), None, None);
        check(&|spent| spent.usage.input = 150_000, Some(BudgetKind::TokensIn), None);
        check(&|spent| spent.usage.output = 20_000, Some(BudgetKind::TokensOut), None);
        check(&|spent| spent.fuel = 99, None, None);
        check(&|spent| spent.fuel = 100, None, Some(BudgetKind::Fuel));
    }

    #[test]
    fn c28_a_tenants_fuel_is_shared_and_never_less_than_nothing() {
        let fuel = TenantFuel::new(10);
        fuel.spend(4);
        assert_eq!(fuel.left(), 6);
        fuel.spend(7);
        assert_eq!(fuel.left(), 0);
        fuel.refill(u64::MAX);
        fuel.refill(1);
        assert_eq!(fuel.left(), u64::MAX);
    }
}
