//! Types for text and JSON from a guest, a remote server or a model, which cannot be printed by accident.
//!
//! [`Untrusted`] holds the original value and has no `Display`, no `Deref` and no `Serialize`. There are two ways to
//! read it: [`Untrusted::to_sanitized`] for output to a person or a model, and [`Untrusted::expose_raw`] for digests,
//! schemas, redaction and embedders. A test lists the files that may name the second. [`PrintableText`] holds text that
//! was sanitized ([`crate::text::sanitize`]) when it was created.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::text::sanitize::{count_hidden, count_hidden_in, printable, printable_uri, printable_value};

/// The original value from an untrusted source.
///
/// ```
/// use fumehood_core::text::untrusted::Untrusted;
///
/// let text = Untrusted::from("a\u{202e}b");
/// assert_eq!(text.to_sanitized(), "a\\u{202e}b");
/// assert_eq!(text.hidden_chars(), 1);
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Untrusted<T>(T);

impl<T> Untrusted<T> {
    /// Marks a value as untrusted.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// Returns the original value. Not for screens, models or clients: see [`Untrusted::to_sanitized`].
    #[must_use]
    pub const fn expose_raw(&self) -> &T {
        &self.0
    }

    /// Returns the original value, to be changed in place.
    pub const fn expose_raw_mut(&mut self) -> &mut T {
        &mut self.0
    }

    /// Consumes `self` and returns the original value.
    #[must_use]
    pub fn expose_raw_owned(self) -> T {
        self.0
    }
}

impl Untrusted<String> {
    /// Returns the text with every hidden character escaped, see [`crate::text::sanitize::printable`].
    #[must_use]
    pub fn to_sanitized(&self) -> Cow<'_, str> {
        printable(&self.0)
    }

    /// Returns the text as a URI, with every hidden character percent-encoded, see [`crate::text::sanitize::printable_uri`].
    #[must_use]
    pub fn to_sanitized_uri(&self) -> Cow<'_, str> {
        printable_uri(&self.0)
    }

    /// Returns the number of characters that [`Untrusted::to_sanitized`] escapes.
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        count_hidden(&self.0)
    }

    /// Parses the text as JSON. The value is as untrusted as the text. Returns `None` if it is not JSON.
    #[must_use]
    pub fn parse_json(&self) -> Option<Untrusted<Value>> {
        serde_json::from_str(&self.0).ok().map(Untrusted)
    }

    /// Deserializes the text as JSON, with every character that its source wrote.
    ///
    /// # Errors
    /// If the text is not JSON, or its value does not match the type.
    pub fn read_json<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Returns the size of the original text, in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Untrusted<Value> {
    /// Returns the value with hidden characters escaped in every string and name, see [`printable_value`].
    #[must_use]
    pub fn to_sanitized(&self) -> Cow<'_, Value> {
        printable_value(&self.0).0
    }

    /// Returns the number of characters that [`Untrusted::to_sanitized`] escapes.
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        count_hidden_in(&self.0)
    }
}

impl<T: fmt::Debug> fmt::Debug for Untrusted<T> {
    /// Formats the value as its own `Debug`, sanitized.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&format!("{:?}", self.0)))
    }
}

impl From<&str> for Untrusted<String> {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Untrusted<String> {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<Value> for Untrusted<Value> {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl PartialEq<str> for Untrusted<String> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Untrusted<String> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl PartialEq<Value> for Untrusted<Value> {
    fn eq(&self, other: &Value) -> bool {
        self.0 == *other
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Untrusted<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self)
    }
}

/// Serialization of untrusted values in raw form: into locks, records and results that programs read. JSON for a person
/// is passed through [`crate::text::sanitize::printable_json`].
pub(crate) trait SerializeRaw {
    /// Serializes the original value.
    fn serialize_raw<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

impl<T: Serialize> SerializeRaw for Untrusted<T> {
    fn serialize_raw<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<T: Serialize> SerializeRaw for Option<Untrusted<T>> {
    fn serialize_raw<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_ref().map(Untrusted::expose_raw).serialize(serializer)
    }
}

/// Serializes the original value, for `#[serde(serialize_with = "expose_raw")]` on a field.
pub(crate) fn expose_raw<T: SerializeRaw, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.serialize_raw(serializer)
}

/// Text without hidden characters: [`printable`] is applied at construction. The number of escaped characters is stored
/// with it, and is not part of its value.
#[derive(Clone, Default)]
pub struct PrintableText {
    text: String,
    hidden: u64,
}

impl PrintableText {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the number of characters that were escaped at construction.
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        self.hidden
    }

    /// Replaces the text with a revision of it. The counts of escaped characters are added.
    pub fn revise(&mut self, text: impl Into<Self>) {
        let revised = text.into();
        *self = Self { hidden: self.hidden + revised.hidden, text: revised.text };
    }
}

impl PartialEq for PrintableText {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PrintableText {}

impl PartialOrd for PrintableText {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PrintableText {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for PrintableText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Serialize for PrintableText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl Deref for PrintableText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl AsRef<str> for PrintableText {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl Borrow<str> for PrintableText {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for PrintableText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for PrintableText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.text, f)
    }
}

impl From<&str> for PrintableText {
    fn from(text: &str) -> Self {
        Self { text: printable(text).into_owned(), hidden: count_hidden(text) }
    }
}

impl From<&String> for PrintableText {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<Cow<'_, str>> for PrintableText {
    fn from(text: Cow<'_, str>) -> Self {
        Self::from(text.into_owned())
    }
}

impl From<String> for PrintableText {
    fn from(text: String) -> Self {
        let clean = match printable(&text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(clean) => Some(clean),
        };
        match clean {
            Some(clean) => Self { hidden: count_hidden(&text), text: clean },
            None => Self { text, hidden: 0 },
        }
    }
}

impl From<PrintableText> for String {
    fn from(text: PrintableText) -> Self {
        text.text
    }
}

impl PartialEq<str> for PrintableText {
    fn eq(&self, other: &str) -> bool {
        self.text == other
    }
}

impl PartialEq<&str> for PrintableText {
    fn eq(&self, other: &&str) -> bool {
        self.text == *other
    }
}

impl<'de> Deserialize<'de> for PrintableText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sanitizes_unless_raw_is_exposed() {
        let text = Untrusted::from("a\u{202e}\u{2800}b");
        assert_eq!(text.to_sanitized(), "a\\u{202e}\\u{2800}b");
        assert_eq!((text.hidden_chars(), text.len()), (2, 8));
        assert_eq!(format!("{text:?}"), "\"a\\u{202e}\\u{2800}b\"");
        assert_eq!(text.expose_raw(), "a\u{202e}\u{2800}b");
        let value = Untrusted::from(json!({"a\u{200b}": "\u{1b}"}));
        assert_eq!(*value.to_sanitized(), json!({"a\\u{200b}": "\\u{1b}"}));
        assert_eq!(value.hidden_chars(), 2);
        assert_eq!(count_hidden(&format!("{value:?}")), 0);
    }

    #[test]
    fn sanitizes_printable_text_from_any_source() {
        let read: PrintableText = serde_json::from_str(r#""a\u202e""#).unwrap();
        for text in [PrintableText::from("a\u{202e}"), PrintableText::from("a\u{202e}".to_owned()), read] {
            assert_eq!((text.as_str(), text.hidden_chars()), ("a\\u{202e}", 1));
            assert_eq!(serde_json::to_string(&text).unwrap(), r#""a\\u{202e}""#);
        }
    }
    #[test]
    fn adds_counts_on_revision() {
        let mut text = PrintableText::from("a\u{202e}b");
        text.revise("[redacted]\u{200b}");
        assert_eq!((text.as_str(), text.hidden_chars()), ("[redacted]\\u{200b}", 2));
        assert_eq!(text, PrintableText::from("[redacted]\\u{200b}"), "the count is no part of the value");
    }
}
