//! The port for stores, and the accounting of quotas.

use std::fmt;
use std::time::Duration;

use super::{Key, Prefix};
use crate::tool::name::Namespace;

/// Maximum length of a value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 << 10;
/// Maximum number of keys of one [`Page`].
pub const MAX_PAGE_KEYS: usize = 1000;
/// Overhead of an entry that counts against the quota, in bytes, so that many empty entries are not free.
pub const ENTRY_BYTES: u64 = 64;

/// A query for keys.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct Query {
    /// The prefix of the keys.
    pub prefix: Prefix,
    /// The key after which the page begins; `None` begins with the first key.
    pub after: Option<Key>,
    /// Maximum number of keys, from 1 to [`MAX_PAGE_KEYS`].
    pub limit: usize,
}

/// One page of keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct Page {
    /// The keys, ordered by their bytes.
    pub keys: Vec<Key>,
    /// True if there are more keys after the last one.
    pub more: bool,
}

/// Errors of a store. A failed operation has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub enum StoreError {
    /// The entries would exceed the owner's quota.
    #[error("the store would hold {found} bytes, but the quota is {quota}; delete something first")]
    Full {
        /// The size with the new value, in bytes.
        found: u64,
        /// The quota of the owner, in bytes.
        quota: u64,
    },
    /// The store cannot be reached, or is damaged.
    #[error("{0}")]
    Unavailable(String),
}

/// The port for key-value stores, with separate entries for each component.
///
/// Every method is atomic. Methods may block, and are called on threads reserved for blocking work, several at once. An
/// operation that has to wait for something, such as another process that writes, waits for at most `timeout` and then
/// fails with [`StoreError::Unavailable`].
pub trait KeyValueStore: fmt::Debug + Send + Sync {
    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn get(&self, owner: &Namespace, key: &Key, timeout: Duration) -> Result<Option<Vec<u8>>, StoreError>;

    /// Sets the value of a key, unless the owner's entries would then exceed `quota` bytes: see [`check_quota`].
    ///
    /// # Errors
    /// [`StoreError::Full`] and [`StoreError::Unavailable`].
    fn set(&self, owner: &Namespace, key: &Key, value: &[u8], quota: u64, timeout: Duration) -> Result<(), StoreError>;

    /// Sets the value of a key if its present value is `expected`, where `None` is a missing key. Returns whether it was set.
    ///
    /// Of several writers that expect one value, one succeeds. Values are compared, not writes: a value that was replaced and
    /// set again is the same.
    ///
    /// # Errors
    /// As for [`Self::set`].
    fn compare_and_set(
        &self,
        owner: &Namespace,
        key: &Key,
        expected: Option<&[u8]>,
        value: &[u8],
        quota: u64,
        timeout: Duration,
    ) -> Result<bool, StoreError>;

    /// Removes a key, and returns whether it existed.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn delete(&self, owner: &Namespace, key: &Key, timeout: Duration) -> Result<bool, StoreError>;

    /// Returns a page of the owner's keys.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn list(&self, owner: &Namespace, query: &Query, timeout: Duration) -> Result<Page, StoreError>;
}

/// Returns the size of an entry that counts against the quota, in bytes: its key, its value and [`ENTRY_BYTES`].
#[must_use]
pub fn entry_bytes(key: &Key, value: u64) -> u64 {
    value.saturating_add(key.as_str().len() as u64).saturating_add(ENTRY_BYTES)
}

/// Computes the size of an owner's entries after setting a value, in bytes, and checks it against the quota.
///
/// `current` is the size before; `old` and `new` are the lengths of the replaced value, if there is one, and of the new
/// one. An owner that exceeds the quota already, because it was lowered, may still set a value that is not longer than
/// the replaced one.
///
/// # Errors
/// [`StoreError::Full`] if the size would exceed `quota` and grow.
pub fn check_quota(current: u64, key: &Key, old: Option<u64>, new: u64, quota: u64) -> Result<u64, StoreError> {
    let old = old.map_or(0, |old| entry_bytes(key, old));
    let found = current.saturating_sub(old).saturating_add(entry_bytes(key, new));
    if found > quota && found > current { Err(StoreError::Full { found, quota }) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_growth_over_the_quota() {
        fn check(current: u64, old: Option<u64>, new: u64, quota: u64, expected: Result<u64, u64>) {
            let key = Key::parse("key").unwrap();
            let found = check_quota(current, &key, old, new, quota);
            let found = found.map_err(|error| match error {
                StoreError::Full { found, .. } => found,
                StoreError::Unavailable(why) => panic!("{why}"),
            });
            assert_eq!(found, expected, "{current} {old:?} {new} {quota}");
        }

        check(0, None, 33, 100, Ok(100));
        check(0, None, 34, 100, Err(101));
        check(100, Some(33), 33, 100, Ok(100));
        check(100, Some(33), 34, 100, Err(101));
        check(100, Some(33), 0, 10, Ok(67));
        check(100, None, 0, 10, Err(167));
        check(u64::MAX, None, u64::MAX, 10, Ok(u64::MAX));
    }
}
