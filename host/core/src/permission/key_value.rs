//! The private store of a tool: whether it has one, and how much it may keep there.

use super::quote::quote;
use super::{Power, Refusal};
use crate::limits::{display_bytes, parse_bytes};

/// How many bytes a component may keep in its store: keys, values, and what an entry costs besides
/// ([`ENTRY_BYTES`](crate::key_value::ENTRY_BYTES)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyValueQuota(u64);

/// A quota that cannot be granted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyValueQuotaError {
    /// Not an amount of bytes.
    #[error("`{0}` is not the size of a store; write a number and a unit, such as `512KiB` or `1MiB`")]
    NotBytes(String),
    /// Nothing fits.
    #[error("a store of {} holds no key; give at least {}, or leave it out", display_bytes(*.0), display_bytes(KeyValueQuota::MIN_BYTES))]
    TooSmall(u64),
    /// More than can be granted.
    #[error("a store of {} is more than can be granted; give at most {}", display_bytes(*.0), display_bytes(KeyValueQuota::MAX_BYTES))]
    TooLarge(u64),
}

impl KeyValueQuota {
    /// The smallest quota: room for a few short entries.
    pub const LEAST: u64 = 1 << 10;
    /// The largest quota.
    pub const MOST: u64 = 1 << 30;

    /// A quota of so many bytes.
    ///
    /// # Errors
    /// If it is not between [`Self::LEAST`] and [`Self::MOST`].
    pub fn new(bytes: u64) -> Result<Self, KeyValueQuotaError> {
        match bytes {
            ..Self::LEAST => Err(KeyValueQuotaError::TooSmall(bytes)),
            Self::LEAST..=Self::MOST => Ok(Self(bytes)),
            _ => Err(KeyValueQuotaError::TooLarge(bytes)),
        }
    }

    /// Reads `512KiB`, `1MiB`.
    ///
    /// # Errors
    /// If it is not an amount of bytes, and otherwise as [`Self::new`].
    pub fn parse(text: &str) -> Result<Self, KeyValueQuotaError> {
        let bytes = parse_bytes(text).map_err(|_| KeyValueQuotaError::NotBytes(quote(text)))?;
        Self::new(bytes as u64)
    }

    /// The quota in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The answer to a tool without a store that tried to use one.
    #[must_use]
    pub fn refusal(tried: &KeyValueUse<'_>) -> Refusal {
        Refusal {
            power: Power::KeyValue,
            tried: match tried {
                KeyValueUse::Get(key) => format!("reading the key `{}`", quote(key)),
                KeyValueUse::Set(key) => format!("setting the key `{}`", quote(key)),
                KeyValueUse::Delete(key) => format!("deleting the key `{}`", quote(key)),
                KeyValueUse::List(prefix) => format!("listing the keys that begin with `{}`", quote(prefix)),
            },
            because: "this tool was granted no key-value store".to_owned(),
            allow: Some("key_value = \"1MiB\"".to_owned()),
        }
    }
}

/// What a tool wants of its store. The texts come from a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyValueUse<'a> {
    /// The value of this key.
    Get(&'a str),
    /// Another value for this key.
    Set(&'a str),
    /// This key gone.
    Delete(&'a str),
    /// The keys that begin with this.
    List(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_is_between_a_kibibyte_and_a_gibibyte() {
        let check = |text: &str, expected: &str| {
            let found = KeyValueQuota::parse(text);
            let found = found.map_or_else(|error| error.to_string(), |quota| quota.bytes().to_string());
            assert!(found.contains(expected), "{text}: {found}");
        };
        check("1KiB", "1024");
        check("1GiB", "1073741824");
        check("1MiB", "1048576");
        check("1023", "a store of 1023 B holds no key; give at least 1.0 KiB, or leave it out");
        check("0", "a store of 0 B holds no key");
        check("2GiB", "a store of 2.0 GiB is more than can be granted; give at most 1.0 GiB");
        check("much\u{1b}", "`much\\u{1b}` is not the size of a store");
    }

    #[test]
    fn a_refusal_names_the_key_in_short() {
        let long = "k".repeat(1000);
        for tried in [KeyValueUse::Get(&long), KeyValueUse::Set("\u{1b}[2J"), KeyValueUse::List("")] {
            let refusal = KeyValueQuota::refusal(&tried).to_string();
            assert!(refusal.len() < 300 && !refusal.contains('\u{1b}'), "{refusal}");
            assert!(refusal.contains("key_value = \"1MiB\""), "{refusal}");
        }
    }
}
