//! Schemas of MCP servers, used as far as the gate supports them.
//!
//! Schemas of our own contract must be draft 2020-12. Those of MCP servers come in any draft, and the server checks its
//! arguments itself. So an older draft is translated ([`translate`]), and a keyword that the gate does not support,
//! such as a pattern with look-around, is left out of the check and reported ([`prune`]).

mod prune;
mod translate;

use std::fmt;

use serde_json::Value;

use super::compile::Use;
use super::{Gate, GateLimits, SchemaError, bounds, compile};

/// A schema of an MCP server, translated to draft 2020-12.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignSchema {
    /// The complete schema, without `$schema`.
    pub schema: Value,
    /// The value of `$schema`, if that is no known draft.
    pub unknown_dialect: Option<String>,
}

/// A gate for a foreign schema, with the parts that it does not check.
#[derive(Debug)]
pub struct ForeignGate {
    /// The gate.
    pub gate: Gate,
    /// The schema that the gate checks: the foreign schema without the unchecked parts.
    pub schema: Value,
    /// Parts of the schema that the gate does not check.
    pub unchecked: Vec<UncheckedPart>,
}

/// A part of a schema that a gate does not check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncheckedPart {
    /// A JSON pointer to the part, in the translated schema.
    pub pointer: String,
    /// The reason why it is not checked.
    pub reason: UncheckedReason,
}

/// A reason why a part of a schema is not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum UncheckedReason {
    /// An unknown `$schema`. The schema is read as draft 2020-12.
    Dialect,
    /// A pattern that is too long, compiles to too much, or uses look-around or back-references.
    Pattern,
    /// A reference to nothing, or out of the document.
    Reference,
    /// A keyword that violates the meta-schema.
    Keyword,
    /// A schema that is too large, too deep or too expensive. Only names and types at its top are checked.
    Complexity,
    /// A schema that cannot be used at all. Any object is accepted.
    Everything,
}

impl fmt::Display for UncheckedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dialect => "`$schema` names an unknown dialect, so the schema is read as draft 2020-12",
            Self::Pattern => "a pattern is too long, malformed, or uses look-around or back-references",
            Self::Reference => "a `$ref` leads nowhere, or out of the schema",
            Self::Keyword => "a keyword is not valid JSON Schema",
            Self::Complexity => "the schema is too large or too complex, so only its top level is checked",
            Self::Everything => "the schema does not describe an object",
        })
    }
}

impl ForeignSchema {
    /// Translates a schema of draft 4, 6, 7, 2019-09 or 2020-12. A schema that is nested too deeply is not changed.
    #[must_use]
    pub fn translate(schema: &Value, limits: &GateLimits) -> Self {
        match bounds::check(schema, &GateLimits { schema_bytes: usize::MAX, ..limits.clone() }) {
            Ok(()) => translate::to_2020_12(schema),
            Err(_) => Self { schema: schema.clone(), unknown_dialect: None },
        }
    }
}

impl Gate {
    /// Compiles a foreign schema of arguments, as far as the gate supports it. An object is closed only where the schema
    /// says so, as JSON Schema has it.
    ///
    /// # Errors
    /// If not even a schema that accepts any object compiles.
    pub fn for_foreign_arguments(schema: &ForeignSchema, limits: GateLimits) -> Result<ForeignGate, SchemaError> {
        prune::compile_arguments(schema, &limits.clamp())
    }

    /// Compiles a foreign schema of results.
    ///
    /// # Errors
    /// If any part of the schema is not supported.
    pub fn for_foreign_results(schema: &Value, limits: GateLimits) -> Result<Self, SchemaError> {
        let limits = limits.clamp();
        compile::compile_gate(&ForeignSchema::translate(schema, &limits).schema, limits, Use::Results)
    }
}
