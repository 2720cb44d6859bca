//! A skill: a name, and the tools and the knowledge that belong to it.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::registry::ToolHandle;

/// What a skill may use. One without tools needs no model: the program does it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Skill {
    /// The full names of its tools.
    tools: BTreeSet<String>,
    /// The names of its knowledge entries.
    knowledge: BTreeSet<String>,
}

impl Skill {
    /// A skill without anything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives it a built-in tool.
    #[must_use]
    pub fn tool<A, O>(mut self, tool: &ToolHandle<A, O>) -> Self {
        self.tools.insert(tool.name().to_owned());
        self
    }

    /// Gives it a built-in tool by name.
    #[must_use]
    #[deprecated(note = "a handle cannot be misspelt: use `tool`, or `component_tool` for tools that have no handle")]
    pub fn tool_named(self, name: &str) -> Self {
        self.component_tool(name)
    }

    /// Gives it a tool of a component or an MCP server by its full name: there are no handles for those.
    #[must_use]
    pub fn component_tool(mut self, name: impl Into<String>) -> Self {
        self.tools.insert(name.into());
        self
    }

    /// Gives it a knowledge entry.
    #[must_use]
    pub fn knowledge(mut self, name: impl Into<String>) -> Self {
        self.knowledge.insert(name.into());
        self
    }

    /// Whether a model is to drive it.
    #[must_use]
    pub fn is_agentic(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Everything that it names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.union(&self.knowledge).map(String::as_str)
    }
}
