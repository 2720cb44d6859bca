//! Quota of a tool's private key-value store.

use super::{GrantError, Power, Refusal};
use crate::call::limits::{display_bytes, parse_bytes};
use crate::call::quote;

/// The maximum size of a component's private store, in bytes: keys, values, and the overhead of each entry
/// ([`ENTRY_BYTES`](crate::key_value::ENTRY_BYTES)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
pub struct KeyValueQuota(u64);

impl KeyValueQuota {
    /// Minimum quota, in bytes: 1 KiB, enough for a few short entries.
    pub const MIN_BYTES: u64 = 1 << 10;
    /// Maximum quota, in bytes: 1 GiB.
    pub const MAX_BYTES: u64 = 1 << 30;

    /// Creates a quota of `bytes`.
    ///
    /// # Errors
    /// If it is not between [`Self::MIN_BYTES`] and [`Self::MAX_BYTES`].
    pub fn new(bytes: u64) -> Result<Self, GrantError> {
        match bytes {
            ..Self::MIN_BYTES => Err(GrantError::new(format!(
                "a store of {} is too small; expected at least {}, or leave it out",
                display_bytes(bytes),
                display_bytes(Self::MIN_BYTES)
            ))),
            Self::MIN_BYTES..=Self::MAX_BYTES => Ok(Self(bytes)),
            _ => Err(GrantError::new(format!(
                "a store of {} is too large; the maximum is {}",
                display_bytes(bytes),
                display_bytes(Self::MAX_BYTES)
            ))),
        }
    }

    /// Parses a quota, such as `512KiB`, `1MiB`.
    ///
    /// # Errors
    /// If it is not an amount of bytes, or [`Self::new`] fails.
    pub fn parse(text: &str) -> Result<Self, GrantError> {
        let Ok(bytes) = parse_bytes(text) else {
            return Err(GrantError::new(format!(
                "invalid store size `{}`; expected a number with a unit, such as `512KiB` or `1MiB`",
                quote(text)
            )));
        };
        Self::new(bytes as u64)
    }

    /// Returns the quota in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Creates the refusal for a tool that tried to use a store and was not granted one.
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

/// An operation of a tool on its store. The texts come from a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyValueUse<'a> {
    /// Reading the value of a key.
    Get(&'a str),
    /// Setting the value of a key.
    Set(&'a str),
    /// Deleting a key.
    Delete(&'a str),
    /// Listing the keys with a prefix.
    List(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_quotas_from_one_kibibyte_to_one_gibibyte() {
        fn check(text: &str, expected: &str) {
            let found = KeyValueQuota::parse(text);
            let found = found.map_or_else(|error| error.to_string(), |quota| quota.bytes().to_string());
            assert!(found.contains(expected), "{text}: {found}");
        }

        check("1KiB", "1024");
        check("1GiB", "1073741824");
        check("1MiB", "1048576");
        check("1023", "a store of 1023 B is too small; expected at least 1.0 KiB, or leave it out");
        check("0", "a store of 0 B is too small");
        check("2GiB", "a store of 2.0 GiB is too large; the maximum is 1.0 GiB");
        check("much\u{1b}", "invalid store size `much\\u{1b}`");
    }

    #[test]
    fn refusal_shortens_and_escapes_the_key() {
        let long = "k".repeat(1000);
        for tried in [KeyValueUse::Get(&long), KeyValueUse::Set("\u{1b}[2J"), KeyValueUse::List("")] {
            let refusal = KeyValueQuota::refusal(&tried).to_string();
            assert!(refusal.len() < 300 && !refusal.contains('\u{1b}'), "{refusal}");
            assert!(refusal.contains("key_value = \"1MiB\""), "{refusal}");
        }
    }
}
