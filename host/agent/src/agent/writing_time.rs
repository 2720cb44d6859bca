//! The time that a model spends writing: from the first piece of an answer to its last, without waits between retries.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fumehood_core::chat::{Activity, Delta, DeltaSink};
use tokio::sync::watch;
use tokio::time::Instant;

/// The time that a model has spent writing one answer.
#[derive(Debug)]
pub(super) struct WritingTime {
    before: Mutex<Duration>,
    /// The start of the current writing phase; `None` while the model does not write.
    since: watch::Sender<Option<Instant>>,
}

impl WritingTime {
    pub(super) fn new() -> Self {
        Self { before: Mutex::default(), since: watch::Sender::new(None) }
    }

    fn record(&self, activity: Activity) {
        match activity {
            Activity::Writing => {
                self.since.send_if_modified(|since| since.is_none() && since.replace(Instant::now()).is_none());
            }
            Activity::Waiting => {
                if let Some(since) = self.since.send_replace(None) {
                    let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
                    *before = before.saturating_add(since.elapsed());
                }
            }
        }
    }

    fn before(&self) -> Duration {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the time spent writing so far.
    pub(super) fn total(&self) -> Duration {
        let now = self.since.borrow().map_or(Duration::ZERO, |since| since.elapsed());
        self.before().saturating_add(now)
    }

    /// Waits until the total reaches `limit`; forever if it never does.
    pub(super) async fn reach(&self, limit: Duration) {
        let mut changes = self.since.subscribe();
        loop {
            let is_writing = changes.borrow_and_update().is_some();
            let left = limit.saturating_sub(self.total());
            if is_writing {
                tokio::select! {
                    () = tokio::time::sleep(left) => return,
                    _changed = changes.changed() => {}
                }
            } else if changes.changed().await.is_err() {
                // The sender lives as long as `self`.
                std::future::pending::<()>().await;
            }
        }
    }
}

/// A sink that measures the writing time of an answer while it forwards its pieces.
pub(super) struct TimedSink<'a> {
    pub(super) time: &'a WritingTime,
    pub(super) inner: &'a mut dyn DeltaSink,
}

impl DeltaSink for TimedSink<'_> {
    fn delta(&mut self, delta: Delta) {
        self.time.record(Activity::Writing);
        self.inner.delta(delta);
    }

    fn activity(&mut self, activity: Activity) {
        self.time.record(activity);
        self.inner.activity(activity);
    }
}
