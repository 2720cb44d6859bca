//! Typed functions as tools: the WIT types of an export's parameters and result, and their JSON Schemas.
//!
//! [`schema`] defines the JSON form of each type; conversions of values follow it.

pub mod pattern;
pub mod schema;
pub mod ty;

pub use ty::{Budget, Ty, TypeComplexityError, TypeDoc, TypeDocs, TypedFunction};
