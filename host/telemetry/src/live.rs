//! The running calls as clients get them, and the outcomes of the last minute.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use fumehood_listener::{CallPhase as Phase, RunningCall};
use serde::{Deserialize, Serialize};

/// Seconds of outcomes that are kept.
const WINDOW_SECONDS: u64 = 60;
/// Maximum number of calls in a snapshot, the oldest first.
pub(crate) const MAX_LISTED_CALLS: usize = 1_000;

/// The state of all calls at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSnapshot {
    /// The calls that run or wait, the oldest first; 1,000 at most.
    pub calls: Vec<LiveCall>,
    /// Number of calls that have a place.
    pub running: usize,
    /// Number of calls that wait for a place.
    pub waiting: usize,
    /// Numbers of calls that ended in the last minute, by outcome: `ok` or the kind of the failure.
    pub outcomes: BTreeMap<String, u64>,
}

/// One call that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCall {
    /// The id of the call.
    pub id: String,
    /// The full name of the tool.
    pub tool: String,
    /// The name of the tenant that makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The actor on whose behalf it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Its phase.
    pub phase: CallPhase,
    /// Milliseconds since it got its place, or since it came while it waits for one.
    pub elapsed_ms: u64,
    /// Its deadline in milliseconds, from the moment at which it got its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// Fuel that it used so far, if its sandbox reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Peak size of its memories and tables so far, in bytes, if its sandbox reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_memory: Option<u64>,
}

/// The phase of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallPhase {
    /// It waits for a place.
    Waiting,
    /// It has a place.
    Running,
}

impl From<RunningCall> for LiveCall {
    fn from(call: RunningCall) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            id: call.id,
            tool: call.tool.to_string(),
            tenant: call.tenant.as_deref().map(str::to_owned),
            actor: call.actor.as_ref().map(ToString::to_string),
            phase: match call.phase {
                Phase::Waiting => CallPhase::Waiting,
                Phase::Running => CallPhase::Running,
            },
            elapsed_ms: millis(call.elapsed),
            deadline_ms: call.deadline.map(millis),
            fuel: call.fuel,
            peak_memory: call.peak_memory,
        }
    }
}

/// The outcomes of the last minute, by second, the oldest first.
pub(crate) struct RecentOutcomes {
    epoch: Instant,
    seconds: Mutex<Seconds>,
}

#[derive(Default)]
struct Seconds(VecDeque<(u64, BTreeMap<&'static str, u64>)>);

impl Default for RecentOutcomes {
    fn default() -> Self {
        Self { epoch: Instant::now(), seconds: Mutex::default() }
    }
}

impl RecentOutcomes {
    /// Counts a call that has ended.
    pub(crate) fn add(&self, outcome: &'static str) {
        // No code that holds the lock can panic half-way.
        self.seconds.lock().unwrap_or_else(PoisonError::into_inner).add(self.epoch.elapsed().as_secs(), outcome);
    }

    /// Returns the numbers of calls by outcome.
    pub(crate) fn totals(&self) -> BTreeMap<String, u64> {
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds.prune(self.epoch.elapsed().as_secs());
        let mut totals = BTreeMap::new();
        for (outcome, count) in seconds.0.iter().flat_map(|(_, counts)| counts) {
            *totals.entry((*outcome).to_owned()).or_default() += count;
        }
        totals
    }
}

impl Seconds {
    fn add(&mut self, second: u64, outcome: &'static str) {
        self.prune(second);
        match self.0.back_mut().filter(|(last, _)| *last == second) {
            Some((_, counts)) => *counts.entry(outcome).or_default() += 1,
            None => self.0.push_back((second, BTreeMap::from([(outcome, 1)]))),
        }
    }

    fn prune(&mut self, now: u64) {
        while self.0.front().is_some_and(|(second, _)| second.saturating_add(WINDOW_SECONDS) <= now) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_earlier_minutes_are_forgotten() {
        let outcomes = RecentOutcomes::default();
        outcomes.add("ok");
        outcomes.add("ok");
        assert_eq!(outcomes.totals(), BTreeMap::from([("ok".to_owned(), 2)]));
        let mut seconds = Seconds::default();
        (0..=60).for_each(|second| seconds.add(second, "ok"));
        assert_eq!(seconds.0.len(), 60);
    }
}
