//! The calls of a worker that have not ended, and their ends.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::{Observer, Usage};
use tokio::sync::oneshot;
use tracing::Span;

use crate::call::place::Place;
use crate::isolation::capability_calls::CapabilityCalls;
use crate::isolation::message::{Cost, Failure, Parts};
use crate::isolation::services::CallRequests;

/// Minimum time between two reports of the cost of a call; earlier ones are dropped. Workers leave more.
const USAGE_INTERVAL: Duration = Duration::from_millis(50);

/// A call that has not ended.
pub(in crate::isolation) struct Pending {
    pub(in crate::isolation) answer: oneshot::Sender<CallEnd>,
    pub(in crate::isolation) observer: Option<Arc<dyn Observer>>,
    pub(in crate::isolation) actor: Option<Arc<str>>,
    /// Bytes of log lines and progress that the worker may still send, charged as the worker itself does. This holds for
    /// a worker that was taken over.
    pub(in crate::isolation) output_budget: usize,
    /// The last report of its cost, and the time when the observer received one.
    pub(in crate::isolation) usage: Arc<Mutex<Usage>>,
    pub(in crate::isolation) usage_at: Option<Instant>,
    pub(in crate::isolation) deadline: Instant,
    /// The span of the call, around those of its requests.
    pub(in crate::isolation) span: Span,
    /// Created by the first request.
    pub(in crate::isolation) requests: Option<Arc<CallRequests>>,
    /// `None` if the component has no capabilities.
    pub(in crate::isolation) capabilities: Option<Arc<CapabilityCalls>>,
    /// Dropped when the worker is done with the call, not when its caller stops waiting.
    pub(in crate::isolation) place: Place,
    pub(in crate::isolation) progress: CallProgress,
}

/// The progress of a call that has not ended, as far as its host knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::isolation) enum CallProgress {
    /// Its number among the calls that were sent. A worker begins calls in their order, so only the first of these may
    /// have begun.
    Sent(u64),
    /// The worker has sent something about it.
    Began,
}

/// The end of a worker process.
#[derive(Debug, Clone)]
pub(in crate::isolation) struct Death {
    pub(in crate::isolation) reason: String,
    /// The actors of the calls that had begun; `None` for a call without an actor.
    pub(in crate::isolation) actors: HashSet<Option<Arc<str>>>,
}

pub(in crate::isolation) enum CallEnd {
    Answered {
        outcome: Result<Parts, Failure>,
        cost: Box<Cost>,
        requests: Option<Arc<CallRequests>>,
        capabilities: Option<Arc<CapabilityCalls>>,
    },
    /// The worker ended before it answered. The call may be sent to another with the same place.
    WorkerDied { reason: String, has_begun: bool, place: Option<Place> },
}

impl Pending {
    /// Charges `bytes` of output, and returns the observer, if there is one.
    ///
    /// # Errors
    /// If the call has sent more than its `output_budget`.
    pub(super) fn charge_output(&mut self, bytes: usize) -> Result<Option<Arc<dyn Observer>>, String> {
        let left = self.output_budget.checked_sub(bytes);
        self.output_budget = left.ok_or_else(|| "it sends more than a tool may send".to_owned())?;
        Ok(self.observer.clone())
    }

    /// Keeps a report of the cost. Returns the observer, if it is time to pass the report on.
    pub(super) fn report_usage(&mut self, usage: Usage) -> Option<Arc<dyn Observer>> {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) = usage;
        if self.usage_at.is_some_and(|at| at.elapsed() < USAGE_INTERVAL) {
            return None;
        }
        self.usage_at = Some(Instant::now());
        self.observer.clone()
    }
}

impl CallProgress {
    /// Returns whether the worker may have begun the call, if `first` is the first of those of which it has sent nothing.
    pub(super) fn has_begun(self, first: Option<u64>) -> bool {
        match self {
            Self::Began => true,
            Self::Sent(number) => Some(number) == first,
        }
    }
}

/// Returns the number of the first call of which the worker has sent nothing.
pub(super) fn first_sent(calls: &HashMap<u64, Pending>) -> Option<u64> {
    let number = |pending: &Pending| match pending.progress {
        CallProgress::Sent(number) => Some(number),
        CallProgress::Began => None,
    };
    calls.values().filter_map(number).min()
}
