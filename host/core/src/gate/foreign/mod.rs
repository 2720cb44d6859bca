//! Schemas that other programs wrote: read as far as they can be, instead of refused.
//!
//! The schemas of our own contract are held to one dialect. Those of MCP servers are in every draft there is, and the server
//! checks its arguments itself. So an older draft is translated ([`translate`]), and what the gate cannot take, such as a
//! pattern with look-around, is left out of the check and reported ([`prune`]).

mod prune;
mod translate;

use std::fmt;

use serde_json::Value;

use super::{Gate, GateLimits, SchemaError, bounds, compile};

/// A schema that another program wrote, in draft 2020-12.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignSchema {
    /// The schema, complete but for its `$schema`.
    pub schema: Value,
    /// What `$schema` said, if that is no known draft.
    pub unknown_dialect: Option<String>,
}

/// A gate for a schema that another program wrote, and what that gate leaves unchecked.
#[derive(Debug)]
pub struct ForeignGate {
    /// The gate.
    pub gate: Gate,
    /// The schema that it checks: what of the other one is left.
    pub schema: Value,
    /// Parts of the schema that the gate does not check.
    pub unchecked: Vec<UncheckedPart>,
}

/// A part of a schema that a gate does not check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncheckedPart {
    /// A JSON pointer to the part, in the translated schema.
    pub pointer: String,
    /// Why it is not checked.
    pub reason: UncheckedReason,
}

/// Why a part of a schema is not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum UncheckedReason {
    /// `$schema` names no draft that is known; the schema is read as draft 2020-12.
    Dialect,
    /// A pattern is too long, compiles to too much, or uses look-around or back-references.
    Pattern,
    /// A reference leads nowhere, or out of the document.
    Reference,
    /// A keyword is not as JSON Schema has it.
    Keyword,
    /// The schema is too large, too deep or too expensive: only names and types at its top are checked.
    Complexity,
    /// Nothing of the schema can be used: any object is accepted.
    Everything,
}

impl fmt::Display for UncheckedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dialect => "`$schema` names an unknown dialect, so that the schema is read as draft 2020-12",
            Self::Pattern => "a pattern is too long, malformed, or uses look-around or back-references",
            Self::Reference => "a `$ref` leads nowhere, or out of the schema",
            Self::Keyword => "a keyword is not as JSON Schema has it",
            Self::Complexity => "the schema is too large or too complex, so that only what is at its top is checked",
            Self::Everything => "the schema describes no object that can be checked",
        })
    }
}

impl ForeignSchema {
    /// Translates a schema of draft 4, 6, 7, 2019-09 or 2020-12. One that is nested too deeply stays as it is.
    #[must_use]
    pub fn translate(schema: &Value, limits: &GateLimits) -> Self {
        match bounds::check(schema, &GateLimits { schema_bytes: usize::MAX, ..limits.clone() }) {
            Ok(()) => translate::to_2020_12(schema),
            Err(_) => Self { schema: schema.clone(), unknown_dialect: None },
        }
    }
}

impl Gate {
    /// Compiles the schema of the arguments of a tool that another program has, as far as it can be read.
    ///
    /// # Errors
    /// If not even a schema that accepts any object compiles.
    pub fn for_foreign_arguments(schema: &ForeignSchema, limits: GateLimits) -> Result<ForeignGate, SchemaError> {
        prune::compile_arguments(schema, &limits.clamp())
    }

    /// Compiles the schema of the results of a tool that another program has.
    ///
    /// # Errors
    /// If the schema cannot be read as a whole.
    pub fn for_foreign_results(schema: &Value, limits: GateLimits) -> Result<Self, SchemaError> {
        let limits = limits.clamp();
        compile::compile_gate(&ForeignSchema::translate(schema, &limits).schema, limits, false)
    }
}
