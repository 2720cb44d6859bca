//! Return types of a tool's function, and their conversion to content.
//!
//! `#[tool]` sees only the tokens of a return type, so the choice between text, content and JSON is made by method
//! resolution on `&&&&&ReturnProbe<R>` ("autoref specialization"): it tries the implementation with the most references
//! first, and selects the first whose bounds hold.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::schema::output_schema;
use crate::{Content, ToolError};

/// A return type that is converted to content directly, not to one JSON value.
///
/// Implement it for a type that has a better representation than JSON.
pub trait IntoContent {
    /// Converts the value to the parts of a result.
    fn into_content(self) -> Vec<Content>;
}

impl IntoContent for String {
    fn into_content(self) -> Vec<Content> {
        vec![Content::Text(self)]
    }
}

impl IntoContent for &'static str {
    fn into_content(self) -> Vec<Content> {
        vec![Content::text(self)]
    }
}

impl IntoContent for Content {
    fn into_content(self) -> Vec<Content> {
        vec![self]
    }
}

impl IntoContent for Vec<Content> {
    fn into_content(self) -> Vec<Content> {
        self
    }
}

impl IntoContent for () {
    fn into_content(self) -> Vec<Content> {
        Vec::new()
    }
}

/// A value of the return type `R`, on which method resolution selects the [`ReturnKind`].
#[derive(Debug)]
pub struct ReturnProbe<R>(PhantomData<fn() -> R>);

impl<R> ReturnProbe<R> {
    /// Creates a probe.
    #[expect(clippy::new_without_default, reason = "only `#[tool]` makes one")]
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

/// Selects the kind of a return type.
pub trait ReturnKind {
    /// The implementation of [`Outcome`] for the return type.
    type Kind;

    /// Returns the kind.
    fn kind(&self) -> Self::Kind;
}

/// Converts the return type of a function to the schema and the result of its tool.
pub trait Outcome<R> {
    /// Returns the schema of the result, if it is one JSON value.
    fn schema(&self) -> Option<Value>;

    /// Converts a returned value to the result.
    ///
    /// # Errors
    ///
    /// The function's own, or one for a value that cannot be serialized as JSON.
    fn outcome(&self, returned: R) -> Result<Vec<Content>, ToolError>;
}

/// The kind of a function that returns content.
#[derive(Debug)]
pub struct Plain;

/// The kind of a function that returns a value to be serialized as JSON.
#[derive(Debug)]
pub struct Json;

/// The kind of a function that returns a `Result` whose `Ok` value has the kind `K`.
#[derive(Debug)]
pub struct Fallible<K>(K);

impl<R: IntoContent> ReturnKind for &&&&ReturnProbe<R> {
    type Kind = Plain;

    fn kind(&self) -> Plain {
        Plain
    }
}

impl<R: IntoContent, E: Into<ToolError>> ReturnKind for &&&ReturnProbe<Result<R, E>> {
    type Kind = Fallible<Plain>;

    fn kind(&self) -> Fallible<Plain> {
        Fallible(Plain)
    }
}

impl<R: Serialize + JsonSchema, E: Into<ToolError>> ReturnKind for &&ReturnProbe<Result<R, E>> {
    type Kind = Fallible<Json>;

    fn kind(&self) -> Fallible<Json> {
        Fallible(Json)
    }
}

impl<R: Serialize + JsonSchema> ReturnKind for &ReturnProbe<R> {
    type Kind = Json;

    fn kind(&self) -> Json {
        Json
    }
}

impl<R: IntoContent> Outcome<R> for Plain {
    fn schema(&self) -> Option<Value> {
        None
    }

    fn outcome(&self, returned: R) -> Result<Vec<Content>, ToolError> {
        Ok(returned.into_content())
    }
}

impl<R: Serialize + JsonSchema> Outcome<R> for Json {
    fn schema(&self) -> Option<Value> {
        Some(output_schema::<R>())
    }

    fn outcome(&self, returned: R) -> Result<Vec<Content>, ToolError> {
        Ok(vec![Content::json(&returned)?])
    }
}

impl<R, E: Into<ToolError>, K: Outcome<R>> Outcome<Result<R, E>> for Fallible<K> {
    fn schema(&self) -> Option<Value> {
        self.0.schema()
    }

    fn outcome(&self, returned: Result<R, E>) -> Result<Vec<Content>, ToolError> {
        self.0.outcome(returned.map_err(Into::into)?)
    }
}

/// A trait that no type implements. It is required where no other implementation applies, for the sake of its error
/// message.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a tool's result",
    note = "return a type that implements `serde::Serialize` and `schemars::JsonSchema`, or a `String`, `Content`, \
            `Vec<Content>` or `()`, or a `Result` of one of these whose error is `Into<ToolError>`"
)]
pub trait ToolResult {}

/// The last candidate of method resolution. It always fails with the message of `ToolResult`.
pub trait UnsupportedKind<R> {
    /// Never compiles.
    fn kind(&self) -> Unsupported
    where
        R: ToolResult;
}

/// The kind of a type that cannot be a result. It implements [`Outcome`] only to prevent further compiler errors.
#[derive(Debug)]
pub struct Unsupported;

impl<R> UnsupportedKind<R> for ReturnProbe<R> {
    fn kind(&self) -> Unsupported
    where
        R: ToolResult,
    {
        Unsupported
    }
}

impl<R> Outcome<R> for Unsupported {
    fn schema(&self) -> Option<Value> {
        None
    }

    fn outcome(&self, _returned: R) -> Result<Vec<Content>, ToolError> {
        Ok(Vec::new())
    }
}
