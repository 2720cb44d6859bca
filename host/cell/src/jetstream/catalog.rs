//! The catalog of one owner: its keys with the lengths of their values, and the last write. One entry of a bucket has it, so
//! that a write counts against the quota in the moment in which it is decided.

use std::collections::BTreeMap;
use std::ops::Bound;

use bytes::Bytes;
use fumehood_core::key_value::{Key, Page, Query, StoreError, check_quota, entry_bytes};
use serde::{Deserialize, Serialize};

const FORMAT_VERSION: u32 = 1;

/// The keys of an owner, and its last write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Catalog {
    sizes: BTreeMap<Key, u64>,
    /// The size of all entries, in bytes, see [`entry_bytes`].
    bytes: u64,
    /// The last write that was decided. It may not have been carried out yet.
    pub(super) last: Option<Write>,
}

/// A write that was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Write {
    /// The number of the write.
    pub(super) id: u64,
    pub(super) key: Key,
    /// The revision of the key's entry before the write.
    pub(super) before: u64,
    /// The new value; `None` deletes the key.
    pub(super) value: Option<Bytes>,
}

/// The error of a catalog that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the catalog of an owner is damaged, or was written by a newer version")]
pub(super) struct CatalogError;

/// The first line of a stored catalog. The value of the last write follows.
#[derive(Serialize, Deserialize)]
struct CatalogHeader {
    version: u32,
    /// The keys in order: how many bytes each shares with the one before it, the rest of it, and the length of its value.
    keys: Vec<(usize, String, u64)>,
    last: Option<StoredWrite>,
}

#[derive(Serialize, Deserialize)]
struct StoredWrite {
    id: u64,
    key: String,
    before: u64,
    deletes: bool,
}

impl Catalog {
    /// Records a write.
    ///
    /// # Errors
    /// [`StoreError::Full`] if the entries would exceed `quota`.
    pub(super) fn record(&mut self, write: Write, quota: u64) -> Result<(), StoreError> {
        let old = self.sizes.get(&write.key).copied();
        match &write.value {
            Some(value) => {
                let length = value.len() as u64;
                self.bytes = check_quota(self.bytes, &write.key, old, length, quota)?;
                self.sizes.insert(write.key.clone(), length);
            }
            None => {
                self.sizes.remove(&write.key);
                self.bytes = self.bytes.saturating_sub(old.map_or(0, |old| entry_bytes(&write.key, old)));
            }
        }
        self.last = Some(write);
        Ok(())
    }

    /// Returns the size of all entries, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns a page of keys.
    pub(super) fn page(&self, query: &Query) -> Page {
        let prefix = query.prefix.as_str();
        let first = match &query.after {
            Some(after) if after.as_str() >= prefix => Bound::Excluded(after.as_str()),
            _ => Bound::Included(prefix),
        };
        let all = self.sizes.range::<str, _>((first, Bound::Unbounded)).map(|(key, _)| key);
        let mut found = all.take_while(|key| key.as_str().starts_with(prefix));
        let keys = found.by_ref().take(query.limit).cloned().collect();
        Page { keys, more: found.next().is_some() }
    }

    /// Writes the catalog. Returns the bytes, and how many of them are those of keys.
    pub(super) fn to_bytes(&self) -> (Bytes, usize) {
        let mut before = "";
        let mut keys = Vec::with_capacity(self.sizes.len());
        for (key, length) in &self.sizes {
            let shared = shared_bytes(before, key.as_str());
            keys.push((shared, key.as_str().get(shared..).unwrap_or_default().to_owned(), *length));
            before = key.as_str();
        }
        let last = self.last.as_ref().map(|write| StoredWrite {
            id: write.id,
            key: write.key.as_str().to_owned(),
            before: write.before,
            deletes: write.value.is_none(),
        });
        let mut bytes = serde_json::to_vec(&CatalogHeader { version: FORMAT_VERSION, keys, last }).unwrap_or_default();
        bytes.push(b'\n');
        let of_keys = bytes.len();
        bytes.extend_from_slice(self.last.as_ref().and_then(|write| write.value.as_deref()).unwrap_or_default());
        (bytes.into(), of_keys)
    }

    /// Reads a catalog.
    ///
    /// # Errors
    /// If it is none of this version.
    pub(super) fn from_bytes(bytes: &Bytes) -> Result<Self, CatalogError> {
        let line = bytes.iter().position(|byte| *byte == b'\n').ok_or(CatalogError)?;
        let head = bytes.get(..line).ok_or(CatalogError)?;
        let stored: CatalogHeader = serde_json::from_slice(head).map_err(|_| CatalogError)?;
        if stored.version != FORMAT_VERSION {
            return Err(CatalogError);
        }
        let mut sizes = BTreeMap::new();
        let mut total = 0_u64;
        let mut key = String::new();
        for (shared, rest, length) in stored.keys {
            key.truncate(if key.is_char_boundary(shared) { shared } else { return Err(CatalogError) });
            key.push_str(&rest);
            let parsed = Key::parse(key.as_str()).map_err(|_| CatalogError)?;
            total = total.saturating_add(entry_bytes(&parsed, length));
            sizes.insert(parsed, length);
        }
        let last = match stored.last {
            None => None,
            Some(StoredWrite { id, key, before, deletes }) => {
                let key = Key::parse(key).map_err(|_| CatalogError)?;
                let value = (!deletes).then(|| bytes.slice(line.saturating_add(1)..));
                Some(Write { id, key, before, value })
            }
        };
        Ok(Self { sizes, bytes: total, last })
    }
}

/// Returns how many bytes two texts begin with in common, in whole characters.
fn shared_bytes(one: &str, other: &str) -> usize {
    let same = one.chars().zip(other.chars()).take_while(|(one, other)| one == other);
    same.map(|(c, _)| c.len_utf8()).sum()
}

#[cfg(test)]
mod tests {
    use fumehood_core::key_value::Prefix;

    use super::*;

    fn write(key: &str, value: Option<&[u8]>) -> Write {
        Write { id: 7, key: Key::parse(key).unwrap(), before: 3, value: value.map(Bytes::copy_from_slice) }
    }

    #[test]
    fn bytes_and_catalogs_are_the_same() {
        let mut catalog = Catalog::default();
        for (key, value) in
            [("notes/1", "a"), ("notes/12", "bb\n\n"), ("nötes", ""), ("n\u{2028}*.> \"", "x"), ("~", "")]
        {
            catalog.record(write(key, Some(value.as_bytes())), 1 << 20).unwrap();
            let (bytes, of_keys) = catalog.to_bytes();
            assert_eq!(Catalog::from_bytes(&bytes).unwrap(), catalog, "{key}");
            assert_eq!(bytes.len(), of_keys + value.len());
        }
        catalog.record(write("nötes", None), 1 << 20).unwrap();
        let read = Catalog::from_bytes(&catalog.to_bytes().0).unwrap();
        assert_eq!((&read, read.sizes.contains_key("nötes")), (&catalog, false));
        assert_eq!(Catalog::from_bytes(&Catalog::default().to_bytes().0).unwrap(), Catalog::default());
    }

    #[test]
    fn size_is_that_of_the_entries_and_within_the_quota() {
        let mut catalog = Catalog::default();
        catalog.record(write("a", Some(&[0; 35])), 100).unwrap();
        assert_eq!(catalog.bytes(), 100);
        let refused = catalog.clone().record(write("b", Some(b"")), 100).unwrap_err();
        assert_eq!(refused, StoreError::Full { found: 165, quota: 100 });
        catalog.record(write("a", Some(&[0; 5])), 10).unwrap();
        assert_eq!(catalog.bytes(), 70);
        catalog.record(write("a", None), 10).unwrap();
        catalog.record(write("a", None), 10).unwrap();
        assert_eq!((catalog.bytes(), catalog.sizes.contains_key("a")), (0, false));
    }

    #[test]
    fn damaged_bytes_are_no_catalog() {
        let mut catalog = Catalog::default();
        catalog.record(write("ab", Some(b"value")), 1 << 20).unwrap();
        let text = String::from_utf8(catalog.to_bytes().0.to_vec()).unwrap();
        for (from, to) in
            [("\n", ""), ("\"version\":1", "\"version\":2"), ("[0,\"ab\"", "[1,\"ab\""), ("\"ab\"", "\"\"")]
        {
            let damaged = text.replace(from, to);
            assert_ne!(damaged, text);
            Catalog::from_bytes(&Bytes::from(damaged)).unwrap_err();
        }
        Catalog::from_bytes(&Bytes::new()).unwrap_err();
    }

    fn page_of(catalog: &Catalog, prefix: &str, after: Option<&str>, limit: usize) -> (String, bool) {
        let after = after.map(|after| Key::parse(after).unwrap());
        let page = catalog.page(&Query { prefix: Prefix::parse(prefix).unwrap(), after, limit });
        (page.keys.iter().map(Key::as_str).map(str::to_owned).collect::<Vec<_>>().join(" "), page.more)
    }

    #[test]
    fn pages_are_ordered_by_bytes() {
        let mut catalog = Catalog::default();
        for key in ["b", "a/2", "a/10", "a", "ä"] {
            catalog.record(write(key, Some(b"")), 1 << 20).unwrap();
        }
        assert_eq!(page_of(&catalog, "", None, 9), ("a a/10 a/2 b ä".to_owned(), false));
        assert_eq!(page_of(&catalog, "a/", None, 1), ("a/10".to_owned(), true));
        assert_eq!(page_of(&catalog, "a/", Some("a/10"), 1), ("a/2".to_owned(), false));
        assert_eq!(page_of(&catalog, "a/", Some("0"), 9), ("a/10 a/2".to_owned(), false));
        assert_eq!(page_of(&catalog, "a/", Some("b"), 9), (String::new(), false));
    }
}
