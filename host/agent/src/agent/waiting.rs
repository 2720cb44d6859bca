//! Waiting, with an end: for a piece of work, for a limit, for somebody who cancels.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::chat::{Delta, DeltaSink};

use super::cancel::CancelHandle;
use super::events::{AgentEvent, Tap};
use super::writing::WritingTime;
use crate::budget::BudgetKind;

/// A sink that forwards the pieces of an answer to a [`Tap`], and collects the text in case the answer is interrupted.
pub(super) struct Listener<'a> {
    pub(super) tap: &'a Tap,
    pub(super) session: &'a Arc<str>,
    pub(super) text: String,
}

impl DeltaSink for Listener<'_> {
    fn delta(&mut self, delta: Delta) {
        if let Delta::Text(text) = &delta {
            self.text.push_str(text);
        }
        if self.tap.is_watched() {
            self.tap.tell(AgentEvent::Delta { session: Arc::clone(self.session), delta });
        }
    }
}

/// The outcome of [`until`].
pub(super) enum Ended<T> {
    Done(T),
    /// This limit was reached.
    TimeUp(BudgetKind),
    Cancelled,
}

/// Waits for `work` until `time_up` returns the limit that was reached, or the run is cancelled. Unfinished work is dropped.
pub(super) async fn until<T>(
    cancel: &CancelHandle,
    time_up: impl Future<Output = BudgetKind>,
    work: impl Future<Output = T>,
) -> Ended<T> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Ended::Cancelled,
        value = work => Ended::Done(value),
        budget = time_up => Ended::TimeUp(budget),
    }
}

/// Waits until the wall time is over; forever if there is no limit.
pub(super) async fn wall_time(left: Option<Duration>) -> BudgetKind {
    match left {
        Some(left) => tokio::time::sleep(left).await,
        None => std::future::pending().await,
    }
    BudgetKind::WallTime
}

/// Waits until the model has written for the time `left`, or the wall time is over.
pub(super) async fn writing_time(
    writing: &WritingTime,
    left: Option<Duration>,
    wall_left: Option<Duration>,
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
        budget = wall_time(wall_left) => budget,
    }
}
