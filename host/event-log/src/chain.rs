//! What is hashed, and in which form: the contents of a row, its link to the row before, and the seal of an anchor.

use rusqlite::types::ValueRef;

use crate::hash::Hash;

/// What a log is, apart from all others: chosen at random when it is made.
pub(crate) type LogId = [u8; 16];

/// The key that seals anchors.
pub(crate) type Key = [u8; 32];

/// The hash of the columns of a row but for its number and its hashes, each with its type and its length, so that no
/// two rows have the same bytes.
pub(crate) fn content(cells: &[ValueRef<'_>]) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"fumehood-event-log 1 content");
    for cell in cells {
        let (kind, number);
        let bytes: &[u8] = match cell {
            ValueRef::Null => {
                kind = 0;
                &[]
            }
            ValueRef::Integer(value) => {
                kind = 1;
                number = value.to_le_bytes();
                &number
            }
            ValueRef::Real(value) => {
                kind = 2;
                number = value.to_le_bytes();
                &number
            }
            ValueRef::Text(text) => {
                kind = 3;
                text
            }
            ValueRef::Blob(blob) => {
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

/// What the first row follows.
pub(crate) fn genesis(log: &LogId) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"fumehood-event-log 1 genesis");
    hasher.update(log);
    Hash(*hasher.finalize().as_bytes())
}

/// The hash of a row: of the hash before it, its number and its contents.
pub(crate) fn link(previous: Hash, seq: u64, content: Hash) -> Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"fumehood-event-log 1 link");
    hasher.update(&previous.0);
    hasher.update(&seq.to_le_bytes());
    hasher.update(&content.0);
    Hash(*hasher.finalize().as_bytes())
}

/// The seal of an anchor. Only who has the key can make it.
pub(crate) fn seal(key: &Key, log: &LogId, seq: u64, reason: &str, hash: Hash) -> Hash {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(b"fumehood-event-log 1 anchor");
    hasher.update(log);
    hasher.update(&seq.to_le_bytes());
    hasher.update(&hash.0);
    hasher.update(reason.as_bytes());
    Hash(*hasher.finalize().as_bytes())
}

/// Whether a seal is the right one, in a time that does not depend on where it differs.
pub(crate) fn is_sealed(key: &Key, log: &LogId, seq: u64, reason: &str, hash: Hash, found: Hash) -> bool {
    blake3::Hash::from_bytes(seal(key, log, seq, reason, hash).0) == blake3::Hash::from_bytes(found.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_column_ends_is_part_of_the_hash() {
        let text = |text: &'static str| ValueRef::Text(text.as_bytes());
        assert_ne!(content(&[text("ab"), text("c")]), content(&[text("a"), text("bc")]));
        assert_ne!(content(&[text("")]), content(&[ValueRef::Null]));
        assert_ne!(content(&[text("a")]), content(&[ValueRef::Blob(b"a")]));
        assert_ne!(content(&[ValueRef::Integer(0)]), content(&[ValueRef::Real(0.0)]));
    }

    #[test]
    fn a_seal_depends_on_all_that_it_covers() {
        let hash = Hash([7; 32]);
        let right = seal(&[1; 32], &[2; 16], 3, "cut", hash);
        assert!(is_sealed(&[1; 32], &[2; 16], 3, "cut", hash, right));
        assert!(!is_sealed(&[0; 32], &[2; 16], 3, "cut", hash, right));
        assert!(!is_sealed(&[1; 32], &[0; 16], 3, "cut", hash, right));
        assert!(!is_sealed(&[1; 32], &[2; 16], 4, "cut", hash, right));
        assert!(!is_sealed(&[1; 32], &[2; 16], 3, "rows", hash, right));
        assert!(!is_sealed(&[1; 32], &[2; 16], 3, "cut", Hash([8; 32]), right));
    }
}
