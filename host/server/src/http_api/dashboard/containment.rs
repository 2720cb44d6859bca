//! Runs of hostile tools against this host, and the reports of those that have ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::text::untrusted::PrintableText;
use fumehood_core::time::Timestamp;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::ports::{Containment, PortError, StoredReport};
use crate::now;

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
    /// The reason for which the report could not be stored.
    pub(crate) unstored: Option<String>,
}

/// The runs of a server: at most one at a time.
pub(crate) struct Runs {
    state: Mutex<State>,
    containment: Option<Arc<dyn Containment>>,
}

#[derive(Default)]
struct State {
    running_since: Option<Instant>,
    next: u64,
    /// The newest first.
    ended: Vec<Run>,
}

impl Runs {
    /// Creates the runs whose reports are stored; those to come are stored, too.
    pub(crate) fn new(containment: Option<Arc<dyn Containment>>) -> Self {
        let stored = containment.as_ref().map(|containment| containment.load(MAX_RUNS)).unwrap_or_default();
        let mut state = State::default();
        for StoredReport { at, duration, text } in stored.into_iter().rev() {
            state.add(at, duration, parse(&text), None);
        }
        Self { state: Mutex::new(state), containment }
    }

    /// Starts a run in the background, unless one is running. Returns whether this server can run it.
    pub(crate) fn start(self: &Arc<Self>, stopped: CancellationToken) -> bool {
        let Some(containment) = &self.containment else { return false };
        {
            let mut state = self.lock();
            if state.running_since.is_some() {
                return true;
            }
            state.running_since = Some(Instant::now());
        }
        let runs = Arc::clone(self);
        let run = containment.run();
        tokio::spawn(async move {
            let outcome = stopped.run_until_cancelled(run).await;
            let outcome = outcome.unwrap_or_else(|| Err(PortError("the server ended".to_owned())));
            runs.end(outcome.map_err(|error| error.0)).await;
        });
        true
    }

    /// Keeps the text of a report, or why there is none.
    async fn end(&self, text: Result<String, String>) {
        let at = now();
        let running_since = self.lock().running_since;
        let duration = running_since.map(|since| since.elapsed()).unwrap_or_default();
        let outcome = text.as_deref().map_err(Clone::clone).and_then(parse);
        let mut unstored = None;
        if let (Some(containment), true, Ok(text)) = (self.containment.clone(), outcome.is_ok(), text) {
            let store = move || containment.store(StoredReport { at, duration, text }, MAX_RUNS);
            let stored = tokio::task::spawn_blocking(store).await;
            unstored = stored.unwrap_or_else(|error| Err(PortError(error.to_string()))).err().map(|error| error.0);
        }
        let mut state = self.lock();
        state.running_since = None;
        state.add(at, duration, outcome, unstored);
    }

    /// Returns the time that the present run has taken, if there is one, and the runs before, the newest first.
    pub(crate) fn list(&self) -> (Option<Duration>, Vec<Run>) {
        let state = self.lock();
        (state.running_since.map(|since| since.elapsed()), state.ended.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(
        &mut self,
        at: Timestamp,
        duration: Duration,
        outcome: Result<Arc<Report>, String>,
        unstored: Option<String>,
    ) {
        self.next = self.next.saturating_add(1);
        self.ended.insert(0, Run { number: self.next, at, duration, outcome, unstored });
        self.ended.truncate(MAX_RUNS);
    }
}

fn parse(text: &str) -> Result<Arc<Report>, String> {
    let report = serde_json::from_str(text).map(Arc::new);
    report.map_err(|error| format!("the self-test wrote no report: {error}"))
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
