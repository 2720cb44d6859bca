//! Closed-loop load: callers that each make the next call when the one before has ended.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::error::CellError;
use crate::link::{Link, NodeOptions};

/// Time that a caller waits after a call that failed. One that is refused at once would otherwise never let the others run.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(1);
/// Maximum time that a bare request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes at the beginning of a bare request that say how long its reply is to be.
const LENGTH_BYTES: usize = 4;

/// The amount of load.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Number of callers.
    pub callers: usize,
    /// Time until the last call of each caller begins.
    pub time: Duration,
}

/// A measurement of calls under load.
#[derive(Debug, Clone)]
pub struct LoadReport {
    /// Number of calls that ended well.
    pub calls: usize,
    /// Number of calls that failed.
    pub failed: usize,
    /// Time from the first call to the end of the last one.
    pub took: Duration,
    /// The times of the calls that ended well, sorted.
    latencies: Vec<Duration>,
}

impl Load {
    /// Makes calls, and measures them. `call` returns whether its call ended well.
    pub async fn run(&self, call: impl AsyncFn() -> bool) -> LoadReport {
        let began = Instant::now();
        let measured = join_all((0..self.callers).map(|_| self.call_repeatedly(began, &call))).await;
        let took = began.elapsed();
        let failed = measured.iter().map(|(_, failed)| failed).sum();
        let mut latencies: Vec<Duration> = measured.into_iter().flat_map(|(latencies, _)| latencies).collect();
        latencies.sort_unstable();
        LoadReport { calls: latencies.len(), failed, took, latencies }
    }

    /// Returns the times of the calls that ended well, and the number of the others.
    async fn call_repeatedly(&self, began: Instant, call: &impl AsyncFn() -> bool) -> (Vec<Duration>, usize) {
        let mut latencies = Vec::new();
        let mut failed = 0_usize;
        while began.elapsed() < self.time {
            let called = Instant::now();
            if call().await {
                latencies.push(called.elapsed())
            } else {
                failed = failed.saturating_add(1);
                tokio::time::sleep(PAUSE_AFTER_FAILURE).await;
            }
        }
        (latencies, failed)
    }
}

impl LoadReport {
    /// Returns the number of calls that ended well in a second.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "nobody makes 2^52 calls")]
    pub fn rate(&self) -> f64 {
        self.calls as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the time that this part of a thousand of the calls took at most; zero without calls.
    #[must_use]
    pub fn quantile(&self, per_mille: usize) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        let index = last.saturating_mul(per_mille).checked_div(1000).unwrap_or(0);
        self.latencies.get(index).copied().unwrap_or_default()
    }
}

/// Bare requests and replies over the server of a cell, to compare calls with.
#[derive(Clone)]
pub struct BareRequests {
    link: Link,
    subject: String,
}

impl std::fmt::Debug for BareRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BareRequests").field("subject", &self.subject).finish_non_exhaustive()
    }
}

impl BareRequests {
    /// Connects. `name` tells the requests of one measurement from others.
    ///
    /// # Errors
    /// If the server cannot be reached.
    pub async fn connect(options: NodeOptions, name: &str) -> Result<Self, CellError> {
        let subject = format!("{}.bench.{name}", options.server.prefix);
        Ok(Self { link: Link::connect(options).await?, subject })
    }

    /// Replies to requests, shared with all others that do, until the connection is closed.
    ///
    /// # Errors
    /// If the connection is closed.
    pub async fn answer(&self) -> Result<(), CellError> {
        let client = self.link.client();
        let group = "bench".to_owned();
        let subscribed = client.queue_subscribe(self.subject.clone(), group).await;
        let mut requests = subscribed.map_err(|_| CellError::Closed)?;
        while let Some(request) = requests.next().await {
            let length = request.payload.first_chunk::<LENGTH_BYTES>().map_or(0, |bytes| u32::from_be_bytes(*bytes));
            let length = usize::try_from(length).unwrap_or(0).min(self.link.max_body_bytes());
            if let Some(reply) = request.reply {
                client.publish(reply, vec![b'x'; length].into()).await.map_err(|_| CellError::Closed)?;
            }
        }
        Err(CellError::Closed)
    }

    /// Makes a request of `request_bytes`, whose reply has `reply_bytes`. Returns whether it came.
    pub async fn request(&self, request_bytes: usize, reply_bytes: usize) -> bool {
        let length = u32::try_from(reply_bytes).unwrap_or(u32::MAX);
        let mut payload = length.to_be_bytes().to_vec();
        payload.resize(request_bytes.max(LENGTH_BYTES), b'x');
        let request = self.link.client().request(self.subject.clone(), payload.into());
        let replied = tokio::time::timeout(REQUEST_TIMEOUT, request).await;
        matches!(replied, Ok(Ok(reply)) if reply.payload.len() == reply_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_make_one_call_after_the_other() {
        let load = Load { callers: 3, time: Duration::from_millis(100) };
        let report = load
            .run(async || {
                tokio::time::sleep(Duration::from_millis(10)).await;
                true
            })
            .await;
        assert_eq!((report.calls, report.failed), (30, 0));
        assert_eq!((report.took, report.quantile(500)), (Duration::from_millis(100), Duration::from_millis(10)));
        assert!((report.rate() - 300.0).abs() < 1e-6);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_caller_holds_up_no_other() {
        let places = tokio::sync::Semaphore::new(2);
        let load = Load { callers: 8, time: Duration::from_millis(100) };
        let report = load
            .run(async || {
                let Ok(_place) = places.try_acquire() else { return false };
                tokio::time::sleep(Duration::from_millis(10)).await;
                true
            })
            .await;
        assert!(report.calls >= 18 && report.failed >= 6, "{report:?}");
    }
}
