//! The key-value store of tools in JetStream, for the workers and gateways of a cell.
//!
//! Each owner has a catalog and an entry for each key. A write is decided by one conditional write of the catalog, which then
//! has the write in it, and is carried out by a conditional write of the key's entry. Whoever decides the next write, or lists
//! keys, carries out the one before it first. So a writer that is lost between the two loses nothing, and the catalog is what
//! the quota counts.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use bytes::Bytes;
use fumehood_core::key_value::{Key, KeyValueStore, MAX_VALUE_BYTES, Page, Query, StoreError};
use fumehood_core::tool::name::Namespace;
use tokio::runtime::Handle;

use super::bucket::{Bucket, BucketError, Entry};
use super::catalog::{Catalog, CatalogError, Write};
use crate::link::ServerOptions;

/// The last part of the bucket's name.
const BUCKET: &str = "tools";
/// Time between two attempts of a request that was not answered.
const RETRY_EVERY: Duration = Duration::from_millis(20);
/// Maximum time that a writer waits before it tries again after another one was faster, in milliseconds.
const MAX_BACKOFF_MS: u64 = 32;
/// Bytes of a message beside the keys and the value.
const OVERHEAD_BYTES: usize = 4 * 1024;
/// Time that a thread waits beyond the timeout of its operation, which the operation itself ends.
const SPARE_TIME: Duration = Duration::from_millis(250);

/// A store of keys and values in JetStream. Several processes may use the same one at once.
pub struct NatsStore {
    shared: Arc<StoreState>,
    runtime: Handle,
}

struct StoreState {
    bucket: Bucket,
    /// For each owner, the revision of the catalog whose last write was carried out, as far as this process knows.
    carried_out: Mutex<HashMap<Namespace, u64>>,
}

impl fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsStore").field("bucket", &self.shared.bucket.name()).finish_non_exhaustive()
    }
}

impl NatsStore {
    /// Creates a store, which connects when it is used. Its requests run on the current runtime.
    ///
    /// # Panics
    /// Outside of a runtime of tokio.
    #[must_use]
    pub fn new(server: ServerOptions) -> Self {
        let shared = StoreState { bucket: Bucket::new(server, BUCKET), carried_out: Mutex::default() };
        Self { shared: Arc::new(shared), runtime: Handle::current() }
    }

    /// Returns a name that stores have in common if they are the same one.
    #[must_use]
    pub fn name(&self) -> String {
        format!("NATS, bucket {}", self.shared.bucket.name())
    }

    /// Connects, and makes the bucket if there is none.
    ///
    /// # Errors
    /// If the server cannot be reached, has no JetStream or is too old, or the bucket has other settings.
    pub async fn open(&self) -> Result<(), BucketError> {
        self.shared.bucket.open().await
    }

    /// Runs an operation, and waits for it on this thread.
    fn run<T, F>(
        &self,
        owner: &Namespace,
        timeout: Duration,
        operation: impl FnOnce(Operation) -> F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let attempt = Arc::new(Attempt::default());
        let operation = operation(Operation {
            shared: Arc::clone(&self.shared),
            owner: owner.clone(),
            attempt: Arc::clone(&attempt),
        });
        let (tell, told) = mpsc::sync_channel(1);
        let task = self.runtime.spawn(async move {
            // The thread may have stopped waiting.
            let _gone = tell.send(tokio::time::timeout(timeout, operation).await);
        });
        match told.recv_timeout(timeout.saturating_add(SPARE_TIME)) {
            Ok(Ok(done)) => done.map_err(StoreError::from),
            Ok(Err(_)) | Err(_) => {
                task.abort();
                Err(StoreError::Unavailable(attempt.explain()))
            }
        }
    }
}

impl KeyValueStore for NatsStore {
    fn get(&self, owner: &Namespace, key: &Key, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        let key = key.clone();
        self.run(owner, timeout, |operation| async move { operation.value(&key).await })
    }

    fn set(&self, owner: &Namespace, key: &Key, value: &[u8], quota: u64, timeout: Duration) -> Result<(), StoreError> {
        let key = key.clone();
        let value = Bytes::copy_from_slice(value);
        self.run(owner, timeout, move |operation| async move {
            operation.write(&key, Some(value), quota, |_| true).await.map(drop)
        })
    }

    fn compare_and_set(
        &self,
        owner: &Namespace,
        key: &Key,
        expected: Option<&[u8]>,
        value: &[u8],
        quota: u64,
        timeout: Duration,
    ) -> Result<bool, StoreError> {
        let key = key.clone();
        let expected = expected.map(Bytes::copy_from_slice);
        let value = Bytes::copy_from_slice(value);
        self.run(owner, timeout, move |operation| async move {
            operation.write(&key, Some(value), quota, |found| found == expected.as_ref()).await
        })
    }

    fn delete(&self, owner: &Namespace, key: &Key, timeout: Duration) -> Result<bool, StoreError> {
        let key = key.clone();
        self.run(
            owner,
            timeout,
            |operation| async move { operation.write(&key, None, 0, |found| found.is_some()).await },
        )
    }

    fn list(&self, owner: &Namespace, query: &Query, timeout: Duration) -> Result<Page, StoreError> {
        let query = query.clone();
        self.run(owner, timeout, |operation| async move { operation.page(&query).await })
    }
}

/// Failures of an operation.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Bucket(#[from] BucketError),
    #[error(transparent)]
    Damaged(#[from] CatalogError),
    #[error("the outcome of the write is unknown: the answer was lost, and others have written since")]
    Unknown,
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Store(error) => error,
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// The knowledge of an operation when its time is over.
#[derive(Debug, Default)]
struct Attempt {
    may_have_happened: AtomicBool,
    reason: Mutex<Option<String>>,
}

impl Attempt {
    fn note(&self, error: &BucketError) {
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
    }

    fn explain(&self) -> String {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = reason.as_deref().unwrap_or("the NATS server did not answer in time");
        if self.may_have_happened.load(Ordering::Relaxed) {
            format!("{reason}; the outcome of the write is unknown")
        } else {
            reason.to_owned()
        }
    }
}

/// One operation of an owner.
struct Operation {
    shared: Arc<StoreState>,
    owner: Namespace,
    attempt: Arc<Attempt>,
}

/// The outcome of a conditional write of the catalog.
enum Decision {
    /// It was decided, with this revision of the catalog.
    Made(u64),
    /// It was not decided.
    Open,
    /// The answer was lost.
    Lost,
}

impl Operation {
    async fn value(&self, key: &Key) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.get(&self.entry(key)).await?.value.map(|value| value.to_vec()))
    }

    /// Returns a page of keys.
    async fn page(&self, query: &Query) -> Result<Page, Failure> {
        let (catalog, revision) = self.catalog().await?;
        self.carry_out_last(&catalog, revision).await?;
        Ok(catalog.page(query))
    }

    /// Sets or deletes a key, if its present value is accepted. Returns whether it was.
    ///
    /// The entry is read after the last write was carried out, and the write is decided only if there was no other since.
    async fn write(
        &self,
        key: &Key,
        value: Option<Bytes>,
        quota: u64,
        accepts: impl Fn(Option<&Bytes>) -> bool,
    ) -> Result<bool, Failure> {
        let id =
            getrandom::u64().map_err(|_| StoreError::Unavailable("the system returned no random bytes".to_owned()))?;
        let mut lost_at = None;
        for round in 0_u32.. {
            let (mut catalog, revision) = self.catalog().await?;
            self.carry_out_last(&catalog, revision).await?;
            if catalog.last.as_ref().is_some_and(|last| last.id == id) {
                return Ok(true);
            }
            if lost_at.is_some_and(|lost_at| lost_at != revision) {
                return Err(Failure::Unknown);
            }
            let entry = self.get(&self.entry(key)).await?;
            if !accepts(entry.value.as_ref()) {
                return Ok(false);
            }
            let before = entry.revision;
            let write = Write { id, key: key.clone(), before, value: value.clone() };
            catalog.record(write.clone(), quota)?;
            match self.decide(&catalog, revision, quota).await? {
                Decision::Made(revision) => {
                    self.carry_out(&write, revision, Some(before)).await?;
                    return Ok(true);
                }
                Decision::Open => back_off(round).await,
                Decision::Lost => lost_at = Some(revision),
            }
        }
        Err(Failure::Unknown)
    }

    /// Writes a catalog, if that of the bucket has this revision.
    async fn decide(&self, catalog: &Catalog, revision: u64, quota: u64) -> Result<Decision, Failure> {
        let (bytes, of_keys) = catalog.to_bytes();
        let deletes = catalog.last.as_ref().is_none_or(|write| write.value.is_none());
        let max_bytes = self.shared.bucket.max_message_bytes().unwrap_or(0);
        if !deletes && of_keys > max_bytes.saturating_sub(MAX_VALUE_BYTES + OVERHEAD_BYTES) {
            tracing::warn!(
                target: "fumehood::cell",
                owner = self.owner.as_str(),
                "the names of this owner's keys have {of_keys} bytes, the maximum of a NATS message"
            );
            return Err(StoreError::Full { found: catalog.bytes(), quota }.into());
        }
        let id = catalog.last.as_ref().map_or(0, |write| write.id);
        self.attempt.may_have_happened.store(true, Ordering::Relaxed);
        let put = self.shared.bucket.put(&self.catalog_key(), revision, id, Some(bytes)).await;
        let decision = match put {
            Ok(revision) => return Ok(Decision::Made(revision)),
            Err(error @ BucketError::Lost(_)) => {
                self.attempt.note(&error);
                tokio::time::sleep(RETRY_EVERY).await;
                return Ok(Decision::Lost);
            }
            Err(BucketError::Conflict) => Ok(Decision::Open),
            Err(error) if error.is_passing() => {
                self.attempt.note(&error);
                tokio::time::sleep(RETRY_EVERY).await;
                Ok(Decision::Open)
            }
            Err(error) => Err(error.into()),
        };
        self.attempt.may_have_happened.store(false, Ordering::Relaxed);
        decision
    }

    /// Carries out the last write of a catalog, unless this process knows that it was.
    async fn carry_out_last(&self, catalog: &Catalog, revision: u64) -> Result<(), Failure> {
        let Some(write) = &catalog.last else { return Ok(()) };
        if self.shared.carried_out().get(&self.owner) == Some(&revision) {
            return Ok(());
        }
        self.carry_out(write, revision, None).await
    }

    /// Carries out the write that a revision of the catalog decided. `expected` is the revision of the key's entry, if it is
    /// known. Once another write was decided, this one was carried out before, and its value may have been replaced.
    async fn carry_out(&self, write: &Write, revision: u64, mut expected: Option<u64>) -> Result<(), Failure> {
        let entry = self.entry(&write.key);
        loop {
            let current = match expected.take() {
                Some(current) => current,
                None => {
                    // In this order: an entry that changes after it was looked at has another revision.
                    let found = self.get(&entry).await?;
                    if found.write == write.id || self.get(&self.catalog_key()).await?.revision != revision {
                        break;
                    }
                    found.revision
                }
            };
            match self.shared.bucket.put(&entry, current, write.id, write.value.clone()).await {
                Ok(_) => break,
                Err(BucketError::Conflict) => {}
                Err(error) if error.is_passing() => {
                    self.attempt.note(&error);
                    tokio::time::sleep(RETRY_EVERY).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let mut carried_out = self.shared.carried_out();
        let known = carried_out.entry(self.owner.clone()).or_default();
        *known = revision.max(*known);
        Ok(())
    }

    async fn catalog(&self) -> Result<(Catalog, u64), Failure> {
        let Entry { revision, value, .. } = self.get(&self.catalog_key()).await?;
        let catalog = value.map(|bytes| Catalog::from_bytes(&bytes)).transpose()?.unwrap_or_default();
        Ok((catalog, revision))
    }

    /// Reads an entry, as often as it takes within the time of the operation.
    async fn get(&self, key: &str) -> Result<Entry, BucketError> {
        loop {
            match self.shared.bucket.get(key).await {
                Err(error) if error.is_passing() => {
                    self.attempt.note(&error);
                    tokio::time::sleep(RETRY_EVERY).await;
                }
                other => return other,
            }
        }
    }

    fn catalog_key(&self) -> String {
        format!("{}.catalog", self.owner.as_str())
    }

    fn entry(&self, key: &Key) -> String {
        format!("{}.key.{}", self.owner.as_str(), to_token(key.as_str()))
    }
}

impl StoreState {
    fn carried_out(&self) -> MutexGuard<'_, HashMap<Namespace, u64>> {
        self.carried_out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a random time, which grows with the number of rounds.
async fn back_off(round: u32) {
    let most = 1_u64.checked_shl(round).unwrap_or(MAX_BACKOFF_MS).min(MAX_BACKOFF_MS) * 1000;
    let random = getrandom::u64().unwrap_or(most);
    tokio::time::sleep(Duration::from_micros(random % most.max(1))).await;
}

/// Writes a text as one part of a subject that the tools of NATS KV accept. Other bytes than letters, digits, `-`, `_` and `/`
/// become `=` and two hexadecimal digits.
pub(super) fn to_token(text: &str) -> String {
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'/' => token.push(char::from(byte)),
            other => token.push_str(&format!("={other:02X}")),
        }
    }
    token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_key_is_one_part_of_a_subject() {
        for (key, expected) in [
            ("notes/2026_a-B", "notes/2026_a-B"),
            ("a.b", "a=2Eb"),
            ("*", "=2A"),
            (">", "=3E"),
            (" =", "=20=3D"),
            ("ä\u{2028}", "=C3=A4=E2=80=A8"),
        ] {
            assert_eq!(to_token(key), expected);
        }
    }
}
