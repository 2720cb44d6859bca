//! The hash chain: hashes of a row's contents and of its link to the row before, and the seals of anchors.

use std::fmt;

use serde::{Serialize, Serializer};

/// A BLAKE3 hash. Displayed and serialized as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// Converts 32 bytes to a hash; `None` for any other number.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A position in the chain. A log that still contains a mark that was kept elsewhere was not rewritten up to there. A
/// [`super::Checkpoint`] also identifies the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Mark {
    /// The number of the row.
    pub seq: u64,
    /// Its hash, which covers all rows up to it.
    pub hash: Hash,
}

/// The identity of a log: random bytes, chosen when it is created.
pub(crate) type LogId = [u8; 16];

/// The key that seals anchors.
pub(crate) type Key = [u8; 32];

/// A column of a row as it is hashed, whichever database holds it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
    Blob(&'a [u8]),
}

impl<'a> Cell<'a> {
    pub(crate) fn text(text: &'a str) -> Self {
        Self::Text(text.as_bytes())
    }
}

/// Hashes the columns of a row except its number and its hashes. Each is hashed with its type and its length, so that
/// no two rows hash the same bytes.
pub(crate) fn content_hash(cells: &[Cell<'_>]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"fumehood-event-log 1 content");
    for cell in cells {
        let (kind, number);
        let bytes: &[u8] = match cell {
            Cell::Null => {
                kind = 0;
                &[]
            }
            Cell::Integer(value) => {
                kind = 1;
                number = value.to_le_bytes();
                &number
            }
            Cell::Real(value) => {
                kind = 2;
                number = value.to_le_bytes();
                &number
            }
            Cell::Text(text) => {
                kind = 3;
                text
            }
            Cell::Blob(blob) => {
                kind = 4;
                blob
            }
        };
        hasher.update(&[kind]);
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    }
    Hash(*hasher.finalize().as_bytes())
}

/// Computes the hash that the first row is linked to.
pub(crate) fn genesis_hash(log: &LogId) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"fumehood-event-log 1 genesis");
    hasher.update(log);
    Hash(*hasher.finalize().as_bytes())
}

/// Computes the hash of a row, from the previous hash, its number and its contents.
pub(crate) fn row_hash(previous: Hash, seq: u64, content: Hash) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"fumehood-event-log 1 link");
    hasher.update(&previous.0);
    hasher.update(&seq.to_le_bytes());
    hasher.update(&content.0);
    Hash(*hasher.finalize().as_bytes())
}

/// Computes the seal of an anchor: a keyed hash, which cannot be computed without the key.
pub(crate) fn seal(key: &Key, log: &LogId, seq: u64, reason: &str, hash: Hash) -> Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(b"fumehood-event-log 1 anchor");
    hasher.update(log);
    hasher.update(&seq.to_le_bytes());
    hasher.update(&hash.0);
    hasher.update(reason.as_bytes());
    Hash(*hasher.finalize().as_bytes())
}

/// Joins the heads of chains by one hash, whatever their order.
pub(crate) fn join(mut heads: Vec<(LogId, Mark)>) -> Hash {
    heads.sort_unstable_by_key(|(log, mark)| (*log, mark.seq));
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"fumehood-event-log 1 join");
    hasher.update(&(heads.len() as u64).to_le_bytes());
    for (log, Mark { seq, hash }) in heads {
        hasher.update(&log);
        hasher.update(&seq.to_le_bytes());
        hasher.update(&hash.0);
    }
    Hash(*hasher.finalize().as_bytes())
}

/// Computes the fingerprint of a key, by which a database of several writers tells their keys apart.
pub(crate) fn key_id(key: &Key) -> [u8; 16] {
    let hash = blake3::keyed_hash(key, b"fumehood-event-log 1 key id");
    let mut id = [0; 16];
    id.iter_mut().zip(hash.as_bytes()).for_each(|(to, from)| *to = *from);
    id
}

/// Returns whether a seal is valid. Compares in constant time.
pub(crate) fn is_valid_seal(key: &Key, log: &LogId, seq: u64, reason: &str, hash: Hash, found: Hash) -> bool {
    blake3::Hash::from_bytes(seal(key, log, seq, reason, hash).0) == blake3::Hash::from_bytes(found.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_hash_covers_type_and_length_of_columns() {
        let text = |text: &'static str| Cell::Text(text.as_bytes());
        assert_ne!(content_hash(&[text("ab"), text("c")]), content_hash(&[text("a"), text("bc")]));
        assert_ne!(content_hash(&[text("")]), content_hash(&[Cell::Null]));
        assert_ne!(content_hash(&[text("a")]), content_hash(&[Cell::Blob(b"a")]));
        assert_ne!(content_hash(&[Cell::Integer(0)]), content_hash(&[Cell::Real(0.0)]));
    }

    #[test]
    fn seal_depends_on_everything_that_it_covers() {
        let hash = Hash([7; 32]);
        let right = seal(&[1; 32], &[2; 16], 3, "cut", hash);
        assert!(is_valid_seal(&[1; 32], &[2; 16], 3, "cut", hash, right));
        assert!(!is_valid_seal(&[0; 32], &[2; 16], 3, "cut", hash, right));
        assert!(!is_valid_seal(&[1; 32], &[0; 16], 3, "cut", hash, right));
        assert!(!is_valid_seal(&[1; 32], &[2; 16], 4, "cut", hash, right));
        assert!(!is_valid_seal(&[1; 32], &[2; 16], 3, "rows", hash, right));
        assert!(!is_valid_seal(&[1; 32], &[2; 16], 3, "cut", Hash([8; 32]), right));
    }
}
