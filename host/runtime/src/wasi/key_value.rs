//! The power to keep keys and values: a component uses its own part of the store, up to its quota, and nothing without a grant.
//! The interface `key-value` is here, `wasi:keyvalue` in `capability/built_in`.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::key_value::{
    Key, KeyError, KeyValueStore, MAX_PAGE_KEYS, MAX_VALUE_BYTES, MemoryStore, Page, Prefix, Query, StoreError,
};
use fumehood_core::policy::permission::{KeyValueQuota, KeyValueUse};
use fumehood_core::telemetry;
use fumehood_core::tool::name::Namespace;
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use super::bindings::fumehood::tool::key_value::{self as bindings, Error, Host};
use super::{CallState, Powers};
use crate::engine::deadline::Deadline;
use crate::engine::guest_runtime::{Blocking, Lost};

/// Maximum number of concurrent steps over all calls. A store that hangs blocks at most this many threads.
const MAX_CONCURRENT_STEPS: usize = 8;
/// Maximum time that one step waits for other users of the store.
pub(crate) const MAX_STORE_WAIT: Duration = Duration::from_secs(2);

/// The store of a sandbox, and the threads that its steps block.
pub(crate) struct KeyValueBackend {
    store: Arc<dyn KeyValueStore>,
    permits: Arc<Semaphore>,
    threads: Blocking,
}

/// One component's part of the store.
pub(crate) struct ComponentStore {
    backend: Arc<KeyValueBackend>,
    owner: Option<Namespace>,
}

impl KeyValueBackend {
    /// Creates a backend for `store`, or for a store in memory if there is none.
    pub(crate) fn new(store: Option<Arc<dyn KeyValueStore>>, threads: Blocking) -> Self {
        let store = store.unwrap_or_else(|| Arc::new(MemoryStore::default()));
        Self { store, permits: Arc::new(Semaphore::new(MAX_CONCURRENT_STEPS)), threads }
    }

    /// Runs one step of `function`, such as `key-value.get`, in a span of its own.
    pub(crate) async fn step<R: Send + 'static>(
        &self,
        function: &'static str,
        patience: impl FnOnce() -> Duration + Send + 'static,
        step: impl FnOnce(&dyn KeyValueStore, Duration) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let span = telemetry::host_call_span(function);
        let done = self.run(patience, step).instrument(span.clone()).await;
        match &done {
            Ok(_) => {}
            Err(StoreError::Full { .. }) => telemetry::record_error(&span, "full"),
            Err(StoreError::Unavailable(_)) => telemetry::record_error(&span, "unavailable"),
        }
        done
    }

    /// Runs one step on a thread that may block. A step whose future is dropped runs to its end and holds its permit
    /// until then.
    async fn run<R: Send + 'static>(
        &self,
        patience: impl FnOnce() -> Duration + Send + 'static,
        step: impl FnOnce(&dyn KeyValueStore, Duration) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_closed| shutdown_error())?;
        let store = Arc::clone(&self.store);
        let work = move || {
            let _permit = permit;
            step(&*store, patience())
        };
        match self.threads.run(work).await {
            Ok(done) => done,
            Err(Lost::ShutDown) => Err(shutdown_error()),
            Err(Lost::Panicked(text)) => Err(StoreError::Unavailable(format!("the store panicked with `{text}`"))),
        }
    }
}

fn shutdown_error() -> StoreError {
    StoreError::Unavailable("the host is shutting down".to_owned())
}

/// The store of a component that was granted it, until a deadline.
pub(crate) struct GrantedStore<'s> {
    backend: &'s KeyValueBackend,
    owner: &'s Namespace,
    quota: KeyValueQuota,
    deadline: Deadline,
}

/// Failures of a use of the store. Each interface has its own form for them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UseError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("the value has {0} bytes; the maximum is {MAX_VALUE_BYTES}")]
    TooLarge(usize),
    #[error("the quota of the store is used up")]
    Full,
    /// The reason is for the operator.
    #[error("the store is unavailable")]
    Unavailable(String),
}

impl From<StoreError> for UseError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full { .. } => Self::Full,
            StoreError::Unavailable(why) => Self::Unavailable(why),
        }
    }
}

impl ComponentStore {
    pub(crate) fn new(backend: &Arc<KeyValueBackend>, owner: Option<Namespace>) -> Self {
        Self { backend: Arc::clone(backend), owner }
    }

    /// Returns the part of the component in another store, which shares the threads and their bound.
    pub(crate) fn within(&self, store: Arc<dyn KeyValueStore>) -> Self {
        let KeyValueBackend { permits, threads, .. } = &*self.backend;
        let backend = KeyValueBackend { store, permits: Arc::clone(permits), threads: threads.clone() };
        Self { backend: Arc::new(backend), owner: self.owner.clone() }
    }

    /// Returns the name of the component that owns it.
    pub(crate) fn owner(&self) -> Option<&Namespace> {
        self.owner.as_ref()
    }

    /// Returns the store if it is granted. Must precede every other check of a use, so that a tool without a store learns nothing
    /// but that.
    pub(crate) fn granted(&self, quota: Option<KeyValueQuota>, deadline: Deadline) -> Option<GrantedStore<'_>> {
        Some(GrantedStore { backend: &self.backend, owner: self.owner.as_ref()?, quota: quota?, deadline })
    }
}

impl GrantedStore<'_> {
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, UseError> {
        let key = Key::parse(key)?;
        self.step("key-value.get", move |store, owner, patience| store.get(owner, &key, patience)).await
    }

    pub(crate) async fn set(&self, key: &str, value: Vec<u8>) -> Result<(), UseError> {
        let key = Key::parse(key)?;
        check_value(&value)?;
        let quota = self.quota.bytes();
        let set = move |store: &dyn KeyValueStore, owner: &Namespace, patience| {
            store.set(owner, &key, &value, quota, patience)
        };
        self.step("key-value.set", set).await
    }

    /// See [`KeyValueStore::compare_and_set`].
    pub(crate) async fn compare_and_set(
        &self,
        key: &str,
        expected: Option<Vec<u8>>,
        value: Vec<u8>,
    ) -> Result<bool, UseError> {
        let key = Key::parse(key)?;
        check_value(&value)?;
        let quota = self.quota.bytes();
        let set = move |store: &dyn KeyValueStore, owner: &Namespace, patience| {
            store.compare_and_set(owner, &key, expected.as_deref(), &value, quota, patience)
        };
        self.step("key-value.compare-and-set", set).await
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<bool, UseError> {
        let key = Key::parse(key)?;
        self.step("key-value.delete", move |store, owner, patience| store.delete(owner, &key, patience)).await
    }

    pub(crate) async fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<Page, UseError> {
        let query = Query { prefix: Prefix::parse(prefix)?, after: after.map(Key::parse).transpose()?, limit };
        self.step("key-value.list", move |store, owner, patience| store.list(owner, &query, patience)).await
    }

    /// Runs one step, which waits for at most half of the time until the deadline.
    async fn step<R: Send + 'static>(
        &self,
        function: &'static str,
        step: impl FnOnce(&dyn KeyValueStore, &Namespace, Duration) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, UseError> {
        let owner = self.owner.clone();
        let deadline = self.deadline;
        let run = move |store: &dyn KeyValueStore, patience| step(store, &owner, patience);
        Ok(self.backend.step(function, move || max_wait(deadline), run).await?)
    }
}

fn check_value(value: &[u8]) -> Result<(), UseError> {
    if value.len() > MAX_VALUE_BYTES { Err(UseError::TooLarge(value.len())) } else { Ok(()) }
}

/// Returns how long a step may wait: at most half of the remaining time of the call, so that a tool which gets
/// `unavailable` has time to report it.
fn max_wait(deadline: Deadline) -> Duration {
    MAX_STORE_WAIT.min(deadline.remaining() / 2)
}

impl CallState {
    /// Returns the store for a use.
    fn authorize<'p>(&mut self, powers: &'p Powers, wants: KeyValueUse<'_>) -> Result<GrantedStore<'p>, Error> {
        self.is_fuel_saved = true;
        powers.store.granted(powers.grant.key_value(), self.deadline).ok_or_else(|| {
            self.refusals().add(KeyValueQuota::refusal(&wants));
            Error::Denied
        })
    }

    fn explain<R>(&mut self, used: Result<R, UseError>) -> Result<R, Error> {
        used.map_err(|error| match error {
            UseError::Key(_) => Error::InvalidKey,
            UseError::TooLarge(_) => Error::TooLarge,
            UseError::Full => Error::Full,
            UseError::Unavailable(why) => {
                self.journal.warn(&format!("the store of keys and values is unavailable: {why}"));
                Error::Unavailable
            }
        })
    }
}

impl Host for CallState {
    async fn get(&mut self, key: String) -> Result<Option<Vec<u8>>, Error> {
        let powers = Arc::clone(&self.powers);
        let found = self.authorize(&powers, KeyValueUse::Get(&key))?.get(&key).await;
        self.explain(found)
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> Result<(), Error> {
        let powers = Arc::clone(&self.powers);
        let set = self.authorize(&powers, KeyValueUse::Set(&key))?.set(&key, value).await;
        self.explain(set)
    }

    async fn delete(&mut self, key: String) -> Result<bool, Error> {
        let powers = Arc::clone(&self.powers);
        let deleted = self.authorize(&powers, KeyValueUse::Delete(&key))?.delete(&key).await;
        self.explain(deleted)
    }

    async fn list(&mut self, prefix: String, cursor: Option<String>, limit: u32) -> Result<bindings::Page, Error> {
        let powers = Arc::clone(&self.powers);
        let store = self.authorize(&powers, KeyValueUse::List(&prefix))?;
        let found = store.list(&prefix, cursor.as_deref(), page_size(limit)).await;
        let found = self.explain(found)?;
        let keys: Vec<String> = found.keys.into_iter().map(String::from).collect();
        let next = keys.last().filter(|_| found.more).cloned();
        Ok(bindings::Page { keys, next })
    }
}

fn page_size(limit: u32) -> usize {
    match usize::try_from(limit) {
        Ok(limit @ 1..MAX_PAGE_KEYS) => limit,
        _ => MAX_PAGE_KEYS,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn page_size_is_between_one_and_the_maximum() {
        for (limit, expected) in [(0, 1000), (1, 1), (999, 999), (1000, 1000), (u32::MAX, 1000)] {
            assert_eq!(page_size(limit), expected);
        }
    }

    fn wait_within(budget_ms: u64) -> Duration {
        max_wait(Deadline::after(Instant::now(), Duration::from_millis(budget_ms)))
    }

    #[test]
    fn step_waits_at_most_half_of_the_remaining_time() {
        assert_eq!(wait_within(10_000), MAX_STORE_WAIT);
        assert!(wait_within(100) <= Duration::from_millis(50));
        assert_eq!(wait_within(0), Duration::ZERO);
    }
}
