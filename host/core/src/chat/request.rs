//! Requests to a model.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::message::Message;

/// The constraint on the model's tool calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// The model may call tools or answer.
    #[default]
    Auto,
    /// The model must call at least one tool.
    Required,
    /// The model must not call any tool.
    None,
    /// The model must call the tool of this name.
    Specific(String),
}

/// The description of a tool for a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The full name of the tool. Calls have it, under whatever name the model calls the tool.
    pub name: String,
    /// The name that the model is given instead, unless another tool has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// A description of what the tool does and when to use it.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments.
    pub parameters: Value,
}

/// One request to a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The model; `None` is the one that the client is configured for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The available tools. If empty, the request to the provider contains no tools at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// The constraint on tool calls.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// True if the answer must be one JSON object, where the provider supports that.
    #[serde(default)]
    pub json: bool,
    /// JSON Schema of that object, where the provider supports that. It constrains the model's output and validates
    /// nothing; if a provider refuses the schema, any JSON object is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<Value>,
    /// Sampling temperature; `None` is the default of the client, or else of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Maximum number of tokens of the answer; `None` is the limit of the client, or else of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Prefixes of the conversation that later requests repeat, each as its number of messages, the shortest first. A
    /// provider that caches only where it is told to gets a breakpoint after the last message of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cache_breakpoints: Vec<usize>,
    /// Provider-specific settings, passed through unchanged.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}
