//! Runs of hostile tools against this host, and the reports of those that have ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use fumehood_listener::now;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::ports::ContainmentTest;

/// Maximum number of reports that are kept.
const MAX_RUNS: usize = 20;

/// The report of a run, as `fumehood selftest --json` writes it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Report {
    pub(crate) modes: Vec<ModeReport>,
}

/// The report of one mode of isolation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ModeReport {
    pub(crate) isolation: PrintableText,
    /// Layers of the jail that the kernel lacks.
    #[serde(default)]
    pub(crate) jail_lacks: PrintableText,
    pub(crate) cases: Vec<Finding>,
    pub(crate) summary: Summary,
}

/// One attack, and how it ended.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Finding {
    pub(crate) row: u32,
    pub(crate) what: PrintableText,
    pub(crate) attempts: u64,
    pub(crate) contained: bool,
    pub(crate) ended: PrintableText,
    /// Time that each attempt went on after its deadline, in milliseconds.
    #[serde(default)]
    pub(crate) overshoot_ms: Vec<f64>,
    #[serde(default)]
    pub(crate) peak_memory: u64,
}

/// The totals of a mode.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Summary {
    pub(crate) contained: u64,
    pub(crate) cases: u64,
    pub(crate) attempts: u64,
    pub(crate) overshoot_p99_ms: f64,
    pub(crate) overshoot_max_ms: f64,
    pub(crate) honest_calls: u64,
    pub(crate) honest_wrong: u64,
    pub(crate) honest_p99_ms: f64,
    #[serde(default)]
    pub(crate) wrong: Vec<PrintableText>,
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) number: u64,
    pub(crate) at: Timestamp,
    pub(crate) duration: Duration,
    /// The report, or why there is none.
    pub(crate) outcome: Result<Arc<Report>, String>,
}

/// The runs of a server: at most one at a time.
#[derive(Default)]
pub(crate) struct Runs(Mutex<State>);

#[derive(Default)]
struct State {
    running_since: Option<Instant>,
    next: u64,
    /// The newest first.
    ended: Vec<Run>,
}

impl Runs {
    /// Starts a run in the background, unless one is running.
    pub(crate) fn start(self: &Arc<Self>, test: &Arc<dyn ContainmentTest>, stopped: CancellationToken) {
        {
            let mut state = self.lock();
            if state.running_since.is_some() {
                return;
            }
            state.running_since = Some(Instant::now());
        }
        let (runs, run) = (Arc::clone(self), test.run());
        tokio::spawn(async move {
            let outcome = stopped.run_until_cancelled(run).await;
            let outcome = outcome.unwrap_or_else(|| Err(super::ports::PortError("the server ended".to_owned())));
            let parse = |text: String| {
                let report = serde_json::from_str(&text).map(Arc::new);
                report.map_err(|error| format!("the self-test wrote no report: {error}"))
            };
            runs.end(outcome.map_err(|error| error.0).and_then(parse));
        });
    }

    fn end(&self, outcome: Result<Arc<Report>, String>) {
        let mut state = self.lock();
        let duration = state.running_since.take().map(|since| since.elapsed()).unwrap_or_default();
        state.next = state.next.saturating_add(1);
        let run = Run { number: state.next, at: now(), duration, outcome };
        state.ended.insert(0, run);
        state.ended.truncate(MAX_RUNS);
    }

    /// Returns the time that the present run has taken, if there is one, and the runs before, the newest first.
    pub(crate) fn list(&self) -> (Option<Duration>, Vec<Run>) {
        let state = self.lock();
        (state.running_since.map(|since| since.elapsed()), state.ended.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ModeReport {
    /// Returns whether every attack was contained, and nothing else was wrong.
    pub(crate) fn is_contained(&self) -> bool {
        self.summary.contained == self.summary.cases && self.summary.wrong.is_empty()
    }

    /// Returns the times after the deadline of the attacks that only their deadline ends.
    pub(crate) fn overshoots(&self) -> Vec<(String, Vec<f64>)> {
        let late = self.cases.iter().filter(|case| !case.overshoot_ms.is_empty());
        late.map(|case| (case.what.to_string(), case.overshoot_ms.clone())).collect()
    }
}
