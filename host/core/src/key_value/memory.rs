//! The store that lives in memory and ends with its host.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Key, KeyValueStore, Page, Query, StoreError, check_quota, entry_bytes};
use crate::name::Namespace;

/// Keeps everything in memory. Nothing of it outlives the host.
#[derive(Default)]
pub struct MemoryStore {
    shelves: Mutex<HashMap<Namespace, Shelf>>,
}

/// What one owner keeps.
#[derive(Default)]
struct Shelf {
    entries: BTreeMap<Key, Vec<u8>>,
    kept: u64,
}

impl MemoryStore {
    fn shelves(&self) -> MutexGuard<'_, HashMap<Namespace, Shelf>> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says how many owners there are, and nothing of what they keep.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("owners", &self.shelves().len()).finish_non_exhaustive()
    }
}

impl KeyValueStore for MemoryStore {
    fn get(&self, owner: &Namespace, key: &Key, _patience: Duration) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.shelves().get(owner).and_then(|shelf| shelf.entries.get(key).cloned()))
    }

    fn set(
        &self,
        owner: &Namespace,
        key: &Key,
        value: &[u8],
        most: u64,
        _patience: Duration,
    ) -> Result<(), StoreError> {
        let mut shelves = self.shelves();
        let shelf = shelves.entry(owner.clone()).or_default();
        let old = shelf.entries.get(key).map(|old| old.len() as u64);
        shelf.kept = check_quota(shelf.kept, key, old, value.len() as u64, most)?;
        shelf.entries.insert(key.clone(), value.to_vec());
        Ok(())
    }

    fn delete(&self, owner: &Namespace, key: &Key, _patience: Duration) -> Result<bool, StoreError> {
        let mut shelves = self.shelves();
        let Some(shelf) = shelves.get_mut(owner) else { return Ok(false) };
        let Some(old) = shelf.entries.remove(key) else { return Ok(false) };
        shelf.kept = shelf.kept.saturating_sub(entry_bytes(key, old.len() as u64));
        Ok(true)
    }

    fn list(&self, owner: &Namespace, query: &Query, _patience: Duration) -> Result<Page, StoreError> {
        let shelves = self.shelves();
        let Some(shelf) = shelves.get(owner) else { return Ok(Page::default()) };
        let prefix = query.prefix.as_str();
        let first = match &query.after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let all = shelf.entries.range::<str, _>((first, Bound::Unbounded)).map(|(key, _)| key);
        let mut found = all.take_while(|key| key.as_str().starts_with(prefix));
        let keys = found.by_ref().take(query.limit).cloned().collect();
        Ok(Page { keys, more: found.next().is_some() })
    }
}
