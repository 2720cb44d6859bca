//! The attempts to run one call in workers: those that die before a call begins, or while a repeatable one runs, have another.

use std::time::Duration;

use fumehood_core::call::limits::Limits;

use super::message::ToWorker;
use crate::call::place::Place;

/// Maximum number of times that a call is sent again because its worker died before it began.
const MAX_RESENDS: u32 = 5;

/// A call of a tool for a worker.
#[derive(Debug)]
pub(crate) struct WorkerCall {
    /// Index into the definitions.
    pub(crate) tool: usize,
    /// JSON text that has passed the tool's schema.
    pub(crate) arguments: String,
    /// True if a second run has no further effect: the tool is read-only or idempotent, by its own word.
    pub(crate) is_repeatable: bool,
}

/// A call as its workers get it.
pub(super) struct SentCall {
    pub(super) id: u64,
    pub(super) message: ToWorker,
    /// The limits of the present attempt.
    pub(super) limits: Limits,
}

/// A call whose worker died.
pub(super) struct Interrupted {
    pub(super) reason: String,
    pub(super) has_begun: bool,
    pub(super) place: Option<Place>,
}

/// The attempts to run one call.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    resends: u32,
    pub(super) was_repeated: bool,
}

impl SentCall {
    /// Sets the time that is left for a further attempt.
    pub(super) fn set_deadline(&mut self, deadline: Duration) {
        self.limits.deadline = deadline;
        if let ToWorker::Call(message) = &mut self.message {
            message.limits = (&self.limits).into();
        }
    }
}

impl Attempts {
    pub(super) fn is_first(&self) -> bool {
        self.resends == 0 && !self.was_repeated
    }

    /// Returns the place of a call that may run again, and counts the attempt.
    pub(super) fn take_another(&mut self, interrupted: Interrupted, is_repeatable: bool) -> Option<Place> {
        let place = interrupted.place?;
        let may_run = if interrupted.has_begun {
            is_repeatable && !std::mem::replace(&mut self.was_repeated, true)
        } else {
            self.resends += 1;
            self.resends <= MAX_RESENDS
        };
        may_run.then_some(place)
    }
}
