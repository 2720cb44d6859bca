//! Waiting, with an end: for a piece of work, for a limit, for somebody who cancels.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::chat::{Delta, DeltaSink};

use super::cancel::CancelHandle;
use super::events::{AgentEvent, Tap};
use crate::budget::BudgetKind;

/// Passes the pieces of an answer on, and keeps the text in case that its end never comes.
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

/// How waiting ended.
pub(super) enum Ended<T> {
    Done(T),
    TimeUp,
    Cancelled,
}

/// Waits for `work`, for nobody longer than `limit`, and not at all once somebody cancels. What was not waited for to
/// its end is dropped.
pub(super) async fn until<T>(
    cancel: &CancelHandle,
    limit: Option<Duration>,
    work: impl Future<Output = T>,
) -> Ended<T> {
    let time_up = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Ended::Cancelled,
        value = work => Ended::Done(value),
        () = time_up => Ended::TimeUp,
    }
}

/// The limit that is reached first, and which one that is.
pub(super) fn sooner(stream: Option<Duration>, wall: Option<Duration>) -> (Option<Duration>, BudgetKind) {
    match (stream, wall) {
        (Some(stream), Some(wall)) if wall < stream => (Some(wall), BudgetKind::WallTime),
        (None, wall) => (wall, BudgetKind::WallTime),
        (stream, _) => (stream, BudgetKind::StreamTime),
    }
}
