//! The content parts of a result.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::schema::json_reader::is_json;
use crate::text::sanitize::{count_hidden, count_hidden_in, printable_json};
use crate::text::untrusted::{Untrusted, expose_raw};

/// One part of a result.
///
/// In JSON: `{"type": "text", "text": …}`, `{"type": "json", "value": …}`, `{"type": "blob", "mime_type": …, "data":
/// base64}` or `{"type": "link", "uri": …}`.
///
/// ```
/// use fumehood_core::call::content::Content;
///
/// let parts = [Content::text("two cups"), Content::json(r#"{"cups":2}"#.to_owned())?];
/// for part in &parts {
///     match part {
///         // Sanitized text is safe on a terminal.
///         Content::Text { text } => assert_eq!(text.to_sanitized(), "two cups"),
///         Content::Json { value } => assert_eq!(value.read::<serde_json::Value>()?["cups"], 2),
///         Content::Blob { mime_type, data } => println!("{}: {} bytes", mime_type.to_sanitized(), data.len()),
///         Content::Link { uri, .. } => println!("{}", uri.to_sanitized_uri()),
///     }
/// }
/// assert_eq!(parts.map(|part| part.bytes()), [8, 10]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text for the model to read.
    Text {
        /// The text.
        #[serde(serialize_with = "expose_raw")]
        text: Untrusted<String>,
    },
    /// One JSON value, as the tool wrote it. It was parsed once, so it is well-formed.
    Json {
        /// The value.
        value: JsonText,
    },
    /// Bytes with a MIME type.
    Blob {
        /// The MIME type that the tool declared, such as `image/png`.
        #[serde(serialize_with = "expose_raw")]
        mime_type: Untrusted<String>,
        /// The bytes.
        #[serde(serialize_with = "to_base64")]
        data: Vec<u8>,
    },
    /// A link to a resource that the result does not contain.
    Link {
        /// The URI of the resource.
        #[serde(serialize_with = "expose_raw")]
        uri: Untrusted<String>,
        /// A short display name.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
        title: Option<Untrusted<String>>,
        /// The MIME type of the resource.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
        mime_type: Option<Untrusted<String>>,
    },
}

/// Maximum number of parts of a result that are read on the thread that serves others.
const MAX_INLINE_PARTS: usize = 256;
/// Maximum size of a result that is read on the thread that serves others, in bytes.
const MAX_INLINE_BYTES: usize = 64 << 10;

/// Returns whether a result is so large that reading all of it takes longer than handing it to another thread.
#[must_use]
pub fn is_large(parts: &[Content]) -> bool {
    parts.len() > MAX_INLINE_PARTS || parts.iter().map(Content::bytes).sum::<usize>() > MAX_INLINE_BYTES
}

/// Returns the bytes that a result of `parts` parts counts towards its limit in addition to their content: each part but
/// the first costs the host something, even if it is empty.
#[must_use]
pub fn overhead_bytes(parts: usize) -> usize {
    const PART_BYTES: usize = 32;
    parts.saturating_sub(1).saturating_mul(PART_BYTES)
}

impl Content {
    /// Creates a text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: Untrusted::new(text.into()) }
    }

    /// Creates a JSON part from its text.
    ///
    /// # Errors
    /// See [`JsonText::parse`].
    pub fn json(text: String) -> Result<Self, serde_json::Error> {
        Ok(Self::Json { value: JsonText::parse(text)? })
    }

    /// Makes a text part that is the text of one JSON value a JSON part. Other parts stay.
    ///
    /// # Errors
    /// See [`JsonText::parse`].
    pub fn into_json(self) -> Result<Self, serde_json::Error> {
        let Self::Text { text } = self else { return Ok(self) };
        let mut text = text.expose_raw_owned();
        text.truncate(text.trim_end().len());
        Self::json(text)
    }

    /// Returns the size of the part in bytes, as the tool returned it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Json { value } => value.len(),
            Self::Blob { mime_type, data } => mime_type.len() + data.len(),
            Self::Link { uri, title, mime_type } => {
                uri.len() + title.as_ref().map_or(0, Untrusted::len) + mime_type.as_ref().map_or(0, Untrusted::len)
            }
        }
    }

    /// Returns the number of characters that a reader would not see or that a terminal would act on. See
    /// [`crate::text::sanitize`].
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        match self {
            Self::Text { text } => text.hidden_chars(),
            Self::Json { value } => value.hidden_chars(),
            Self::Blob { mime_type, .. } => mime_type.hidden_chars(),
            Self::Link { uri, title, mime_type } => {
                let title = title.as_ref().map_or(0, Untrusted::<String>::hidden_chars);
                let mime_type = mime_type.as_ref().map_or(0, Untrusted::<String>::hidden_chars);
                uri.hidden_chars().saturating_add(title).saturating_add(mime_type)
            }
        }
    }

    /// Returns the MIME type of the part.
    #[must_use]
    pub fn mime(&self) -> Cow<'static, str> {
        match self {
            Self::Text { .. } => Cow::Borrowed("text/plain"),
            Self::Json { .. } => Cow::Borrowed("application/json"),
            Self::Blob { mime_type, .. } => Cow::Owned(mime_type.to_sanitized().into_owned()),
            Self::Link { .. } => Cow::Borrowed("text/uri-list"),
        }
    }
}

/// The text of one JSON value, as it was written.
///
/// It was parsed once as a whole: its nesting is not deeper than 127, and its escapes are valid. Its numbers have any
/// size.
///
/// ```
/// use fumehood_core::call::content::JsonText;
///
/// #[derive(serde::Deserialize)]
/// struct Order {
///     cups: u32,
/// }
///
/// let text = JsonText::parse(r#"{"cups": 2}"#.to_owned())?;
/// let order: Order = text.read()?;
/// assert_eq!(order.cups, 2);
/// assert!(JsonText::parse("{cups: 2}".to_owned()).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonText(String);

impl JsonText {
    /// Parses `text` as one JSON value and keeps the text.
    ///
    /// # Errors
    /// If it is not valid JSON as a whole.
    pub fn parse(text: String) -> Result<Self, serde_json::Error> {
        // Quicker than `serde_json`, which knows the rest and the words for what is wrong.
        if !is_json(&text) {
            let AnyJson = serde_json::from_str(&text)?;
        }
        Ok(Self(text))
    }

    /// Returns the text as the tool wrote it. Not for screens, models or clients: see [`JsonText::to_sanitized`].
    #[must_use]
    pub fn expose_raw(&self) -> &str {
        &self.0
    }

    /// Returns JSON of the same value, with every hidden character of the text escaped. See
    /// [`crate::text::sanitize::printable_json`].
    #[must_use]
    pub fn to_sanitized(&self) -> Cow<'_, str> {
        printable_json(&self.0)
    }

    /// Returns the number of hidden characters in the text itself or in its unescaped value, whichever is larger.
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        let in_text = count_hidden(&self.0);
        // Without one of these escapes, the parsed value has the same characters, apart from quotes, tabs and the like.
        let text = self.0.as_bytes();
        let is_escape = |at: usize| matches!(text.get(at + 1), Some(b'u' | b'b' | b'f' | b'r'));
        if !memchr::memchr_iter(b'\\', text).any(is_escape) {
            return in_text;
        }
        let value = self.read::<serde_json::Value>().ok();
        in_text.max(value.as_ref().map_or(0, count_hidden_in))
    }

    /// Returns the length of the text in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the text is empty, which valid JSON never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Deserializes the value, with every character that the tool wrote.
    ///
    /// # Errors
    /// If the value does not match the type.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl Serialize for JsonText {
    /// Writes the value itself, not a string that contains it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.read::<&RawValue>().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

fn to_base64<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(data))
}

impl<'de> Deserialize<'de> for Content {
    /// Reads the serialized form, field by field, so that a JSON value keeps its exact text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        struct Shape {
            #[serde(rename = "type")]
            kind: String,
            #[serde(default)]
            text: String,
            #[serde(default)]
            value: Option<Box<RawValue>>,
            #[serde(default)]
            mime_type: Option<String>,
            #[serde(default)]
            data: String,
            #[serde(default)]
            uri: String,
            #[serde(default)]
            title: Option<String>,
        }
        let part = Shape::deserialize(deserializer)?;
        let missing = |what| serde::de::Error::custom(format!("a {} part has no `{what}`", part.kind));
        match part.kind.as_str() {
            "text" => Ok(Self::text(part.text)),
            "json" => {
                let value = part.value.ok_or_else(|| missing("value"))?;
                Self::json(value.get().to_owned()).map_err(serde::de::Error::custom)
            }
            "blob" => {
                let mime_type = part.mime_type.ok_or_else(|| missing("mime_type"))?;
                let data = BASE64_STANDARD.decode(&part.data).map_err(serde::de::Error::custom)?;
                Ok(Self::Blob { mime_type: mime_type.into(), data })
            }
            "link" => Ok(Self::Link {
                uri: part.uri.into(),
                title: part.title.map(Untrusted::new),
                mime_type: part.mime_type.map(Untrusted::new),
            }),
            other => Err(serde::de::Error::unknown_variant(other, &["text", "json", "blob", "link"])),
        }
    }
}

/// A visitor that accepts any JSON value and builds nothing. Depth, numbers and escapes are checked on the way.
struct AnyJson;

impl<'de> Deserialize<'de> for AnyJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for AnyJson {
    type Value = Self;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        while entries.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serializes_parts_with_a_type_tag() {
        let parts = [
            Content::text("hi"),
            Content::json(r#"{"a": 1}"#.to_owned()).unwrap(),
            Content::Blob { mime_type: "image/png".into(), data: vec![0, 255] },
            Content::Link { uri: "https://example.com/".into(), title: None, mime_type: None },
        ];
        let json = serde_json::to_string(&parts).unwrap();
        assert_eq!(
            json,
            r#"[{"type":"text","text":"hi"},{"type":"json","value":{"a": 1}},{"type":"blob","mime_type":"image/png","data":"AP8="},{"type":"link","uri":"https://example.com/"}]"#
        );
    }

    #[test]
    fn json_content_is_parsed_as_a_whole() {
        fn check(text: &str, expected: &str) {
            let found = Content::json(text.to_owned()).map_or_else(|error| error.to_string(), |_| "ok".to_owned());
            assert!(found.contains(expected), "{text:?}: {found}");
        }

        check(r#"{"a": [1, -2, 2.5, true, null, "b"]}"#, "ok");
        check(r#""\ud83d\ude00""#, "ok");
        check(&format!("{}{}", "[".repeat(127), "]".repeat(127)), "ok");
        check(&format!("{}{}", "[".repeat(128), "]".repeat(128)), "recursion limit");
        check(r#""\ud800""#, "hex escape");
        check("[1e400, 12345678901234567890123]", "ok");
        for text in ["", "{", "1 2", "\"\u{1}\"", "nul"] {
            check(text, "at line 1");
        }
    }
}
