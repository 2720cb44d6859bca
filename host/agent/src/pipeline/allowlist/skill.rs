//! Skills: the tools and the knowledge that belong to a task.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::registry::ToolHandle;

/// The tools and the knowledge of a skill. A skill without tools needs no model: the program runs it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Skill {
    /// The full names of its tools.
    tools: BTreeSet<String>,
    /// The names of its knowledge entries.
    knowledge: BTreeSet<String>,
}

impl Skill {
    /// Creates a skill without tools and knowledge.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a built-in tool.
    #[must_use]
    pub fn tool<A, O>(mut self, tool: &ToolHandle<A, O>) -> Self {
        self.tools.insert(tool.name().to_owned());
        self
    }

    /// Adds a built-in tool by name.
    #[must_use]
    #[deprecated(note = "a handle cannot be misspelt: use `tool`, or `component_tool` for tools that have no handle")]
    pub fn tool_named(self, name: &str) -> Self {
        self.component_tool(name)
    }

    /// Adds a tool of a component or an MCP server by its full name, because such tools have no handles.
    #[must_use]
    pub fn component_tool(mut self, name: impl Into<String>) -> Self {
        self.tools.insert(name.into());
        self
    }

    /// Adds a knowledge entry.
    #[must_use]
    pub fn knowledge(mut self, name: impl Into<String>) -> Self {
        self.knowledge.insert(name.into());
        self
    }

    /// Returns whether a model runs the skill, because it has tools.
    #[must_use]
    pub fn is_agentic(&self) -> bool {
        !self.tools.is_empty()
    }

    /// Returns the names of its tools and knowledge entries.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.union(&self.knowledge).map(String::as_str)
    }
}
