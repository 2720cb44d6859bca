//! The store of a call in tests: a map with the rules of the real one.

use std::collections::BTreeMap;

use crate::store::{Page, StoreError};

const MAX_KEY_BYTES: usize = 256;
const MAX_VALUE_BYTES: usize = 64 << 10;
const MAX_PAGE_KEYS: usize = 1000;
/// Number of bytes that an entry counts for in addition to its key and its value.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// The entries and the quota of a store.
#[derive(Clone, Debug)]
pub(super) struct MemoryStore {
    pub(super) entries: BTreeMap<String, Vec<u8>>,
    /// The quota in bytes. `None`: there is no store.
    pub(super) quota: Option<usize>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), quota: Some(1 << 20) }
    }
}

impl MemoryStore {
    pub(super) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.require_quota()?;
        check_key(key)?;
        Ok(self.entries.get(key).cloned())
    }

    pub(super) fn set(&mut self, key: &str, value: &[u8]) -> Result<(), StoreError> {
        let quota = self.require_quota()?;
        check_key(key)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(StoreError::TooLarge);
        }
        let entry = |(key, value): (&String, &Vec<u8>)| key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        let kept: usize = self.entries.iter().map(entry).sum();
        let old = self.entries.get_key_value(key).map_or(0, entry);
        let new = kept - old + key.len() + value.len() + ENTRY_OVERHEAD_BYTES;
        if new > quota && new > kept {
            return Err(StoreError::Full);
        }
        self.entries.insert(key.to_owned(), value.to_vec());
        Ok(())
    }

    pub(super) fn delete(&mut self, key: &str) -> Result<bool, StoreError> {
        self.require_quota()?;
        check_key(key)?;
        Ok(self.entries.remove(key).is_some())
    }

    pub(super) fn list(&self, prefix: &str, cursor: Option<&str>, limit: u32) -> Result<Page, StoreError> {
        self.require_quota()?;
        check_text(prefix)?;
        cursor.map_or(Ok(()), check_key)?;
        let limit =
            usize::try_from(limit).ok().filter(|limit| (1..MAX_PAGE_KEYS).contains(limit)).unwrap_or(MAX_PAGE_KEYS);
        let is_wanted = |key: &&String| key.starts_with(prefix) && cursor.is_none_or(|cursor| key.as_str() > cursor);
        let mut wanted = self.entries.keys().filter(is_wanted).cloned();
        let keys: Vec<String> = wanted.by_ref().take(limit).collect();
        let next = wanted.next().and_then(|_| keys.last().cloned());
        Ok(Page { keys, next })
    }

    fn require_quota(&self) -> Result<usize, StoreError> {
        self.quota.ok_or(StoreError::Denied)
    }
}

fn check_key(key: &str) -> Result<(), StoreError> {
    if key.is_empty() { Err(StoreError::InvalidKey) } else { check_text(key) }
}

fn check_text(text: &str) -> Result<(), StoreError> {
    let plain = text.len() <= MAX_KEY_BYTES && !text.chars().any(char::is_control);
    if plain { Ok(()) } else { Err(StoreError::InvalidKey) }
}
