//! An honest tool that is called during the attacks, and has to answer correctly every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fumehood::{Call, Host};
use tokio::task::JoinHandle;

/// Pause between two calls.
const PAUSE: Duration = Duration::from_millis(1);

/// The outcome of the honest tool's calls.
#[derive(Debug, Default)]
pub(super) struct CallStats {
    /// Duration of each call for its caller.
    pub(super) durations: Vec<Duration>,
    /// Number of wrong answers.
    pub(super) wrong: usize,
}

/// A task that calls the honest tool until [`Self::stop`].
pub(super) struct Neighbour {
    stop: Arc<AtomicBool>,
    task: JoinHandle<CallStats>,
}

impl Neighbour {
    pub(super) fn start(host: &Arc<Host>) -> Self {
        let host = Arc::clone(host);
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut stats = CallStats::default();
            let mut number = 0_u32;
            while !stopped.load(Relaxed) {
                call(&host, number, &mut stats).await;
                number += 1;
                tokio::time::sleep(PAUSE).await;
            }
            stats
        });
        Self { stop, task }
    }

    /// Stops the task after its current call, and returns the outcome.
    ///
    /// # Errors
    /// If the task itself failed.
    pub(super) async fn stop(self) -> anyhow::Result<CallStats> {
        self.stop.store(true, Relaxed);
        Ok(self.task.await?)
    }
}

/// Calls the honest tool `calls` times, for a comparison without attacks.
pub(super) async fn call_alone(host: &Host, calls: u32) -> CallStats {
    let mut stats = CallStats::default();
    for number in 0..calls {
        call(host, number, &mut stats).await;
        tokio::time::sleep(PAUSE).await;
    }
    stats
}

async fn call(host: &Host, number: u32, stats: &mut CallStats) {
    let arguments = format!(r#"{{"a": {number}, "b": 1}}"#);
    let started = Instant::now();
    let result = host.call(Call::new("neighbour__add", arguments)).await;
    stats.durations.push(started.elapsed());
    let expected = format!(r#"{{"result":{}}}"#, number + 1);
    stats.wrong += usize::from(result.text().as_deref() != Some(expected.as_str()));
}

impl CallStats {
    /// Returns the 99th percentile of the durations.
    pub(super) fn p99(&self) -> Duration {
        p99(&self.durations)
    }
}

/// Returns the 99th percentile; zero if there are no times.
pub(super) fn p99(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get((times.len() * 99 / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}
