//! Sanitizing of untrusted text before it is sent to a client: hidden characters are escaped and counted.

use std::borrow::Cow;

use fumehood_core::text::sanitize::{count_hidden, printable, printable_value};
use fumehood_core::text::untrusted::Untrusted;
use rmcp::model::MetaObject;
use serde_json::{Value, json};

/// Key in `_meta` of a result, a tool or a prompt for the number of characters that were escaped.
pub(super) const META_KEY: &str = "fumehood/sanitized";

/// Sanitizer for the parts of one answer, which counts the characters that it escapes.
#[derive(Debug, Default)]
pub(crate) struct Sanitizer {
    count: u64,
}

impl Sanitizer {
    /// Returns the text with every hidden character escaped.
    pub(crate) fn text(&mut self, text: String) -> String {
        self.count += count_hidden(&text);
        match printable(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        }
    }

    /// Like [`Self::text`], for text of a tool.
    pub(crate) fn untrusted(&mut self, text: &Untrusted<String>) -> String {
        self.count += text.hidden_chars();
        text.to_sanitized().into_owned()
    }

    /// Returns the text as a URI, with hidden characters percent-encoded (RFC 3986, section 2.1).
    pub(crate) fn uri(&mut self, uri: &Untrusted<String>) -> String {
        self.count += uri.hidden_chars();
        uri.to_sanitized_uri().into_owned()
    }

    /// Returns the value with hidden characters escaped in all strings and names. A JSON escape alone would become the
    /// character again in the client's parser.
    pub(crate) fn value(&mut self, value: Value) -> Value {
        let (clean, count) = match printable_value(&value) {
            (Cow::Borrowed(_), count) => (None, count),
            (Cow::Owned(clean), count) => (Some(clean), count),
        };
        self.count += count;
        clean.unwrap_or(value)
    }

    /// Returns the number of characters that were escaped.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Raises the count to at least `count`, for characters that were escaped elsewhere in the same texts or in more.
    pub(crate) fn at_least(&mut self, count: u64) {
        self.count = self.count.max(count);
    }

    /// Writes the count to `meta`, unless it is zero.
    pub(crate) fn report(&self, meta: &mut Option<MetaObject>) {
        if self.count > 0 {
            meta.get_or_insert_with(MetaObject::new).0.insert(META_KEY.to_owned(), json!(self.count));
        }
    }
}
