//! The running calls, and the outcomes of the last minute.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::event::{Level, Progress};
use fumehood_core::call::result::RequestReport;
use fumehood_core::call::{CallContext, Observer, Usage};
use serde::{Deserialize, Serialize};

/// Seconds of outcomes that are kept.
const WINDOW_SECONDS: u64 = 60;
/// Maximum number of calls in a snapshot, the oldest first.
const MAX_LISTED_CALLS: usize = 1_000;

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
    /// The id of the call; empty if its host has not named it yet.
    pub id: String,
    /// The full name of the tool.
    pub tool: String,
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

/// The calls that have not ended, and counts of those that have.
#[derive(Default)]
pub(crate) struct Live {
    next: AtomicU64,
    calls: Mutex<BTreeMap<u64, Arc<Entry>>>,
    ended: Mutex<Ended>,
    epoch: OnceLock<Instant>,
}

/// Outcomes by second, the oldest first.
#[derive(Default)]
struct Ended(VecDeque<(u64, BTreeMap<&'static str, u64>)>);

struct Entry {
    id: String,
    tool: Arc<str>,
    actor: Option<Arc<str>>,
    began: Instant,
    admitted: OnceLock<(Instant, Duration)>,
    /// Fuel and peak memory plus one each; zero before the first report.
    fuel: AtomicU64,
    peak_memory: AtomicU64,
}

/// A call that has not ended. Dropping it removes it.
pub(crate) struct LiveGuard {
    live: Arc<Live>,
    number: u64,
}

impl Drop for LiveGuard {
    fn drop(&mut self) {
        lock(&self.live.calls).remove(&self.number);
    }
}

impl Live {
    /// Adds a call, and makes its observer report to this set, too.
    pub(crate) fn begin(self: &Arc<Self>, tool: &str, context: &mut CallContext) -> LiveGuard {
        let entry = Arc::new(Entry {
            id: context.id.clone(),
            tool: Arc::from(tool),
            actor: context.actor.clone(),
            began: Instant::now(),
            admitted: OnceLock::new(),
            fuel: AtomicU64::new(0),
            peak_memory: AtomicU64::new(0),
        });
        let also = context.observer.take();
        context.observer = Some(Arc::new(LiveObserver { entry: Arc::clone(&entry), also }));
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        lock(&self.calls).insert(number, entry);
        LiveGuard { live: Arc::clone(self), number }
    }

    /// Counts a call that has ended.
    pub(crate) fn record_outcome(&self, outcome: &'static str) {
        let second = self.second();
        let mut ended = lock(&self.ended);
        ended.prune(second);
        match ended.0.back_mut().filter(|(last, _)| *last == second) {
            Some((_, counts)) => *counts.entry(outcome).or_default() += 1,
            None => ended.0.push_back((second, BTreeMap::from([(outcome, 1)]))),
        }
    }

    /// Returns the numbers of calls that run and that wait.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let calls = lock(&self.calls);
        let running = calls.values().filter(|entry| entry.admitted.get().is_some()).count();
        (running, calls.len().saturating_sub(running))
    }

    /// Returns the state of the calls of an actor, or of all.
    pub(crate) fn snapshot(&self, only: Option<Option<&str>>) -> LiveSnapshot {
        let calls = lock(&self.calls);
        let is_listed = |entry: &&Arc<Entry>| only.is_none_or(|actor| entry.actor.as_deref() == actor);
        let listed: Vec<Arc<Entry>> = calls.values().filter(is_listed).take(MAX_LISTED_CALLS).cloned().collect();
        drop(calls);
        let (running, waiting) = self.counts();
        let mut outcomes = BTreeMap::new();
        let mut ended = lock(&self.ended);
        ended.prune(self.second());
        for (outcome, count) in ended.0.iter().flat_map(|(_, counts)| counts) {
            *outcomes.entry((*outcome).to_owned()).or_default() += count;
        }
        drop(ended);
        LiveSnapshot { calls: listed.iter().map(|entry| entry.to_call()).collect(), running, waiting, outcomes }
    }

    fn second(&self) -> u64 {
        self.epoch.get_or_init(Instant::now).elapsed().as_secs()
    }
}

impl Ended {
    fn prune(&mut self, now: u64) {
        while self.0.front().is_some_and(|(second, _)| second.saturating_add(WINDOW_SECONDS) <= now) {
            self.0.pop_front();
        }
    }
}

impl Entry {
    fn to_call(&self) -> LiveCall {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let reported = |value: &AtomicU64| value.load(Ordering::Relaxed).checked_sub(1);
        let admitted = self.admitted.get();
        LiveCall {
            id: self.id.clone(),
            tool: self.tool.to_string(),
            actor: self.actor.as_deref().map(str::to_owned),
            phase: if admitted.is_some() { CallPhase::Running } else { CallPhase::Waiting },
            elapsed_ms: millis(admitted.map_or(self.began, |(at, _)| *at).elapsed()),
            deadline_ms: admitted.map(|(_, deadline)| millis(*deadline)),
            fuel: reported(&self.fuel),
            peak_memory: reported(&self.peak_memory),
        }
    }
}

/// Reports the cost of a call to the set of running ones, and everything to another observer.
struct LiveObserver {
    entry: Arc<Entry>,
    also: Option<Arc<dyn Observer>>,
}

impl Observer for LiveObserver {
    fn log(&self, level: Level, message: &str) {
        self.also.iter().for_each(|also| also.log(level, message));
    }

    fn progress(&self, progress: Progress) {
        self.also.iter().for_each(|also| also.progress(progress.clone()));
    }

    fn request(&self, request: RequestReport) {
        self.also.iter().for_each(|also| also.request(request.clone()));
    }

    fn admitted(&self, deadline: Duration) {
        let _reported_before = self.entry.admitted.set((Instant::now(), deadline));
        self.also.iter().for_each(|also| also.admitted(deadline));
    }

    fn usage(&self, usage: Usage) {
        self.entry.fuel.store(usage.fuel.saturating_add(1), Ordering::Relaxed);
        let peak = u64::try_from(usage.peak_memory).unwrap_or(u64::MAX);
        self.entry.peak_memory.store(peak.saturating_add(1), Ordering::Relaxed);
        self.also.iter().for_each(|also| also.usage(usage));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code that holds a lock can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_wait_run_and_end() {
        let live = Arc::new(Live::default());
        let mut context = CallContext { id: "1".to_owned(), actor: Some(Arc::from("ann")), ..CallContext::default() };
        let guard = live.begin("a__b", &mut context);
        assert_eq!((live.counts(), live.snapshot(None).calls[0].phase), ((0, 1), CallPhase::Waiting));
        let observer = context.observer.unwrap();
        observer.admitted(Duration::from_secs(5));
        observer.usage(Usage { fuel: 7, peak_memory: 0 });
        let call = &live.snapshot(Some(Some("ann"))).calls[0];
        assert_eq!((call.phase, call.deadline_ms, call.fuel), (CallPhase::Running, Some(5_000), Some(7)));
        assert_eq!(call.peak_memory, Some(0));
        assert!(live.snapshot(Some(None)).calls.is_empty());
        drop(guard);
        live.record_outcome("ok");
        assert_eq!((live.counts(), live.snapshot(None).outcomes["ok"]), ((0, 0), 1));
    }

    #[test]
    fn outcomes_of_earlier_minutes_are_forgotten() {
        let mut ended = Ended(VecDeque::from([(0, BTreeMap::new()), (1, BTreeMap::new())]));
        ended.prune(60);
        assert_eq!(ended.0.len(), 1);
    }
}
