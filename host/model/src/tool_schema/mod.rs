//! Schemas of tools in the subset of JSON Schema that each provider documents.
//!
//! Providers answer 400 to a whole request if they dislike one schema in it. [`adapt`] writes a schema in a
//! [`Dialect`]: local references are inlined up to a bound, alternatives of the root are merged, a root that is no
//! object is wrapped under one property, and property names that the provider forbids are replaced. Keywords outside of
//! the dialect become short phrases in the description. [`ArgumentShape`] turns arguments back into the form of the
//! original schema, which the gate of the tool enforces.

mod adapter;
mod alternatives;
mod argument_shape;
mod dialect;
mod flatten;
mod keywords;
mod phrases;
mod property_names;
#[cfg(test)]
mod tests;

pub(crate) use argument_shape::ArgumentShape;
pub(crate) use dialect::Dialect;

use adapter::Adapter;
use serde_json::{Map, Value};

/// A schema in the dialect of a provider.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AdaptedSchema {
    /// The schema. Its root is an object with `properties`.
    pub(crate) schema: Value,
    /// The description of the root.
    description: Option<String>,
    /// Phrases for rules of the root that the dialect cannot express.
    phrases: Vec<String>,
    /// The difference between arguments of the schema and those of the original.
    pub(crate) shape: ArgumentShape,
}

impl AdaptedSchema {
    /// Returns the description of the tool, with what only the original schema says of the arguments as a whole.
    pub(crate) fn describe(&self, description: &str) -> String {
        let further = self.description.as_deref().map(str::trim).filter(|text| !description.contains(text));
        let texts = [description, further.unwrap_or_default()];
        let text = texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
        let schema = Map::from_iter([("description".to_owned(), text.into())]);
        phrases::describe(&schema, &self.phrases).unwrap_or_default()
    }
}

/// Translates a schema to a dialect.
pub(crate) fn adapt(schema: &Value, dialect: &Dialect) -> AdaptedSchema {
    Adapter::new(schema, dialect).adapt_root()
}
