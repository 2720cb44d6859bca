//! One message of a conversation.

use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The program that runs the loop.
    System,
    /// The person, or the program on whose behalf the loop runs.
    User,
    /// The model.
    Assistant,
    /// The loop, answering one tool call.
    Tool,
}

/// A call that a model asks for. Intent only: nothing has been looked up, checked or touched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolIntent {
    /// What the model calls this call. Empty if it gave no id.
    pub id: String,
    /// The name of the tool as the model wrote it.
    pub name: String,
    /// The arguments as the model wrote them: JSON text if all is well.
    pub arguments: String,
}

/// A thought of a model, as its provider wants it back with the calls that followed from it. Never shown to anybody.
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
        /// The text. May be a summary, or empty.
        text: String,
        /// The signature. Opaque.
        signature: String,
    },
    /// A signature that belongs to one call.
    Call {
        /// [`ToolIntent::id`].
        call: String,
        /// The signature. Opaque.
        signature: String,
    },
    /// A block that only the provider can read.
    Sealed {
        /// The block, as JSON text.
        block: String,
    },
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// The text. May be empty beside tool calls.
    pub content: String,
    /// The calls that an assistant's message asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolIntent>,
    /// The thoughts of the reply that an assistant's message is of. Messages of one reply carry the same.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Thought>,
    /// Which call a tool's message answers: [`ToolIntent::id`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The execution that the message tells of. The message that asks and the one that answers carry the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_execution_id: Option<String>,
    /// Whether a tool's message tells of a failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
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
        }
    }

    /// What the program says.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// What the person says.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// What the model says.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// The result of a call.
    pub fn tool(call_id: impl Into<String>, content: impl Into<String>) -> Self {
        Self { tool_call_id: Some(call_id.into()), ..Self::new(Role::Tool, content) }
    }
}
