//! Keys, and prefixes of keys.

use std::borrow::Borrow;

/// A key of a store: 1 to 256 bytes of UTF-8 without control characters. Keys are ordered by their bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "wire", serde(try_from = "String", into = "String"))]
pub struct Key(String);

/// A prefix of keys: empty, or a valid [`Key`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "wire", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "wire", serde(try_from = "String", into = "String"))]
pub struct Prefix(String);

/// The error of an invalid key. The text comes from a guest, so it is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid key; expected 1 to {max} bytes without control characters", max = Key::MAX_BYTES)]
pub struct KeyError;

impl Key {
    /// Maximum length of a key, in bytes.
    pub const MAX_BYTES: usize = 256;

    /// Parses a key.
    ///
    /// # Errors
    /// If it is empty, too long, or contains a control character.
    pub fn parse(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        if text.is_empty() || !is_valid_prefix(&text) { Err(KeyError) } else { Ok(Self(text)) }
    }

    /// Returns the key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Prefix {
    /// Parses a prefix.
    ///
    /// # Errors
    /// If it is too long, or contains a control character.
    pub fn parse(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        if is_valid_prefix(&text) { Ok(Self(text)) } else { Err(KeyError) }
    }

    /// Returns the prefix as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Keys and texts have the same order, that of their bytes.
impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0
    }
}

impl TryFrom<String> for Key {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

impl From<Prefix> for String {
    fn from(prefix: Prefix) -> Self {
        prefix.0
    }
}

impl TryFrom<String> for Prefix {
    type Error = KeyError;

    fn try_from(text: String) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

fn is_valid_prefix(text: &str) -> bool {
    text.len() <= Key::MAX_BYTES && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_short_text_without_control_characters() {
        fn check(text: &str, key: bool, prefix: bool) {
            assert_eq!((Key::parse(text).is_ok(), Prefix::parse(text).is_ok()), (key, prefix), "{text:?}");
        }

        check("a", true, true);
        check("notes/2026/Überblick 1", true, true);
        check(&"a".repeat(256), true, true);
        check("", false, true);
        check(&"a".repeat(257), false, false);
        check(&"ä".repeat(129), false, false);
        check("a\0", false, false);
        check("a\nb", false, false);
        check("\u{9b}31m", false, false);
    }
}
