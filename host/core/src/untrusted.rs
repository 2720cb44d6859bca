//! Text and JSON that a guest, a remote server or a model made, as types that cannot be printed by accident.
//!
//! [`Untrusted`] holds a value as it was made and has no `Display`, no `Deref` and no `Serialize`. There are two ways out:
//! [`Untrusted::to_sanitized`] for whoever shows it to a person or a model, and [`Untrusted::expose_raw`] for digests, schemas,
//! redaction and embedders. A test lists the files that may name the second. [`PrintableText`] holds text that went through
//! [`crate::sanitize`] when it was made.

use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::sanitize::{count_hidden, count_hidden_in, printable, printable_uri, printable_value};

/// A value that somebody made who is not trusted, exactly as it was made.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Untrusted<T>(T);

impl<T> Untrusted<T> {
    /// Marks a value as untrusted.
    pub const fn new(value: T) -> Self {
        Self(value)
    }

    /// The value as it was made. Not for screens, models or clients: see [`Untrusted::to_sanitized`].
    #[must_use]
    pub const fn expose_raw(&self) -> &T {
        &self.0
    }

    /// The value as it was made, to be changed in place.
    pub const fn expose_raw_mut(&mut self) -> &mut T {
        &mut self.0
    }

    /// The value as it was made, for whoever takes it over.
    #[must_use]
    pub fn expose_raw_owned(self) -> T {
        self.0
    }
}

impl Untrusted<String> {
    /// The text with every hidden character written out, see [`crate::sanitize::printable`].
    #[must_use]
    pub fn to_sanitized(&self) -> Cow<'_, str> {
        printable(&self.0)
    }

    /// The text as a URI, with every hidden character percent-encoded, see [`crate::sanitize::printable_uri`].
    #[must_use]
    pub fn to_sanitized_uri(&self) -> Cow<'_, str> {
        printable_uri(&self.0)
    }

    /// How many characters [`Untrusted::to_sanitized`] writes out.
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        count_hidden(&self.0)
    }

    /// The JSON value that the text stands for, as untrusted as the text; `None` if it is no JSON.
    #[must_use]
    pub fn parse_json(&self) -> Option<Untrusted<Value>> {
        serde_json::from_str(&self.0).ok().map(Untrusted)
    }

    /// Bytes of the text as it was made.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Untrusted<Value> {
    /// The value with hidden characters written out in every string and name, see [`printable_value`].
    #[must_use]
    pub fn to_sanitized(&self) -> Cow<'_, Value> {
        printable_value(&self.0).0
    }

    /// How many characters [`Untrusted::to_sanitized`] writes out.
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        count_hidden_in(&self.0)
    }
}

impl<T: fmt::Debug> fmt::Debug for Untrusted<T> {
    /// The value's own form, printable.
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

/// Values whose raw form core itself may write: into locks, records and results that programs read. Whoever writes such JSON
/// for a person passes it through [`crate::sanitize::printable_json`].
pub(crate) trait SerializeRaw {
    /// Serializes the value as it was made.
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

/// For `#[serde(serialize_with = "expose_raw")]` on a field.
pub(crate) fn expose_raw<T: SerializeRaw, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    value.serialize_raw(serializer)
}

/// Text in which nothing is hidden: it goes through [`printable`] whenever one is made. It remembers how many characters
/// were written out then; that count is no part of its value.
#[derive(Clone, Default)]
pub struct PrintableText {
    text: String,
    hidden: u64,
}

impl PrintableText {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How many characters were written out when it was made.
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        self.hidden
    }

    /// Replaces the text by a version of it. The count goes on.
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
    fn nothing_hidden_comes_out_unasked() {
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
    fn printable_text_is_printable_however_it_is_made() {
        let read: PrintableText = serde_json::from_str(r#""a\u202e""#).unwrap();
        for text in [PrintableText::from("a\u{202e}"), PrintableText::from("a\u{202e}".to_owned()), read] {
            assert_eq!((text.as_str(), text.hidden_chars()), ("a\\u{202e}", 1));
            assert_eq!(serde_json::to_string(&text).unwrap(), r#""a\\u{202e}""#);
        }
    }
    #[test]
    fn a_revised_text_keeps_its_count() {
        let mut text = PrintableText::from("a\u{202e}b");
        text.revise("[redacted]\u{200b}");
        assert_eq!((text.as_str(), text.hidden_chars()), ("[redacted]\\u{200b}", 2));
        assert_eq!(text, PrintableText::from("[redacted]\\u{200b}"), "the count is no part of the value");
    }
}
