//! The running calls as clients get them, and the outcomes of the last minute.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fumehood_server::{CallPhase as Phase, RunningCall};
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
    /// Numbers of calls that ended in the last minute, by outcome: `ok` or the kind of the failure. Like the other numbers, those
    /// of the tenant that asks, unless it may read those of all.
    pub outcomes: BTreeMap<String, u64>,
}

/// One call that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveCall {
    /// The id that no other call has, also in the event log.
    pub id: String,
    /// The id that a client or a model chose for it, if it is another one. Several calls may have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_call: Option<String>,
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
        Self {
            id: call.id,
            model_call: call.model_call.as_ref().map(ToString::to_string),
            tool: call.tool.to_string(),
            tenant: call.tenant.as_deref().map(str::to_owned),
            actor: call.actor.as_ref().map(ToString::to_string),
            phase: match call.phase {
                Phase::Waiting => CallPhase::Waiting,
                Phase::Running => CallPhase::Running,
            },
            elapsed_ms: as_millis(call.elapsed),
            deadline_ms: call.deadline.map(as_millis),
            fuel: call.fuel,
            peak_memory: call.peak_memory,
        }
    }
}

fn as_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The outcomes of the last minute, by second, the oldest first.
pub(crate) struct RecentOutcomes {
    epoch: Instant,
    seconds: Mutex<Seconds>,
}

#[derive(Default)]
struct Seconds(VecDeque<(u64, Counts)>);

/// Numbers of calls, by outcome and by the name of their tenant.
type Counts = BTreeMap<&'static str, Vec<(Option<Arc<str>>, u64)>>;

impl Default for RecentOutcomes {
    fn default() -> Self {
        Self { epoch: Instant::now(), seconds: Mutex::default() }
    }
}

impl RecentOutcomes {
    /// Counts a call of a tenant that has ended.
    pub(crate) fn add(&self, outcome: &'static str, tenant: Option<&Arc<str>>) {
        // No code that holds the lock can panic half-way.
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds.add(self.epoch.elapsed().as_secs(), outcome, tenant);
    }

    /// Returns the numbers of calls by outcome: those of a tenant, or of all.
    pub(crate) fn totals(&self, only: Option<&str>) -> BTreeMap<String, u64> {
        let mut seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds.prune(self.epoch.elapsed().as_secs());
        let mut totals = BTreeMap::new();
        for (outcome, counts) in seconds.0.iter().flat_map(|(_, counts)| counts) {
            let counted = counts.iter().filter(|(tenant, _)| only.is_none() || tenant.as_deref() == only);
            let count = counted.map(|(_, count)| count).sum::<u64>();
            if count > 0 {
                *totals.entry((*outcome).to_owned()).or_default() += count;
            }
        }
        totals
    }
}

impl Seconds {
    fn add(&mut self, second: u64, outcome: &'static str, tenant: Option<&Arc<str>>) {
        self.prune(second);
        if self.0.back().is_none_or(|(last, _)| *last != second) {
            self.0.push_back((second, Counts::new()));
        }
        let Some((_, counts)) = self.0.back_mut() else { return };
        let counts = counts.entry(outcome).or_default();
        match counts.iter_mut().find(|(other, _)| other.as_ref() == tenant) {
            Some((_, count)) => *count += 1,
            None => counts.push((tenant.cloned(), 1)),
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
        outcomes.add("ok", None);
        outcomes.add("ok", None);
        assert_eq!(outcomes.totals(None), BTreeMap::from([("ok".to_owned(), 2)]));
        let mut seconds = Seconds::default();
        (0..=60).for_each(|second| seconds.add(second, "ok", None));
        assert_eq!(seconds.0.len(), 60);
    }

    #[test]
    fn outcomes_of_others_are_left_out() {
        let outcomes = RecentOutcomes::default();
        let one = Arc::from("one");
        let two = Arc::from("two");
        outcomes.add("ok", Some(&one));
        outcomes.add("ok", Some(&two));
        outcomes.add("trap", Some(&two));
        assert_eq!(outcomes.totals(Some("one")), BTreeMap::from([("ok".to_owned(), 1)]));
        assert_eq!(outcomes.totals(None), BTreeMap::from([("ok".to_owned(), 2), ("trap".to_owned(), 1)]));
        assert!(outcomes.totals(Some("three")).is_empty());
    }
}
