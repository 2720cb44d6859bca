//! The report of a running call.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::Metadata;

use super::account::RequestLedger;
use super::refusals::Refusals;
use super::stdio::Capture;
use crate::engine::deadline::Deadline;

/// The effects of a running call so far. They can be read while the guest holds its thread, so that a call that does not stop at
/// its deadline is answered without it.
pub(crate) struct CallReport {
    limits: Limits,
    deadline: Deadline,
    queued: Duration,
    /// Created by the first refusal, or with the WASI contexts and the files, which add to it.
    refusals: OnceLock<Refusals>,
    /// Set when the guest first uses WASI.
    stdio: OnceLock<Capture>,
    requests: OnceLock<RequestLedger>,
    counters: Mutex<Counters>,
}

/// The counters of a call that are kept in its store. They are copied at each check of the deadline, and at the end.
#[derive(Clone, Copy)]
pub(super) struct Counters {
    pub(super) fuel_used: u64,
    pub(super) peak_memory: usize,
    pub(super) log_dropped: u64,
    pub(super) hidden_chars: u64,
}

impl CallReport {
    /// Creates the report of a call that waited `queued` for its place. `fuel_used` is charged if its deadline is never checked.
    pub(crate) fn new(limits: Limits, deadline: Deadline, queued: Duration, fuel_used: u64) -> Self {
        let counters = Mutex::new(Counters { fuel_used, peak_memory: 0, log_dropped: 0, hidden_chars: 0 });
        let refusals = OnceLock::new();
        let stdio = OnceLock::new();
        let requests = OnceLock::new();
        Self { limits, deadline, queued, refusals, stdio, requests, counters }
    }

    /// Returns the deadline of the call.
    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Returns the record of what the call tried that it was not granted.
    pub(crate) fn refusals(&self) -> &Refusals {
        self.refusals.get_or_init(Refusals::default)
    }

    /// Adds the output and the requests of the WASI contexts. A call has them once.
    pub(super) fn set_wasi(&self, stdio: Capture, requests: Option<RequestLedger>) {
        self.stdio.get_or_init(|| stdio);
        if let Some(requests) = requests {
            self.requests.get_or_init(|| requests);
        }
    }

    /// Replaces the counters.
    pub(super) fn update(&self, counters: Counters) {
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = counters;
    }

    /// Returns the metadata of the call, which is over: it sends no more requests.
    pub(crate) fn end(&self) -> Metadata {
        let counters = *self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        let (stdout, stderr) = self.stdio.get().map(Capture::output).unwrap_or_default();
        let requests = self.requests.get().map(RequestLedger::end).unwrap_or_default();
        let (refused, exhausted) = self.refusals.get().map(Refusals::to_lists).unwrap_or_default();
        let hidden = [counters.hidden_chars, stdout.text.hidden_chars(), stderr.text.hidden_chars()];
        Metadata::default()
            .sanitized(hidden.into_iter().sum())
            .queued(self.queued)
            .deadline(self.limits.deadline)
            .fuel_used(counters.fuel_used)
            .peak_memory(counters.peak_memory)
            .log_dropped(counters.log_dropped)
            .refused(refused)
            .exhausted(exhausted)
            .stdout(stdout)
            .stderr(stderr)
            .requests(requests)
            .duration(self.deadline.armed().elapsed())
    }
}
