//! What a model is asked.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::message::Message;

/// Whether the model may, must or must not call tools.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolChoice {
    /// It may call tools or answer.
    #[default]
    Auto,
    /// It must call at least one.
    Required,
    /// It must not call any.
    None,
    /// It must call this one.
    Specific(String),
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name to call it by.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments.
    pub parameters: Value,
}

/// One request to a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Which model; `None`: the one that the client is set up for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// The tools that it may call. Empty: no tools are mentioned to the provider at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSpec>,
    /// Whether it may, must or must not call them.
    #[serde(default)]
    pub tool_choice: ToolChoice,
    /// Whether the answer must be one JSON object, where the provider can be told so.
    #[serde(default)]
    pub json: bool,
    /// JSON Schema of that object, where the provider can be told so. It narrows what the model can write and checks nothing;
    /// a provider that refuses it is asked for any JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<Value>,
    /// Sampling temperature; `None`: the client's own, or else the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Most tokens of the answer; `None`: the client's own limit, or else the provider's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// How many of the first messages stay the same from request to request, so that a provider may cache them.
    #[serde(default)]
    pub cached_messages: usize,
    /// Settings of one provider that nothing here knows the meaning of.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}
