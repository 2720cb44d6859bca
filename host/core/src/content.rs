//! The parts that a result is made of.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

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
        text: String,
    },
    /// One JSON value, as the tool wrote it. It has been parsed once, so it is well-formed.
    Json {
        /// The value.
        value: Box<RawValue>,
    },
    /// Bytes with a MIME type.
    Blob {
        /// For example `image/png`, as the tool says.
        mime_type: String,
        /// The bytes.
        #[serde(serialize_with = "to_base64")]
        data: Vec<u8>,
    },
    /// A pointer to something that the result does not carry.
    Link {
        /// Where it is.
        uri: String,
        /// A short name for people.
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        /// What would be found there.
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
}

impl Content {
    /// Text for the model to read.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The JSON that `text` holds.
    ///
    /// # Errors
    /// If it is not well-formed, or nested deeper than serde_json's limit of 128.
    pub fn json(text: String) -> Result<Self, serde_json::Error> {
        Ok(Self::Json {
            value: RawValue::from_string(text)?,
        })
    }

    /// How many bytes the part carries, as the tool made them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Json { value } => value.get().len(),
            Self::Blob { mime_type, data } => mime_type.len() + data.len(),
            Self::Link { uri, title, mime_type } => {
                uri.len() + title.as_ref().map_or(0, String::len) + mime_type.as_ref().map_or(0, String::len)
            }
        }
    }

    /// The MIME type of what the part carries.
    #[must_use]
    pub fn mime(&self) -> &str {
        match self {
            Self::Text { .. } => "text/plain",
            Self::Json { .. } => "application/json",
            Self::Blob { mime_type, .. } => mime_type,
            Self::Link { .. } => "text/uri-list",
        }
    }
}

fn to_base64<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&BASE64_STANDARD.encode(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_one_shape_in_json() {
        let parts = [
            Content::text("hi"),
            Content::json(r#"{"a": 1}"#.to_owned()).unwrap(),
            Content::Blob {
                mime_type: "image/png".to_owned(),
                data: vec![0, 255],
            },
            Content::Link {
                uri: "https://example.com/".to_owned(),
                title: None,
                mime_type: None,
            },
        ];
        let json = serde_json::to_string(&parts).unwrap();
        assert_eq!(
            json,
            r#"[{"type":"text","text":"hi"},{"type":"json","value":{"a": 1}},{"type":"blob","mime_type":"image/png","data":"AP8="},{"type":"link","uri":"https://example.com/"}]"#
        );
    }

    #[test]
    fn malformed_json_is_no_content() {
        for text in ["", "{", "1 2", "\"\u{1}\"", "nul"] {
            assert!(Content::json(text.to_owned()).is_err(), "{text:?}");
        }
    }
}
