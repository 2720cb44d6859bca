//! Messages of a conversation.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The program that runs the loop.
    System,
    /// The person or program on whose behalf the loop runs.
    User,
    /// The model.
    Assistant,
    /// The loop, with the result of one tool call.
    Tool,
}

/// A tool call as a model requested it. Nothing in it was looked up or checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolIntent {
    /// The id that the model gave the call; empty if it gave none.
    pub id: String,
    /// The name of the tool as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: usually, but not necessarily, JSON text.
    pub arguments: String,
}

/// A reasoning block of a model, as its provider expects it back with the calls that followed. Never displayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Thought {
    /// Text without a signature.
    Plain {
        /// The text.
        text: String,
    },
    /// Text that the provider signed.
    Signed {
        /// The text; possibly a summary, or empty.
        text: String,
        /// The opaque signature.
        signature: String,
    },
    /// A signature that belongs to one call.
    Call {
        /// The [`ToolIntent::id`] of the call.
        call: String,
        /// The opaque signature.
        signature: String,
    },
    /// An encrypted block that only the provider can read.
    Sealed {
        /// The block, as JSON text.
        block: String,
    },
}

/// An image beside the text of a message.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The MIME type: one of [`Image::MIME_TYPES`].
    pub mime_type: String,
    /// The bytes, in base64 (RFC 4648, section 4).
    pub data: Arc<str>,
}

impl Image {
    /// The types that the providers have in common.
    pub const MIME_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("mime_type", &self.mime_type).field("bytes", &self.data.len()).finish()
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The text; possibly empty if there are tool calls.
    pub content: String,
    /// The calls that an assistant's message requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolIntent>,
    /// The thoughts of the reply that an assistant's message belongs to. All messages of one reply have the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Thought>,
    /// The [`ToolIntent::id`] of the call that a tool's message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The id of the execution. The requesting message and the answering one have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_execution_id: Option<String>,
    /// True if a tool's message reports a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Images of a user's or a tool's message. A model that takes none gets the text alone, which describes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

impl Message {
    fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: Vec::new(),
            thoughts: Vec::new(),
            tool_call_id: None,
            tool_execution_id: None,
            is_error: false,
            images: Vec::new(),
        }
    }

    /// Creates a message of the program.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// Creates a message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// Creates a message with the result of a call.
    pub fn tool(call_id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call_id.into()), ..Self::new(Role::Tool, content) }
    }
}
