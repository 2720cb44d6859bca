//! Members of MCP results and errors that have no place in [`Content`]. Clients of MCP get them; models do not.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::call::content::Content;
use crate::text::untrusted::{Untrusted, expose_raw};

/// Members of an MCP server's result besides its content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResultMembers {
    /// `_meta` of the result, an object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub meta: Option<Untrusted<Value>>,
    /// An array with an object for each part: its `annotations` and `_meta`, all members of a link besides its URI, title
    /// and type, and `resource` with the URI and type of an embedded resource. `null` for a part without any.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub parts: Option<Untrusted<Value>>,
}

/// The parts and the data of a failed call at an MCP server, besides the message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorDetails {
    /// The parts of the failed result, including the texts that are the message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// The `code` of a JSON-RPC error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<i64>,
    /// The `data` of a JSON-RPC error.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "expose_raw")]
    pub data: Option<Untrusted<Value>>,
}

impl ResultMembers {
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.meta.iter_mut().chain(&mut self.parts).map(Untrusted::expose_raw_mut)
    }

    /// Returns the size as JSON text, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.meta.iter().chain(&self.parts).map(|value| value.expose_raw().to_string().len()).sum()
    }

    /// Returns the number of hidden characters. See [`crate::text::sanitize`].
    #[must_use]
    pub fn hidden_chars(&self) -> u64 {
        self.meta.iter().chain(&self.parts).map(Untrusted::<Value>::hidden_chars).sum()
    }
}

impl ErrorDetails {
    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.is_empty() && self.code.is_none() && self.data.is_none()
    }
}
