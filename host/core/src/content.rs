//! The parts that a result is made of.

use std::borrow::Cow;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::sanitize::{count_hidden, count_hidden_in, printable_json};
use crate::untrusted::{Untrusted, expose_raw};

/// One part of a result.
///
/// In JSON: `{"type": "text", "text": …}`, `{"type": "json", "value": …}`, `{"type": "blob", "mime_type": …, "data":
/// base64}` or `{"type": "link", "uri": …}`.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text for the model to read.
    Text {
        /// The text.
        #[serde(serialize_with = "expose_raw")]
        text: Untrusted<String>,
    },
    /// One JSON value, as the tool wrote it. It has been parsed once, so it is well-formed.
    Json {
        /// The value.
        value: JsonText,
    },
    /// Bytes with a MIME type.
    Blob {
        /// For example `image/png`, as the tool says.
        #[serde(serialize_with = "expose_raw")]
        mime_type: Untrusted<String>,
        /// The bytes.
        #[serde(serialize_with = "to_base64")]
        data: Vec<u8>,
    },
    /// A pointer to something that the result does not carry.
    Link {
        /// Where it is.
        #[serde(serialize_with = "expose_raw")]
        uri: Untrusted<String>,
        /// A short name for people.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
        title: Option<Untrusted<String>>,
        /// What would be found there.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
        mime_type: Option<Untrusted<String>>,
    },
}

impl Content {
    /// Text for the model to read.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: Untrusted::new(text.into()) }
    }

    /// The JSON that `text` holds.
    ///
    /// # Errors
    /// See [`JsonText::parse`].
    pub fn json(text: String) -> Result<Self, serde_json::Error> {
        Ok(Self::Json { value: JsonText::parse(text)? })
    }

    /// How many bytes the part carries, as the tool made them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Json { value } => value.len(),
            Self::Blob { mime_type, data } => mime_type.len() + data.len(),
            Self::Link { uri, title, mime_type } => {
                let optional = |text: &Option<Untrusted<String>>| text.as_ref().map_or(0, Untrusted::len);
                uri.len() + optional(title) + optional(mime_type)
            }
        }
    }

    /// How many characters of it a reader would not see or would a terminal act on. See [`crate::sanitize`].
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        let optional = |text: &Option<Untrusted<String>>| text.as_ref().map_or(0, Untrusted::<String>::hidden_chars);
        match self {
            Self::Text { text } => text.hidden_chars(),
            Self::Json { value } => value.hidden_chars(),
            Self::Blob { mime_type, .. } => mime_type.hidden_chars(),
            Self::Link { uri, title, mime_type } => {
                uri.hidden_chars().saturating_add(optional(title)).saturating_add(optional(mime_type))
            }
        }
    }

    /// The MIME type of what the part carries.
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

/// A text that holds one JSON value, as it was written. It has been parsed once, as a whole: its nesting is not deeper
/// than 127, its numbers fit, and its escapes mean something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonText(String);

impl JsonText {
    /// Takes a text for JSON.
    ///
    /// # Errors
    /// If a parser would refuse it anywhere.
    pub fn parse(text: String) -> Result<Self, serde_json::Error> {
        serde_json::from_str::<Parses>(&text).map(|Parses| Self(text))
    }

    /// The text as the tool wrote it. Not for screens, models or clients: see [`JsonText::to_sanitized`].
    #[must_use]
    pub fn expose_raw(&self) -> &str {
        &self.0
    }

    /// JSON of the same value, with every hidden character of the text written as an escape. See
    /// [`crate::sanitize::printable_json`].
    #[must_use]
    pub fn to_sanitized(&self) -> Cow<'_, str> {
        printable_json(&self.0)
    }

    /// How many characters are hidden, in the text itself or in what its escapes stand for, whichever are more.
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        let in_text = count_hidden(&self.0);
        // Without one of these escapes, a parser gets what stands in the text, but for quotes, tabs and the like.
        let is_escape = |pair: &[u8]| matches!(pair, [b'\\', b'u' | b'b' | b'f' | b'r']);
        if !self.0.as_bytes().windows(2).any(is_escape) {
            return in_text;
        }
        let value = self.read::<serde_json::Value>().ok();
        in_text.max(value.as_ref().map_or(0, count_hidden_in))
    }

    /// Bytes of the text.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the text is empty, which no JSON is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the value into a type of yours, with every character that the tool put into it.
    ///
    /// # Errors
    /// If it does not fit that type.
    pub fn read<'de, T: Deserialize<'de>>(&'de self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

impl Serialize for JsonText {
    /// As the value that it is, not as a string.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.read::<&RawValue>().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

fn to_base64<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(data))
}

impl<'de> Deserialize<'de> for Content {
    /// From the shape that it is written in. Read field by field, so that a JSON value keeps its very text.
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
        let missing = |what| serde::de::Error::custom(format!("a {} part without `{what}`", part.kind));
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

/// What can be said of JSON that parses as a whole: depth, numbers and escapes included. Nothing is built from it.
struct Parses;

impl<'de> Deserialize<'de> for Parses {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Parses {
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
    fn every_part_has_one_shape_in_json() {
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
    fn json_content_parses_as_a_whole() {
        let check = |text: &str, expected: &str| {
            let found = Content::json(text.to_owned()).map_or_else(|error| error.to_string(), |_| "ok".to_owned());
            assert!(found.contains(expected), "{text:?}: {found}");
        };
        check(r#"{"a": [1, -2, 2.5, true, null, "b"]}"#, "ok");
        check(r#""\ud83d\ude00""#, "ok");
        check(&format!("{}{}", "[".repeat(127), "]".repeat(127)), "ok");
        check(&format!("{}{}", "[".repeat(128), "]".repeat(128)), "recursion limit");
        check(r#""\ud800""#, "hex escape");
        check("1e400", "out of range");
        for text in ["", "{", "1 2", "\"\u{1}\"", "nul"] {
            check(text, "at line 1");
        }
    }
}
