//! `[skills.NAME]`, `[knowledge.NAME]`, `[prompts.NAME]` and `[channels.NAME]`: the tools and texts of a conversation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use crate::amount::Time;
use crate::text::TextSource;

/// A skill: a task with its tools. While it is in use, other tools can neither be seen nor called.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillSection {
    /// The purpose of the skill. The model reads it.
    pub description: String,
    /// Instructions for the model: a text, or { file = "PATH" }.
    pub instructions: Option<TextSource>,
    /// Full names of tools, such as "calculator__add".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Entries of [knowledge] that the model may open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knowledge: Vec<String>,
    /// The tool or program that does the task instead of a model, with the message as its input. Such a skill has no
    /// `tools`, `knowledge` or `instructions`.
    pub implemented_by: Option<ImplementationSection>,
    /// A file with the JSON Schema that the result must match, relative to this configuration. A model may correct its
    /// answer twice.
    pub output_schema: Option<PathBuf>,
}

impl SkillSection {
    /// Returns the full names of the tools that it takes, for a model or not.
    pub fn all_tools(&self) -> impl Iterator<Item = &String> {
        let of_implementation = self.implemented_by.iter().flat_map(|by| by.tool.iter().chain(&by.tools));
        self.tools.iter().chain(of_implementation)
    }
}

/// The tool or program that does the task of a skill. Set either `tool` or `program`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImplementationSection {
    /// The full name of the tool, such as "calculator__add". Its result is the answer.
    pub tool: Option<String>,
    /// The JavaScript program, as the body of an asynchronous function: a text, or { file = "PATH" }. The message is in
    /// the constant `input`, and the returned value is the answer.
    pub program: Option<TextSource>,
    /// Full names of the tools that the program may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// A text that a model can open when it needs it.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KnowledgeSection {
    /// A hint that tells the model when to open it.
    pub description: String,
    /// The text, or { file = "PATH" }.
    pub text: TextSource,
    /// Its media type, for MCP clients. Default: "text/plain".
    pub mime: Option<String>,
    /// Its title in MCP clients.
    pub title: Option<String>,
    /// Its URI for MCP clients. Default: "fumehood://knowledge/NAME".
    pub uri: Option<String>,
}

/// A prompt that MCP clients offer to their users.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptSection {
    /// Its title.
    pub title: Option<String>,
    /// The purpose of the prompt.
    pub description: Option<String>,
    /// The text, or { file = "PATH" }. {NAME} is replaced by the argument of that name.
    pub text: TextSource,
    /// Entries of [knowledge] that precede the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub knowledge: Vec<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, PromptArgument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptArgument {
    /// The meaning of the argument.
    pub description: String,
    /// True if the argument is required.
    #[serde(default)]
    pub required: bool,
}

/// A channel: a way to reach the agent, with its own tools and skills.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChannelSection {
    /// Full names of available tools, such as "calculator__add".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Available skills, with their tools and knowledge. Without this key, every skill is available, with those of its
    /// tools that are in `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Maximum age of earlier calls that the model sees again, with their results. Default: 5m. "0s" shows none.
    pub replay: Option<Time>,
}
