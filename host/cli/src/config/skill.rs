//! `[skills.NAME]`, `[knowledge.NAME]`, `[prompts.NAME]` and `[channels.NAME]`: the tools and texts of a conversation.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fumehood::settings::TextSource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::amount::Time;

/// A task with the tools that it takes. While it is in use, other tools can neither be seen nor called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SkillSection {
    /// The purpose of the skill. The model reads it.
    pub(crate) description: String,
    /// Further instructions for the model: a text, or { file = "…" }.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instructions: Option<TextSource>,
    /// Full names of tools, such as "calculator__add".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<String>,
    /// Entries of [knowledge] that the model may open.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) knowledge: Vec<String>,
    /// The tool or the program that does the task instead of a model, with the message as its input. Such a skill has no
    /// `tools`, `knowledge` or `instructions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) implemented_by: Option<ImplementationSection>,
    /// A file with the JSON Schema that the result must match. A model is asked to correct its answer, at most twice. The
    /// path is relative to this configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<PathBuf>,
}

impl SkillSection {
    /// Returns the full names of the tools that it takes, for a model or not.
    pub(crate) fn all_tools(&self) -> impl Iterator<Item = &String> {
        let of_implementation = self.implemented_by.iter().flat_map(|by| by.tool.iter().chain(&by.tools));
        self.tools.iter().chain(of_implementation)
    }
}

/// The tool or the program that does the task of a skill: one of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImplementationSection {
    /// The full name of the tool, such as "calculator__add". Its result is the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
    /// The program in JavaScript, the body of an asynchronous function: a text, or { file = "…" }. The message is the
    /// constant `input`, and the value that it returns is the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<TextSource>,
    /// Full names of the tools that the program may call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<String>,
}

/// A text that a model can open when it needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KnowledgeSection {
    /// A hint for the model on when to open it.
    pub(crate) description: String,
    /// The text itself, or { file = "…" }.
    pub(crate) text: TextSource,
    /// Its media type, for MCP clients. Usually "text/plain".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mime: Option<String>,
    /// A name for people, for MCP clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// The address that MCP clients ask for it by. Usually "fumehood://knowledge/NAME".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) uri: Option<String>,
}

/// A text for the user's side of a conversation, which MCP clients offer to people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromptSection {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<String>,
    /// The purpose of the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    /// The text itself, or { file = "…" }; {NAME} stands for the argument of that name.
    pub(crate) text: TextSource,
    /// Entries of [knowledge] that come before the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) knowledge: Vec<String>,
    /// Its arguments: what each is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) arguments: BTreeMap<String, PromptArgument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PromptArgument {
    /// The meaning of the argument.
    pub(crate) description: String,
    /// True if it has to be given.
    #[serde(default)]
    pub(crate) required: bool,
}

/// A way in which people reach the agent, and what can be used there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelSection {
    /// Full names of the tools that can be used there, such as "calculator__add".
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) tools: Vec<String>,
    /// The skills that can be used there; their tools and knowledge can be too. If none is named, any skill can be, and of
    /// its tools those that are also in `tools`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) skills: Vec<String>,
    /// Age up to which calls of earlier messages are told to the model again, with their results. Usually 5m; "0s" tells
    /// it none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replay: Option<Time>,
}
