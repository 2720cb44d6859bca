//! Limits of a session, its usage, and the check of one against the other.
//!
//! Nothing here measures: time, tokens and fuel are arguments.

use std::fmt;
use std::time::Duration;

use fumehood_core::chat::Usage;
use fumehood_core::time::Timestamp;
use serde::{Deserialize, Serialize};

pub use crate::allowance::TenantFuel;

/// Limits of a session. `None` is no limit.
///
/// Limits on turns, calls, streaming time and wall time apply to each user message, so that the length of a
/// conversation is not limited by them; `calls_in_all`, tokens and fuel apply to the whole session.
///
/// ```
/// use fumehood_agent::budget::{Budget, BudgetKind, BudgetUsage};
/// use fumehood_core::time::Timestamp;
///
/// let budget = Budget { turns: 3, fuel: Some(5_000_000_000), ..Budget::default() };
/// let spent = BudgetUsage { turns: 3, ..BudgetUsage::default() };
/// assert_eq!(budget.check_request(&spent, Timestamp(0)), Some(BudgetKind::Turns));
/// assert_eq!(budget.remaining_calls(&spent), 25);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Maximum number of requests to the model for one user message, including a retry without tools. Default: 8.
    pub turns: u32,
    /// Maximum number of tool calls for one user message, including rejected ones. Default: 25.
    pub calls: u32,
    /// Maximum number of tool calls of the session, including rejected ones. Default: 40.
    pub calls_in_all: Option<u64>,
    /// Maximum wall time for one user message, everything included. Default: 10 minutes.
    pub wall_time: Option<Duration>,
    /// Maximum time in which the model streams for one user message, from the first chunk of each answer on. Neither
    /// the time before it nor time spent in tools is counted. Default: 1 minute.
    pub stream_time: Option<Duration>,
    /// Maximum number of tokens of requests. Known only after a request is answered, so the last one may exceed it.
    /// Default: 150,000.
    pub tokens_in: Option<u64>,
    /// Maximum number of tokens of answers. Known only after a request is answered, so the last one may exceed it.
    /// Default: 20,000.
    pub tokens_out: Option<u64>,
    /// Maximum fuel of all tools. Known only after a batch ended, so the last one may exceed it. Default: no limit.
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

/// The kind of a limit.
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
    /// [`TenantFuel`], which all sessions of a tenant share.
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

/// The usage of a session so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BudgetUsage {
    /// Requests for the current user message.
    pub turns: u32,
    /// Additional requests that a person allowed for the message.
    pub granted_turns: u32,
    /// Tool calls for the message.
    pub calls: u32,
    /// The time at which the message was received.
    pub since: Timestamp,
    /// The time in which the model streamed for the message.
    pub streamed: Duration,
    /// The time that tools took for the message.
    pub blocked: Duration,
    /// Tool calls of the session.
    pub calls_in_all: u64,
    /// Tokens of the session.
    pub usage: Usage,
    /// Fuel of the session.
    pub fuel: u64,
}

impl BudgetUsage {
    /// Starts a new user message. Usage of the whole session is kept.
    pub fn begin(&mut self, now: Timestamp) {
        let calls_in_all = self.calls_in_all;
        let usage = self.usage;
        let fuel = self.fuel;
        *self = Self { since: now, calls_in_all, usage, fuel, ..Self::default() };
    }

    /// Counts tool calls.
    pub fn count_calls(&mut self, calls: u32) {
        self.calls = self.calls.saturating_add(calls);
        self.calls_in_all = self.calls_in_all.saturating_add(calls.into());
    }
}

impl Budget {
    /// Returns the limit that forbids one more request, if there is one.
    #[must_use]
    pub fn check_request(&self, spent: &BudgetUsage, now: Timestamp) -> Option<BudgetKind> {
        if spent.turns >= self.turns.saturating_add(spent.granted_turns) {
            return Some(BudgetKind::Turns);
        }
        [
            (self.tokens_in.is_some_and(|limit| spent.usage.input >= limit), BudgetKind::TokensIn),
            (self.tokens_out.is_some_and(|limit| spent.usage.output >= limit), BudgetKind::TokensOut),
            (self.wall_time.is_some_and(|limit| now.since(spent.since) >= limit), BudgetKind::WallTime),
            (self.stream_time.is_some_and(|limit| spent.streamed >= limit), BudgetKind::StreamTime),
        ]
        .into_iter()
        .find_map(|(over, kind)| over.then_some(kind))
    }

    /// Returns the limit that forbids one more tool call, if there is one.
    #[must_use]
    pub fn check_call(&self, spent: &BudgetUsage, now: Timestamp) -> Option<BudgetKind> {
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

    /// Returns the number of tool calls that may follow; [`u64::MAX`] if there is no limit.
    #[must_use]
    pub fn remaining_calls(&self, spent: &BudgetUsage) -> u64 {
        let for_message = u64::from(self.calls.saturating_sub(spent.calls));
        let in_all = self.calls_in_all.map_or(u64::MAX, |limit| limit.saturating_sub(spent.calls_in_all));
        for_message.min(in_all)
    }

    /// Returns the remaining fuel; [`u64::MAX`] if there is no limit.
    #[must_use]
    pub fn remaining_fuel(&self, spent: &BudgetUsage) -> u64 {
        self.fuel.map_or(u64::MAX, |limit| limit.saturating_sub(spent.fuel))
    }

    /// Returns the remaining tokens of answers; `None` if there is no limit.
    #[must_use]
    pub fn remaining_answer_tokens(&self, spent: &BudgetUsage) -> Option<u32> {
        let left = self.tokens_out?.saturating_sub(spent.usage.output);
        Some(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Returns the remaining streaming time; `None` if there is no limit.
    #[must_use]
    pub fn remaining_stream_time(&self, spent: &BudgetUsage) -> Option<Duration> {
        Some(self.stream_time?.saturating_sub(spent.streamed))
    }

    /// Returns the remaining wall time for the current message; `None` if there is no limit.
    #[must_use]
    pub fn remaining_wall_time(&self, spent: &BudgetUsage, now: Timestamp) -> Option<Duration> {
        Some(self.wall_time?.saturating_sub(now.since(spent.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    #[test]
    fn every_limit_has_its_edge() {
        fn check(change: &dyn Fn(&mut BudgetUsage), request: Option<BudgetKind>, call: Option<BudgetKind>) {
            let budget = Budget { fuel: Some(100), ..Budget::default() };
            let mut spent = BudgetUsage { since: NOW, ..BudgetUsage::default() };
            change(&mut spent);
            assert_eq!((budget.check_request(&spent, NOW), budget.check_call(&spent, NOW)), (request, call));
        }

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
}
