//! What a tool's function may return, and what becomes of it.
//!
//! `#[tool]` sees only the tokens of a return type, so the choice between text, content and JSON is left to method
//! resolution on `&&&&&Returned<R>`: it tries the implementation with the most references first, and takes the first
//! whose bounds hold.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::schema::output_schema;
use crate::{Content, ToolError};

/// What is not written as JSON when a tool returns it.
///
/// Implement it for a type of your own that should become something other than one JSON value.
pub trait IntoContent {
    /// The parts of the result.
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

/// Stands for the return type `R` while its kind is found out.
#[derive(Debug)]
pub struct Returned<R>(PhantomData<fn() -> R>);

impl<R> Returned<R> {
    /// The only value.
    #[expect(clippy::new_without_default, reason = "only `#[tool]` makes one")]
    #[must_use]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

/// Finds the kind of a return type.
pub trait ReturnKind {
    /// Implements [`Outcome`] for the return type.
    type Kind;

    /// The kind.
    fn kind(&self) -> Self::Kind;
}

/// What a function returns, as the schema and the result of its tool.
pub trait Outcome<R> {
    /// The schema of the result, if it is one JSON value.
    fn schema(&self) -> Option<Value>;

    /// The result.
    ///
    /// # Errors
    ///
    /// The function's own, or that the value has no JSON form.
    fn outcome(&self, returned: R) -> Result<Vec<Content>, ToolError>;
}

/// The function returns content.
#[derive(Debug)]
pub struct Plain;

/// The function returns a value that is written as JSON.
#[derive(Debug)]
pub struct Json;

/// The function may fail; otherwise its result is of the given kind.
#[derive(Debug)]
pub struct Fallible<K>(K);

impl<R: IntoContent> ReturnKind for &&&&Returned<R> {
    type Kind = Plain;

    fn kind(&self) -> Plain {
        Plain
    }
}

impl<R: IntoContent, E: Into<ToolError>> ReturnKind for &&&Returned<Result<R, E>> {
    type Kind = Fallible<Plain>;

    fn kind(&self) -> Fallible<Plain> {
        Fallible(Plain)
    }
}

impl<R: Serialize + JsonSchema, E: Into<ToolError>> ReturnKind for &&Returned<Result<R, E>> {
    type Kind = Fallible<Json>;

    fn kind(&self) -> Fallible<Json> {
        Fallible(Json)
    }
}

impl<R: Serialize + JsonSchema> ReturnKind for &Returned<R> {
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

/// Holds for no type; it is asked for where nothing else fits, so that the compiler has something useful to say.
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "not a tool's result",
    note = "return a type that implements `serde::Serialize` and `schemars::JsonSchema`, or a `String`, `Content`, \
            `Vec<Content>` or `()`, or a `Result` of one of these whose error is `Into<ToolError>`"
)]
pub trait ToolResult {}

/// Comes last, and always fails with the message of `ToolResult`.
pub trait Unreturnable<R> {
    /// Never compiles.
    fn kind(&self) -> Unreadable
    where
        R: ToolResult;
}

/// The kind of what cannot be a result. It has an outcome only so that the compiler does not complain about that too.
#[derive(Debug)]
pub struct Unreadable;

impl<R> Unreturnable<R> for Returned<R> {
    fn kind(&self) -> Unreadable
    where
        R: ToolResult,
    {
        Unreadable
    }
}

impl<R> Outcome<R> for Unreadable {
    fn schema(&self) -> Option<Value> {
        None
    }

    fn outcome(&self, _returned: R) -> Result<Vec<Content>, ToolError> {
        Ok(Vec::new())
    }
}
