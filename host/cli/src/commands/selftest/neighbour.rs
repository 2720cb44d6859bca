//! An honest tool that is called all the while, and has to be right every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fumehood::{Call, Host};
use tokio::task::JoinHandle;

/// Between two calls.
const PAUSE: Duration = Duration::from_millis(1);

/// What came of its calls.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// How long each call took, for whoever waited for it.
    pub(super) times: Vec<Duration>,
    /// How many answers were not what they should be.
    pub(super) wrong: usize,
}

/// Calls until it is told to stop.
pub(super) struct Neighbour {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Record>,
}

impl Neighbour {
    pub(super) fn start(host: &Arc<Host>) -> Self {
        let (host, stop) = (Arc::clone(host), Arc::<AtomicBool>::default());
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut record = Record::default();
            let mut number = 0_u32;
            while !stopped.load(Relaxed) {
                call(&host, number, &mut record).await;
                number += 1;
                tokio::time::sleep(PAUSE).await;
            }
            record
        });
        Self { stop, task }
    }

    /// Waits for the last call.
    ///
    /// # Errors
    /// If the task itself failed.
    pub(super) async fn stop(self) -> anyhow::Result<Record> {
        self.stop.store(true, Relaxed);
        Ok(self.task.await?)
    }
}

/// So many calls, with nobody else around.
pub(super) async fn alone(host: &Host, calls: u32) -> Record {
    let mut record = Record::default();
    for number in 0..calls {
        call(host, number, &mut record).await;
        tokio::time::sleep(PAUSE).await;
    }
    record
}

async fn call(host: &Host, number: u32, record: &mut Record) {
    let arguments = format!(r#"{{"a": {number}, "b": 1}}"#);
    let started = Instant::now();
    let result = host.call(Call::new("neighbour__add", arguments)).await;
    record.times.push(started.elapsed());
    let right = format!(r#"{{"result":{}}}"#, number + 1);
    record.wrong += usize::from(result.text().as_deref() != Some(right.as_str()));
}

impl Record {
    /// The time that 99 of 100 calls do not pass.
    pub(super) fn p99(&self) -> Duration {
        p99(&self.times)
    }
}

/// The time that 99 of 100 of these do not pass; zero for none.
pub(super) fn p99(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get((times.len() * 99 / 100).min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}
