//! What a tool says about itself.

use crate::{Content, ToolError};

/// A tool. `#[tool]` implements it for a type that shares the function's name; nothing else needs to.
pub trait Tool {
    /// The name that a model calls it by.
    const NAME: &'static str;

    /// What the tool says about itself.
    fn definition() -> Definition;

    /// Reads the arguments, a JSON object, and runs the function.
    ///
    /// # Errors
    ///
    /// Those of the function, and `invalid-arguments` where the arguments do not fit its types.
    fn call(arguments: &str) -> Result<Vec<Content>, ToolError>;
}

/// What a tool says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// 1 to 64 of `a-z`, `0-9`, `_`, `-`.
    pub name: String,
    /// A short name for people.
    pub title: Option<String>,
    /// What the tool does and when to use it, written for a model.
    pub description: String,
    /// JSON Schema (draft 2020-12) of the arguments.
    pub input_schema: serde_json::Value,
    /// JSON Schema of the result, if it is one JSON value.
    pub output_schema: Option<serde_json::Value>,
    /// What the tool promises about its effects.
    pub annotations: Annotations,
}

/// What a tool promises about its effects. `None` means "not said".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// The tool changes nothing outside itself.
    pub read_only: Option<bool>,
    /// The tool may remove or overwrite something that cannot be brought back.
    pub destructive: Option<bool>,
    /// Calling it again with the same arguments has no further effect.
    pub idempotent: Option<bool>,
    /// The tool reaches things beyond what its arguments name, such as the internet.
    pub open_world: Option<bool>,
}
