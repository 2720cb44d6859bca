//! An in-memory store.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Key, KeyValueStore, Page, Query, StoreError, check_quota, entry_bytes};
use crate::tool::name::Namespace;

/// A store in memory. Its contents are lost when it is dropped.
///
/// ```
/// use std::time::Duration;
///
/// use fumehood_core::key_value::{Key, KeyValueStore, MemoryStore};
/// use fumehood_core::tool::name::Namespace;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::default();
/// let notes = Namespace::parse("notes")?;
/// let key = Key::parse("shopping")?;
/// let timeout = Duration::from_secs(1);
/// store.set(&notes, &key, b"milk", 1 << 20, timeout)?;
/// assert_eq!(store.get(&notes, &key, timeout)?, Some(b"milk".to_vec()));
/// // No other component sees it.
/// assert_eq!(store.get(&Namespace::parse("calculator")?, &key, timeout)?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct MemoryStore {
    owners: Mutex<HashMap<Namespace, OwnerEntries>>,
}

#[derive(Default)]
struct OwnerEntries {
    values: BTreeMap<Key, Vec<u8>>,
    /// The size of all entries, in bytes, see [`entry_bytes`].
    bytes: u64,
}

impl OwnerEntries {
    fn set(&mut self, key: &Key, value: &[u8], quota: u64) -> Result<(), StoreError> {
        let old = self.values.get(key).map(|old| old.len() as u64);
        self.bytes = check_quota(self.bytes, key, old, value.len() as u64, quota)?;
        self.values.insert(key.clone(), value.to_vec());
        Ok(())
    }
}

impl MemoryStore {
    fn lock(&self) -> MutexGuard<'_, HashMap<Namespace, OwnerEntries>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the number of owners, without any keys or values.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("owners", &self.lock().len()).finish_non_exhaustive()
    }
}

impl KeyValueStore for MemoryStore {
    fn get(&self, owner: &Namespace, key: &Key, _timeout: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().get(owner).and_then(|entries| entries.values.get(key).cloned()))
    }

    fn set(
        &self,
        owner: &Namespace,
        key: &Key,
        value: &[u8],
        quota: u64,
        _timeout: Duration,
    ) -> Result<(), StoreError> {
        self.lock().entry(owner.clone()).or_default().set(key, value, quota)
    }

    fn compare_and_set(
        &self,
        owner: &Namespace,
        key: &Key,
        expected: Option<&[u8]>,
        value: &[u8],
        quota: u64,
        _timeout: Duration,
    ) -> Result<bool, StoreError> {
        let mut owners = self.lock();
        let entries = owners.entry(owner.clone()).or_default();
        if entries.values.get(key).map(Vec::as_slice) != expected {
            return Ok(false);
        }
        entries.set(key, value, quota).map(|()| true)
    }

    fn delete(&self, owner: &Namespace, key: &Key, _timeout: Duration) -> Result<bool, StoreError> {
        let mut owners = self.lock();
        let Some(entries) = owners.get_mut(owner) else { return Ok(false) };
        let Some(old) = entries.values.remove(key) else { return Ok(false) };
        entries.bytes = entries.bytes.saturating_sub(entry_bytes(key, old.len() as u64));
        Ok(true)
    }

    fn list(&self, owner: &Namespace, query: &Query, _timeout: Duration) -> Result<Page, StoreError> {
        let owners = self.lock();
        let Some(entries) = owners.get(owner) else { return Ok(Page::default()) };
        let prefix = query.prefix.as_str();
        let first = match &query.after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let all = entries.values.range::<str, _>((first, Bound::Unbounded)).map(|(key, _)| key);
        let mut found = all.take_while(|key| key.as_str().starts_with(prefix));
        let keys = found.by_ref().take(query.limit).cloned().collect();
        Ok(Page { keys, more: found.next().is_some() })
    }
}
