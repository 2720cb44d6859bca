//! Texts of others on their way to a client: nothing hidden passes, and what was written out is counted.

use std::borrow::Cow;

use fumehood_core::sanitize::{hidden, printable, printable_value};
use fumehood_core::untrusted::Untrusted;
use rmcp::model::MetaObject;
use serde_json::{Value, json};

/// Under this name, `_meta` of a result, a tool or a prompt says how many characters were written out.
const META_KEY: &str = "fumehood/sanitized";

/// Sanitizes the parts of one answer and counts the characters that it wrote out.
#[derive(Debug, Default)]
pub(crate) struct Sanitizer {
    count: u64,
}

impl Sanitizer {
    /// The text with every hidden character written out.
    pub(crate) fn text(&mut self, text: String) -> String {
        self.count += hidden(&text);
        match printable(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(clean) => clean,
        }
    }

    /// The same for text of a tool.
    pub(crate) fn untrusted(&mut self, text: &Untrusted<String>) -> String {
        self.count += text.hidden();
        text.sanitized().into_owned()
    }

    /// The text as a URI, hidden characters percent-encoded.
    pub(crate) fn uri(&mut self, uri: &Untrusted<String>) -> String {
        self.count += uri.hidden();
        uri.sanitized_uri().into_owned()
    }

    /// The value with hidden characters written out in all strings and names: an escape would become the character again
    /// in the client's parser.
    pub(crate) fn value(&mut self, value: Value) -> Value {
        let (clean, count) = match printable_value(&value) {
            (Cow::Borrowed(_), count) => (None, count),
            (Cow::Owned(clean), count) => (Some(clean), count),
        };
        self.count += count;
        clean.unwrap_or(value)
    }

    /// Counts characters that were written out elsewhere, in the same texts or in more.
    pub(crate) fn at_least(&mut self, count: u64) {
        self.count = self.count.max(count);
    }

    /// Says in `meta` how many characters were written out, if any were.
    pub(crate) fn report(&self, meta: &mut Option<MetaObject>) {
        if self.count > 0 {
            meta.get_or_insert_with(MetaObject::new).0.insert(META_KEY.to_owned(), json!(self.count));
        }
    }
}
