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
    /// Binary data with its MIME type.
    Blob(Blob),
    /// A link to a resource outside the result.
    Link(Link),
}

/// Binary data with its MIME type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blob {
    /// The MIME type, for example `image/png`.
    pub mime_type: String,
    /// The bytes.
    pub data: Vec<u8>,
}

/// A link to a resource outside the result. The host never fetches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// An absolute URI.
    pub uri: String,
    /// A short name for people.
    pub title: Option<String>,
    /// The MIME type of the resource, for example `text/html`.
    pub mime_type: Option<String>,
}

impl Content {
    /// Creates a part of text for the model to read.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Serializes a value to a part of JSON.
    ///
    /// # Errors
    ///
    /// If `value` cannot be serialized as JSON, for example a map whose keys are not strings.
    pub fn json(value: &impl Serialize) -> Result<Self, ToolError> {
        serde_json::to_value(value)
            .map(Self::Json)
            .map_err(|error| ToolError::failed(format!("the tool's result has no JSON form: {error}")))
    }

    /// Creates a part of binary data.
    pub fn blob(mime_type: impl Into<String>, data: impl Into<Vec<u8>>) -> Self {
        Self::Blob(Blob { mime_type: mime_type.into(), data: data.into() })
    }

    /// Creates a link to `uri`, which must be absolute.
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
