//! The parts of a result.

use serde::Serialize;

use crate::ToolError;

/// One part of a result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// Text for the model to read.
    Text(String),
    /// One JSON value.
    Json(serde_json::Value),
    /// Bytes with a MIME type.
    Blob(Blob),
    /// A pointer to something that the result does not carry.
    Link(Link),
}

/// Bytes that are not text, with what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// For example `image/png`.
    pub mime_type: String,
    /// The bytes.
    pub data: Vec<u8>,
}

/// A pointer to something that the result does not carry. The host never fetches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// An absolute URI.
    pub uri: String,
    /// A short name for people.
    pub title: Option<String>,
    /// What would be found there, for example `text/html`.
    pub mime_type: Option<String>,
}

impl Content {
    /// Text for the model to read.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// One JSON value.
    ///
    /// # Errors
    ///
    /// If `value` has no JSON form, for example a map whose keys are not strings.
    pub fn json(value: &impl Serialize) -> Result<Self, ToolError> {
        serde_json::to_value(value)
            .map(Self::Json)
            .map_err(|error| ToolError::failed(format!("the tool's result has no JSON form: {error}")))
    }

    /// Bytes with a MIME type.
    pub fn blob(mime_type: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        Self::Blob(Blob { mime_type: mime_type.into(), data: data.into() })
    }

    /// A pointer to something at `uri`, which has to be absolute.
    pub fn link(uri: impl Into<String>) -> Self {
        Self::Link(Link { uri: uri.into(), title: None, mime_type: None })
    }
}

/// Text, so that a plain string is progress.
impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

/// Text, so that a plain string is progress.
impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Blob> for Content {
    fn from(blob: Blob) -> Self {
        Self::Blob(blob)
    }
}

impl From<Link> for Content {
    fn from(link: Link) -> Self {
        Self::Link(link)
    }
}
