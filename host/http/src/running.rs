//! The running calls of the API: the ids by which clients find and cancel them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use fumehood_core::call::CancellationToken;
use fumehood_core::time::Timestamp;

use crate::history::{CallStatus, CallSummary};

/// The running calls. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub(crate) struct RunningCalls(Arc<Inner>);

#[derive(Default)]
struct Inner {
    prefix: u64,
    next: AtomicU64,
    calls: Mutex<BTreeMap<u64, Entry>>,
}

struct Entry {
    principal: usize,
    tool: String,
    at: Timestamp,
    cancelled: CancellationToken,
}

/// A running call. Dropping it removes it from the running calls.
pub(crate) struct RunningCall {
    calls: RunningCalls,
    number: u64,
    /// Cancels the call.
    pub(crate) cancelled: CancellationToken,
}

impl RunningCalls {
    /// Creates an empty set. The ids of its calls begin with `prefix`, which sets them apart from those of other runs.
    pub(crate) fn new(prefix: u64) -> Self {
        Self(Arc::new(Inner { prefix, ..Inner::default() }))
    }

    /// Adds a call of this principal.
    pub(crate) fn start(&self, principal: usize, tool: &str) -> RunningCall {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let cancelled = CancellationToken::new();
        let entry = Entry { principal, tool: tool.to_owned(), at: now(), cancelled: cancelled.clone() };
        self.lock().insert(number, entry);
        RunningCall { calls: self.clone(), number, cancelled }
    }

    /// Cancels a running call of this principal. Returns whether there is one of this id.
    pub(crate) fn cancel(&self, principal: usize, id: &str) -> bool {
        let Some(number) = self.number_of(id) else { return false };
        let calls = self.lock();
        let found = calls.get(&number).filter(|entry| entry.principal == principal);
        found.inspect(|entry| entry.cancelled.cancel()).is_some()
    }

    /// Returns the running call of this id, if it is one of this principal.
    pub(crate) fn find(&self, principal: usize, id: &str) -> Option<CallSummary> {
        let number = self.number_of(id)?;
        let calls = self.lock();
        calls.get(&number).filter(|entry| entry.principal == principal).map(|entry| self.summary(number, entry))
    }

    /// Returns the running calls of a principal, the newest first.
    pub(crate) fn list(&self, principal: usize) -> Vec<CallSummary> {
        let calls = self.lock();
        let own = calls.iter().rev().filter(|(_, entry)| entry.principal == principal);
        own.map(|(number, entry)| self.summary(*number, entry)).collect()
    }

    fn summary(&self, number: u64, entry: &Entry) -> CallSummary {
        CallSummary {
            id: self.id_of(number),
            tool: entry.tool.clone(),
            status: CallStatus::RUNNING.to_owned(),
            started_at_ms: entry.at.0,
            duration_ms: None,
            actor: None,
            client: None,
            position: number,
        }
    }

    fn id_of(&self, number: u64) -> String {
        format!("h{:016x}-{number}", self.0.prefix)
    }

    fn number_of(&self, id: &str) -> Option<u64> {
        let number = id.rsplit_once('-')?.1.parse().ok()?;
        (self.id_of(number) == id).then_some(number)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Entry>> {
        // No code that holds the lock can panic half-way.
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunningCall {
    /// Returns the id of the call.
    pub(crate) fn id(&self) -> String {
        self.calls.id_of(self.number)
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.calls.lock().remove(&self.number);
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_cancels_its_own_calls_only() {
        let calls = RunningCalls::new(7);
        let call = calls.start(0, "a__b");
        let id = call.id();
        assert!(!calls.cancel(1, &id) && calls.find(1, &id).is_none() && calls.list(1).is_empty());
        for wrong in ["", "h-1", "h0000000000000007-2", "h0000000000000008-1", "h0000000000000007-01"] {
            assert!(!calls.cancel(0, wrong), "{wrong:?}");
        }
        assert!(!call.cancelled.is_cancelled());
        assert!(calls.cancel(0, &id) && call.cancelled.is_cancelled());
        assert_eq!(calls.list(0).len(), 1);
        drop(call);
        assert!(calls.list(0).is_empty() && !calls.cancel(0, &id));
    }
}
