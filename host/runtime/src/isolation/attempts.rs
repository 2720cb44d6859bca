//! The attempts to run one call in workers: those that die before a call begins, or while a repeatable one runs, have another.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fumehood_core::call::Usage;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallError;
use fumehood_core::policy::permission::Grant;

use super::message::{CallMessage, ToWorker};
use crate::call::outcome::Execution;
use crate::call::place::Place;
use crate::wasi::Invocation;

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
    /// The cost of the present attempt that its worker reported last. It reports five times a second.
    pub(super) usage: Arc<Mutex<Usage>>,
    /// The cost of earlier attempts, whose workers died.
    pub(super) spent: Usage,
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
    pub(super) fn new(id: u64, call: WorkerCall, invocation: &Invocation, grant: &Grant) -> Self {
        let message = ToWorker::Call(CallMessage::new(id, call.tool, call.arguments, invocation, grant));
        Self { id, message, limits: invocation.limits, usage: Arc::default(), spent: Usage::default() }
    }

    /// Returns the cost of all attempts so far, as far as their workers reported it.
    fn used(&self) -> Usage {
        let usage = *self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let fuel = self.spent.fuel.saturating_add(usage.fuel);
        Usage { fuel, peak_memory: self.spent.peak_memory.max(usage.peak_memory) }
    }

    /// Counts the present attempt among the earlier ones.
    pub(super) fn end_attempt(&mut self) {
        self.spent = self.used();
        self.usage = Arc::default();
    }

    /// Creates the end of a call without an answer of its worker.
    pub(super) fn failed(&self, error: CallError, limits: &Limits) -> Execution {
        let mut execution = Execution::failed(error, Duration::ZERO, limits);
        let used = self.used();
        execution.metadata.fuel_used = used.fuel;
        execution.metadata.peak_memory = used.peak_memory;
        execution
    }

    /// Sets the time that is left for a further attempt.
    pub(super) fn set_deadline(&mut self, deadline: Duration) {
        self.limits.deadline = deadline;
        if let ToWorker::Call(message) = &mut self.message {
            message.invocation.limits = self.limits;
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
