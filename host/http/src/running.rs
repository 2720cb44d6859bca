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
    tenant: Arc<str>,
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

    /// Adds a call of this tenant.
    pub(crate) fn start(&self, tenant: &Arc<str>, tool: &str) -> RunningCall {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let cancelled = CancellationToken::new();
        let entry =
            Entry { tenant: Arc::clone(tenant), tool: tool.to_owned(), at: now(), cancelled: cancelled.clone() };
        self.lock().insert(number, entry);
        RunningCall { calls: self.clone(), number, cancelled }
    }

    /// Cancels a running call of this tenant. Returns whether there is one of this id.
    pub(crate) fn cancel(&self, tenant: &str, id: &str) -> bool {
        let Some(number) = self.number_of(id) else { return false };
        let calls = self.lock();
        let found = calls.get(&number).filter(|entry| *entry.tenant == *tenant);
        found.inspect(|entry| entry.cancelled.cancel()).is_some()
    }

    /// Returns the running call of this id, if it is one of this tenant.
    pub(crate) fn find(&self, tenant: &str, id: &str) -> Option<CallSummary> {
        let number = self.number_of(id)?;
        let calls = self.lock();
        calls.get(&number).filter(|entry| *entry.tenant == *tenant).map(|entry| self.summary(number, entry))
    }

    /// Returns the running calls of a tenant, the newest first.
    pub(crate) fn list(&self, tenant: &str) -> Vec<CallSummary> {
        let calls = self.lock();
        let own = calls.iter().rev().filter(|(_, entry)| *entry.tenant == *tenant);
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

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_cancels_its_own_calls_only() {
        let (calls, own, other) = (RunningCalls::new(7), Arc::<str>::from("a"), "b");
        let call = calls.start(&own, "a__b");
        let id = call.id();
        assert!(!calls.cancel(other, &id) && calls.find(other, &id).is_none() && calls.list(other).is_empty());
        for wrong in ["", "h-1", "h0000000000000007-2", "h0000000000000008-1", "h0000000000000007-01"] {
            assert!(!calls.cancel(&own, wrong), "{wrong:?}");
        }
        assert!(!call.cancelled.is_cancelled());
        assert!(calls.cancel(&own, &id) && call.cancelled.is_cancelled());
        assert_eq!(calls.list(&own).len(), 1);
        drop(call);
        assert!(calls.list(&own).is_empty() && !calls.cancel(&own, &id));
    }
}
