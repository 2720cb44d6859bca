//! The `key-value` interface: a component uses its own part of the store, up to its quota, and nothing without a grant.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::key_value::{
    Key, KeyValueStore, MAX_PAGE_KEYS, MAX_VALUE_BYTES, MemoryStore, Prefix, Query, StoreError,
};
use fumehood_core::policy::permission::{KeyValueQuota, KeyValueUse};
use fumehood_core::telemetry;
use fumehood_core::tool::name::Namespace;
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use super::CallState;
use super::bindings::fumehood::tool::key_value::{Error, Host, Page};
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

impl ComponentStore {
    pub(crate) fn new(backend: &Arc<KeyValueBackend>, owner: Option<Namespace>) -> Self {
        Self { backend: Arc::clone(backend), owner }
    }

    /// Runs one step, which waits for at most half of the time until `deadline`.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        function: &'static str,
        deadline: Deadline,
        step: impl FnOnce(&dyn KeyValueStore, Duration) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        self.backend.step(function, move || max_wait(deadline), step).await
    }

    /// Returns the name of the component that owns it.
    pub(crate) fn owner(&self) -> Option<&Namespace> {
        self.owner.as_ref()
    }
}

/// Returns how long a step may wait: at most half of the remaining time of the call, so that a tool which gets
/// `unavailable` has time to report it.
fn max_wait(deadline: Deadline) -> Duration {
    MAX_STORE_WAIT.min(deadline.remaining() / 2)
}

impl CallState {
    /// Returns the namespace and the quota that this call may use. Must precede every other check of the step, so that
    /// a tool without a store learns nothing but that.
    fn authorize(&self, wants: KeyValueUse<'_>) -> Result<(Namespace, KeyValueQuota), Error> {
        match (&self.powers.store.owner, self.powers.grant.key_value()) {
            (Some(owner), Some(quota)) => Ok((owner.clone(), quota)),
            _ => {
                self.refusals().add(KeyValueQuota::refusal(&wants));
                Err(Error::Denied)
            }
        }
    }

    async fn with_store<R: Send + 'static>(
        &mut self,
        function: &'static str,
        step: impl FnOnce(&dyn KeyValueStore, Duration) -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, Error> {
        self.is_fuel_saved = true;
        self.powers.store.run(function, self.deadline, step).await.map_err(|error| match error {
            StoreError::Full { .. } => Error::Full,
            StoreError::Unavailable(why) => {
                self.journal.warn(&format!("the store of keys and values is unavailable: {why}"));
                Error::Unavailable
            }
        })
    }
}

impl Host for CallState {
    async fn get(&mut self, key: String) -> Result<Option<Vec<u8>>, Error> {
        let (owner, _) = self.authorize(KeyValueUse::Get(&key))?;
        let key = Key::parse(key).map_err(|_| Error::InvalidKey)?;
        self.with_store("key-value.get", move |store, patience| store.get(&owner, &key, patience)).await
    }

    async fn set(&mut self, key: String, value: Vec<u8>) -> Result<(), Error> {
        let (owner, quota) = self.authorize(KeyValueUse::Set(&key))?;
        let key = Key::parse(key).map_err(|_| Error::InvalidKey)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(Error::TooLarge);
        }
        self.with_store("key-value.set", move |store, patience| {
            store.set(&owner, &key, &value, quota.bytes(), patience)
        })
        .await
    }

    async fn delete(&mut self, key: String) -> Result<bool, Error> {
        let (owner, _) = self.authorize(KeyValueUse::Delete(&key))?;
        let key = Key::parse(key).map_err(|_| Error::InvalidKey)?;
        self.with_store("key-value.delete", move |store, patience| store.delete(&owner, &key, patience)).await
    }

    async fn list(&mut self, prefix: String, cursor: Option<String>, limit: u32) -> Result<Page, Error> {
        let (owner, _) = self.authorize(KeyValueUse::List(&prefix))?;
        let prefix = Prefix::parse(prefix).map_err(|_| Error::InvalidKey)?;
        let after = cursor.map(Key::parse).transpose().map_err(|_| Error::InvalidKey)?;
        let query = Query { prefix, after, limit: page_size(limit) };
        let found =
            self.with_store("key-value.list", move |store, patience| store.list(&owner, &query, patience)).await?;
        let keys: Vec<String> = found.keys.into_iter().map(String::from).collect();
        let next = keys.last().filter(|_| found.more).cloned();
        Ok(Page { keys, next })
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
