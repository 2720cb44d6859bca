//! Skills: the tools and the knowledge that belong to a task, or the tool or program that does it without a model.

use std::collections::BTreeSet;

use fumehood_core::schema::gate::SchemaError;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::output_schema::OutputSchema;
use crate::registry::ToolHandle;

/// The tool or the program that does the task of a skill. No model is asked.
///
/// The message of a run is its input: a JSON object if it begins with `{`, and otherwise a text. A tool gets an object as
/// its arguments, and a text as its only property, or its only required one, if that is a string. A program of code mode
/// gets either as the constant `input`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Implementation {
    /// The full name of a tool. The call is made as if a model had made it, and its result is the answer.
    Tool(String),
    /// A program in the language of the interpreter. The value that it returns is the answer.
    Program {
        /// The source text: the body of an asynchronous function.
        code: String,
        /// The full names of the tools that it may call.
        #[serde(default)]
        tools: BTreeSet<String>,
    },
}

impl Implementation {
    /// Creates an implementation by a built-in tool.
    #[must_use]
    pub fn tool<A, O>(tool: &ToolHandle<A, O>) -> Self {
        Self::Tool(tool.name().to_owned())
    }

    /// Creates an implementation by a program that may call these tools, by their full names.
    pub fn program<N: Into<String>>(code: impl Into<String>, tools: impl IntoIterator<Item = N>) -> Self {
        Self::Program { code: code.into(), tools: tools.into_iter().map(Into::into).collect() }
    }

    fn tools(&self) -> impl Iterator<Item = &str> {
        let (tool, tools) = match self {
            Self::Tool(name) => (Some(name.as_str()), None),
            Self::Program { tools, .. } => (None, Some(tools)),
        };
        tool.into_iter().chain(tools.into_iter().flatten().map(String::as_str))
    }
}

/// A skill: a task, with the tools and the knowledge that a model has for it, or else its [`Implementation`].
///
/// A skill without either is for a model that answers by itself.
///
/// ```
/// use fumehood_agent::allowlist::{Implementation, Skill};
///
/// // A model does the task, and sees these tools only.
/// let triage = Skill::new().component_tool("issues__search").component_tool("issues__label").knowledge("house_rules");
/// assert!(triage.is_agentic());
///
/// // A tool does the task, and no model is asked.
/// let add = Skill::new().implemented_by(Implementation::Tool("calculator__add".to_owned()));
/// assert!(!add.is_agentic());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Skill {
    /// The full names of its tools.
    tools: BTreeSet<String>,
    /// The names of its knowledge entries.
    knowledge: BTreeSet<String>,
    /// The implementation, if no model runs it.
    implemented_by: Option<Implementation>,
    /// The schema of its result.
    output: Option<OutputSchema>,
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
    #[deprecated(
        note = "use the handle `tool`, which the compiler checks, or `component_tool` for tools without a handle"
    )]
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

    /// Sets the tool or the program that does the task. Such a skill has no tools or knowledge for a model.
    #[must_use]
    pub fn implemented_by(mut self, implementation: Implementation) -> Self {
        self.implemented_by = Some(implementation);
        self
    }

    /// Sets the schema of the result. The answer of a model is sent back to be corrected at most twice; the result of an
    /// implementation that does not match ends the run.
    #[must_use]
    pub fn output_schema(mut self, schema: OutputSchema) -> Self {
        self.output = Some(schema);
        self
    }

    /// Sets the type of the result: [`Self::output_schema`] with its schema. [`Agent::run_as`] returns it.
    ///
    /// # Errors
    /// See [`OutputSchema::of`].
    ///
    /// [`Agent::run_as`]: crate::agent::Agent::run_as
    pub fn returns<T: JsonSchema>(self) -> Result<Self, SchemaError> {
        Ok(self.output_schema(OutputSchema::of::<T>()?))
    }

    /// Returns whether a model runs the skill.
    #[must_use]
    pub fn is_agentic(&self) -> bool {
        self.implemented_by.is_none()
    }

    /// Returns the implementation, if no model runs the skill.
    #[must_use]
    pub fn implementation(&self) -> Option<&Implementation> {
        self.implemented_by.as_ref()
    }

    /// Returns the schema of the result, if there is one.
    #[must_use]
    pub fn output(&self) -> Option<&OutputSchema> {
        self.output.as_ref()
    }

    /// Returns whether it has tools or knowledge for a model, and an implementation as well.
    #[must_use]
    pub fn is_ambiguous(&self) -> bool {
        self.implemented_by.is_some() && !(self.tools.is_empty() && self.knowledge.is_empty())
    }

    /// Returns the names of its tools and knowledge entries, and of the tools of its implementation.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let of_implementation = self.implemented_by.iter().flat_map(Implementation::tools);
        self.tools.union(&self.knowledge).map(String::as_str).chain(of_implementation)
    }
}
