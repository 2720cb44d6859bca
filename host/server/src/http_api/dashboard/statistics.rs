//! Statistics of the calls since the start of the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::time::Timestamp;
use fumehood_core::tool::name::MAX_FULL_NAME_BYTES;

use crate::{CallSink, EndedCall, now};

/// Maximum number of calls of which the durations are kept.
const MAX_FINISHED: usize = 4096;
/// Number of points of a series over time.
pub(crate) const SERIES_POINTS: usize = 40;

/// A call that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FinishedCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    /// `ok`, or the kind of its failure.
    pub(crate) outcome: &'static str,
    pub(crate) at: Timestamp,
    /// The time from the request until the result, with the wait for a place.
    pub(crate) elapsed: Duration,
    pub(crate) fuel: u64,
    pub(crate) memory: usize,
}

/// The statistics since the start of a server, which its running calls keep up to date.
pub(crate) struct ServerStatistics {
    started: Instant,
    calls: Mutex<Statistics>,
}

impl Default for ServerStatistics {
    fn default() -> Self {
        Self { started: Instant::now(), calls: Mutex::default() }
    }
}

impl ServerStatistics {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Statistics> {
        // No code that holds the lock can panic half-way.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time since the server started.
    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}

impl CallSink for ServerStatistics {
    fn record(&self, call: &EndedCall<'_>) {
        let finished = FinishedCall::new(call, now());
        self.lock().add(finished);
    }
}

/// The calls that have ended: counts of all, and the newest of them.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    outcomes: BTreeMap<&'static str, u64>,
    finished: VecDeque<FinishedCall>,
}

/// One point of a series: the time of its end, the number of calls, and their median and 99th percentile in
/// milliseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SeriesPoint {
    pub(crate) at: Timestamp,
    pub(crate) calls: usize,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl FinishedCall {
    fn new(call: &EndedCall<'_>, at: Timestamp) -> Self {
        let EndedCall { execution, elapsed, result, .. } = call;
        Self {
            id: (*execution).to_owned(),
            tool: truncate_str(&result.tool, MAX_FULL_NAME_BYTES).to_owned(),
            outcome: result.error().map_or("ok", |error| error.kind.as_str()),
            at,
            elapsed: *elapsed,
            fuel: result.metadata.fuel_used,
            memory: result.metadata.peak_memory,
        }
    }
}

impl Statistics {
    pub(crate) fn add(&mut self, call: FinishedCall) {
        let count = self.outcomes.entry(call.outcome).or_default();
        *count = count.saturating_add(1);
        if self.finished.len() >= MAX_FINISHED {
            self.finished.pop_front();
        }
        self.finished.push_back(call);
    }

    /// Returns the numbers of calls by outcome, the most frequent first.
    pub(crate) fn outcomes(&self) -> Vec<(&'static str, u64)> {
        let mut outcomes: Vec<_> = self.outcomes.iter().map(|(name, count)| (*name, *count)).collect();
        outcomes.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        outcomes
    }

    /// Returns the newest calls, the newest first.
    pub(crate) fn newest(&self) -> impl Iterator<Item = &FinishedCall> {
        self.finished.iter().rev()
    }

    /// Returns the median and the 99th percentile of the kept calls, in milliseconds, if there are any.
    pub(crate) fn percentiles(&self) -> Option<(f64, f64)> {
        let durations: Vec<Duration> = self.finished.iter().map(|call| call.elapsed).collect();
        (!durations.is_empty()).then(|| percentiles(durations))
    }

    /// Returns the kept calls as a series of equal intervals until `now`; intervals without calls are left out.
    pub(crate) fn series(&self, now: Timestamp) -> Vec<SeriesPoint> {
        let Some(first) = self.finished.iter().map(|call| call.at.0).min() else { return Vec::new() };
        let step = (now.0.saturating_sub(first) / SERIES_POINTS as u64).max(1000);
        let mut buckets: BTreeMap<u64, Vec<Duration>> = BTreeMap::new();
        for call in &self.finished {
            buckets.entry(call.at.0.saturating_sub(first) / step).or_default().push(call.elapsed);
        }
        let points = buckets.into_iter().map(|(number, durations)| {
            let at = Timestamp(first.saturating_add(number.saturating_add(1).saturating_mul(step)));
            let calls = durations.len();
            let (p50_ms, p99_ms) = percentiles(durations);
            SeriesPoint { at, calls, p50_ms, p99_ms }
        });
        points.collect()
    }
}

fn percentile_ms(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// Returns the median and the 99th percentile, in milliseconds; zero of nothing.
fn percentiles(mut durations: Vec<Duration>) -> (f64, f64) {
    durations.sort_unstable();
    (percentile_ms(&durations, 50), percentile_ms(&durations, 99))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(at: u64, millis: u64, outcome: &'static str) -> FinishedCall {
        let elapsed = Duration::from_millis(millis);
        let id = String::new();
        let tool = String::new();
        FinishedCall { id, tool, outcome, at: Timestamp(at), elapsed, fuel: 0, memory: 0 }
    }

    #[test]
    fn percentiles_are_ranks_of_the_kept_calls() {
        let mut statistics = Statistics::default();
        assert_eq!(statistics.percentiles(), None);
        (1..=100).for_each(|millis| statistics.add(call(0, millis, "ok")));
        assert_eq!(statistics.percentiles(), Some((50.0, 99.0)));
        (0..MAX_FINISHED).for_each(|_| statistics.add(call(0, 7, "deadline")));
        assert_eq!(statistics.percentiles(), Some((7.0, 7.0)));
        assert_eq!(statistics.outcomes(), [("deadline", MAX_FINISHED as u64), ("ok", 100)]);
    }

    #[test]
    fn a_series_leaves_out_intervals_without_calls() {
        let mut statistics = Statistics::default();
        assert!(statistics.series(Timestamp(5)).is_empty());
        statistics.add(call(0, 1, "ok"));
        statistics.add(call(10, 3, "ok"));
        statistics.add(call(40_000, 9, "ok"));
        let series = statistics.series(Timestamp(40_000));
        assert_eq!(series.iter().map(|point| point.calls).collect::<Vec<_>>(), [2, 1]);
        assert_eq!((series[0].p50_ms, series[0].p99_ms, series[1].p50_ms), (1.0, 3.0, 9.0));
    }
}
