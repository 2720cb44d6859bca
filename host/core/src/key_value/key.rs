//! Keys and their beginnings.

use std::borrow::Borrow;

/// What a value is kept under: 1 to 256 bytes of UTF-8 without control characters. Keys are in the order of their bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// What keys may begin with: nothing, or what a key may be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefix(String);

/// A text that is no key. It comes from a guest, so it is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key has 1 to {most} bytes and no control characters", most = Key::MAX_BYTES)]
pub struct KeyError;

impl Key {
    /// The longest key, in bytes.
    pub const MOST_BYTES: usize = 256;

    /// Takes `text` for a key.
    ///
    /// # Errors
    /// If it is empty, too long, or holds a control character.
    pub fn parse(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        if text.is_empty() || !is_short_and_plain(&text) { Err(KeyError) } else { Ok(Self(text)) }
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Prefix {
    /// Takes `text` for the beginning of keys.
    ///
    /// # Errors
    /// If it is too long, or holds a control character.
    pub fn parse(text: impl Into<String>) -> Result<Self, KeyError> {
        let text = text.into();
        if is_short_and_plain(&text) { Ok(Self(text)) } else { Err(KeyError) }
    }

    /// The beginning as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Both are in the order of their bytes.
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

fn is_short_and_plain(text: &str) -> bool {
    text.len() <= Key::MAX_BYTES && !text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_plain_text() {
        let check = |text: &str, key: bool, prefix: bool| {
            assert_eq!((Key::parse(text).is_ok(), Prefix::parse(text).is_ok()), (key, prefix), "{text:?}");
        };
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
