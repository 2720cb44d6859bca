//! The port: what the host asks of a store, and how much one owner may keep in it.

use std::fmt;
use std::time::Duration;

use super::{Key, Prefix};
use crate::name::Namespace;

/// The longest value, in bytes.
pub const MAX_VALUE_BYTES: usize = 64 << 10;
/// The most keys of one page.
pub const MAX_PAGE_KEYS: usize = 1000;
/// What a key costs besides its own bytes and those of its value, so that many empty ones are not free.
pub const ENTRY_BYTES: u64 = 64;

/// Which keys are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// What they begin with.
    pub prefix: Prefix,
    /// Only those that come after this one.
    pub after: Option<Key>,
    /// At most so many. At least 1, at most [`MAX_PAGE_KEYS`].
    pub limit: usize,
}

/// Some of the keys.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// In the order of their bytes.
    pub keys: Vec<Key>,
    /// Whether there are more after the last of them.
    pub more: bool,
}

/// Why a store did not do what it was asked. It then changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The owner may not keep so much.
    #[error("the store would hold {found} bytes of this owner, who may keep {most}; delete something first")]
    Full {
        /// Bytes with the new value.
        found: u64,
        /// Bytes that the owner may keep.
        most: u64,
    },
    /// It cannot be reached, or is damaged.
    #[error("{0}")]
    Unavailable(String),
}

/// Keeps keys and values for components, each apart from the others.
///
/// Every method is one step, done as a whole or not at all. They may block, and are called on threads where they hold up
/// nobody, several at once. A step that has to wait for something, such as another process that writes, waits for at
/// most `patience` and then fails as [`StoreError::Unavailable`].
pub trait KeyValueStore: fmt::Debug + Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn get(&self, owner: &Namespace, key: &Key, patience: Duration) -> Result<Option<Vec<u8>>, StoreError>;

    /// Gives a key a value, unless the owner would then keep more than `most` bytes: see [`room`].
    ///
    /// # Errors
    /// [`StoreError::Full`] and [`StoreError::Unavailable`].
    fn set(&self, owner: &Namespace, key: &Key, value: &[u8], most: u64, patience: Duration) -> Result<(), StoreError>;

    /// Removes a key. Says whether it was there.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn delete(&self, owner: &Namespace, key: &Key, patience: Duration) -> Result<bool, StoreError>;

    /// Some of the owner's keys.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    fn list(&self, owner: &Namespace, query: &Query, patience: Duration) -> Result<Page, StoreError>;
}

/// What an entry counts for: its key, its value and [`ENTRY_BYTES`].
#[must_use]
pub fn entry_bytes(key: &Key, value: u64) -> u64 {
    value.saturating_add(key.as_str().len() as u64).saturating_add(ENTRY_BYTES)
}

/// What an owner keeps after a step, out of what it kept before: `old` and `new` are the lengths of the value that goes,
/// if there is one, and of the one that comes.
///
/// Whoever keeps too much already, because the cap was lowered, may still set what is not longer than before.
///
/// # Errors
/// [`StoreError::Full`] if that is more than `most`.
pub fn room(kept: u64, key: &Key, old: Option<u64>, new: u64, most: u64) -> Result<u64, StoreError> {
    let old = old.map_or(0, |old| entry_bytes(key, old));
    let found = kept.saturating_sub(old).saturating_add(entry_bytes(key, new));
    if found > most && found > kept { Err(StoreError::Full { found, most }) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_keeps_no_more_than_its_cap() {
        let key = Key::parse("key").unwrap();
        let check = |kept, old, new, most, expected: Result<u64, u64>| {
            let found = check_quota(kept, &key, old, new, most);
            let found = found.map_err(|error| match error {
                StoreError::Full { found, .. } => found,
                StoreError::Unavailable(why) => panic!("{why}"),
            });
            assert_eq!(found, expected, "{kept} {old:?} {new} {most}");
        };
        check(0, None, 33, 100, Ok(100));
        check(0, None, 34, 100, Err(101));
        check(100, Some(33), 33, 100, Ok(100));
        check(100, Some(33), 34, 100, Err(101));
        check(100, Some(33), 0, 10, Ok(67));
        check(100, None, 0, 10, Err(167));
        check(u64::MAX, None, u64::MAX, 10, Ok(u64::MAX));
    }
}
