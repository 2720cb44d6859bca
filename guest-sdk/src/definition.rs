//! Tools and their definitions.

use std::pin::Pin;

use crate::{Content, ToolError};

/// A tool. `#[tool]` implements it for a type with the function's name; there is no need to implement it by hand.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a synchronous tool",
    label = "not a function with `#[tool]`, or an `async` one",
    note = "export `async` functions with `export_async!`"
)]
pub trait Tool {
    /// The name of the tool.
    const NAME: &'static str;

    /// Returns the definition of the tool.
    fn definition() -> Definition;

    /// Parses the arguments, a JSON object, and runs the function.
    ///
    /// # Errors
    ///
    /// Those of the function, and `invalid-arguments` if the arguments do not match its types.
    fn call(arguments: &str) -> Result<Vec<Content>, ToolError>;
}

/// The outcome of an asynchronous tool that runs.
pub type ToolFuture = Pin<Box<dyn Future<Output = Result<Vec<Content>, ToolError>>>>;

/// A tool of a component with asynchronous tools. `#[tool]` implements it for an `async` function, and every [`Tool`] is one.
pub trait AsyncTool {
    /// The name of the tool.
    const NAME: &'static str;

    /// Returns the definition of the tool.
    fn definition() -> Definition;

    /// Parses the arguments, a JSON object, and starts the function. Its future has the errors of [`Tool::call`].
    fn call(arguments: &str) -> ToolFuture;
}

impl<T: Tool> AsyncTool for T {
    const NAME: &'static str = <T as Tool>::NAME;

    fn definition() -> Definition {
        <T as Tool>::definition()
    }

    fn call(arguments: &str) -> ToolFuture {
        Box::pin(std::future::ready(<T as Tool>::call(arguments)))
    }
}

/// The definition of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The name: 1 to 64 of `a-z`, `0-9`, `_`, `-`.
    pub name: String,
    /// A short name for people.
    pub title: Option<String>,
    /// A description of the tool and its use, written for a model.
    pub description: String,
    /// JSON Schema (draft 2020-12) of the arguments.
    pub input_schema: serde_json::Value,
    /// JSON Schema of the result, if it is one JSON value.
    pub output_schema: Option<serde_json::Value>,
    /// Claims about the tool's effects.
    pub annotations: Annotations,
}

/// Claims about a tool's effects. For an absent claim (`None`) a host assumes the worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    /// The tool changes nothing outside itself.
    pub read_only: Option<bool>,
    /// The tool may remove or overwrite something irrecoverably.
    pub destructive: Option<bool>,
    /// Calling it again with the same arguments has no further effect.
    pub idempotent: Option<bool>,
    /// The tool interacts with entities beyond those that its arguments name, such as the internet.
    pub open_world: Option<bool>,
}
