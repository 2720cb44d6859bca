//! Typed functions as tools: the types that an export takes and gives, and the JSON Schemas that follow from them.
//!
//! How a value of each type looks in JSON is said once, in [`schema`]; whoever converts values follows it.

pub mod docs;
pub mod pattern;
pub mod schema;
pub mod ty;

pub use docs::{TypeDoc, TypeDocs};
pub use ty::{Budget, Ty, TypeComplexityError, TypedFunction};
