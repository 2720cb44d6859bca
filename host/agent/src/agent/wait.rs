//! Waiting for work until it is done, a limit is reached, or the run is cancelled.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::chat::{Delta, DeltaSink};
use tokio::sync::watch;

use super::events::{AgentEvent, Tap};
use super::writing_time::WritingTime;
use crate::session::budget::BudgetKind;

/// A request from outside to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// Ends the run as cancelled.
    Cancel,
    /// Leaves the run under way, so that it can be resumed.
    Suspend,
}

/// A handle that cancels or suspends the current run or, if there is none, the next one. Clones share their state.
#[derive(Debug, Clone)]
pub struct CancelHandle {
    requested: Arc<watch::Sender<Option<Interruption>>>,
}

impl CancelHandle {
    pub(super) fn new() -> Self {
        Self { requested: Arc::new(watch::Sender::new(None)) }
    }

    /// Requests the cancellation and returns at once. The run ends as cancelled as soon as the work that it waits for
    /// has been dropped.
    pub fn cancel(&self) {
        self.requested.send_replace(Some(Interruption::Cancel));
    }

    /// Requests that the run of a saved session stops where it is, and returns at once. The run stays under way: it goes on
    /// with [`Agent::resume`](super::Agent::resume), also in another process. A run that is not saved is cancelled.
    pub fn suspend(&self) {
        self.requested.send_replace(Some(Interruption::Suspend));
    }

    /// Waits for a request and consumes it, so that it does not reach the next run as well.
    pub(super) async fn interrupted(&self) -> Interruption {
        let mut requests = self.requested.subscribe();
        // The sender lives as long as `self`, so that waiting does not fail.
        let requested = requests.wait_for(Option::is_some).await.ok().and_then(|requested| *requested);
        self.requested.send_replace(None);
        requested.unwrap_or(Interruption::Cancel)
    }
}

/// A sink that forwards the pieces of an answer to a [`Tap`], and collects the text in case the answer is interrupted.
pub(super) struct AnswerSink<'a> {
    pub(super) tap: &'a Tap,
    pub(super) session: &'a Arc<str>,
    pub(super) text: String,
}

impl DeltaSink for AnswerSink<'_> {
    fn delta(&mut self, delta: Delta) {
        if let Delta::Text(text) = &delta {
            self.text.push_str(text);
        }
        if self.tap.has_subscribers() {
            self.tap.notify(AgentEvent::Delta { session: Arc::clone(self.session), delta });
        }
    }
}

/// The outcome of [`wait_until`].
pub(super) enum WaitOutcome<T> {
    Done(T),
    /// This limit was reached.
    TimeUp(BudgetKind),
    Interrupted(Interruption),
}

/// Waits for `work` until `time_up` returns the limit that was reached, or the run is interrupted. Drops unfinished work.
pub(super) async fn wait_until<T>(
    cancel: &CancelHandle,
    time_up: impl Future<Output = BudgetKind>,
    work: impl Future<Output = T>,
) -> WaitOutcome<T> {
    tokio::select! {
        biased;
        interruption = cancel.interrupted() => WaitOutcome::Interrupted(interruption),
        value = work => WaitOutcome::Done(value),
        budget = time_up => WaitOutcome::TimeUp(budget),
    }
}

/// Waits until the wall time is over; forever if there is no limit.
pub(super) async fn wait_for_wall_time(left: Option<Duration>) -> BudgetKind {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
    BudgetKind::WallTime
}

/// Waits until the model has written for the time `left`, or the wall time is over.
pub(super) async fn wait_for_writing_time(
    writing: &WritingTime,
    left: Option<Duration>,
    remaining_wall_time: Option<Duration>,
) -> BudgetKind {
    let written = async {
        match left {
            Some(left) => writing.reach(left).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = written => BudgetKind::StreamTime,
        budget = wait_for_wall_time(remaining_wall_time) => budget,
    }
}
