//! The schema gate: what is said to a tool, and what it answers, fits its schema exactly or does not pass.
//!
//! A [`Gate`] is compiled once, when a tool is loaded, from a schema that nobody trusts: whatever it holds, compiling
//! it and checking documents against it takes bounded time, memory and stack, and nothing outside the document is ever
//! looked at. Documents are read strictly ([`Gate::parse`]): one text has one meaning or is refused, nothing is
//! coerced, and what is wrong is said all at once ([`Violations`]).
//!
//! Arguments are *closed*: a property that the schema does not declare is refused, even where the schema is silent.
//! A schema that wants any property must say `"additionalProperties": true`.
//!
//! ```
//! use fumehood_core::gate::{Gate, GateLimits};
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]});
//! let gate = Gate::for_arguments(&schema, GateLimits::default())?;
//! assert_eq!(gate.parse(r#"{"a": 3}"#)?, json!({"a": 3}));
//! let refused = gate.parse(r#"{"a": "3"}"#).unwrap_err();
//! assert_eq!(refused.to_string(), r#"/a: expected a number, given the string "3" (write 3 without quotes)"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod assertions;
mod bounds;
mod closing;
mod compile;
mod cost;
mod declared_properties;
mod error;
mod explain;
mod finding;
mod foreign;
mod format;
mod graph;
mod json_hints;
mod keywords;
mod locator;
mod number;
mod preparation;
mod source;
mod strict;
#[cfg(test)]
mod tests;
mod toposort;
mod trace;
mod union;
mod violation;

use jsonschema::Validator;
use serde_json::Value;

pub use error::SchemaError;
pub use foreign::{ForeignGate, ForeignSchema, UncheckedPart, UncheckedReason};
pub use violation::{Violation, Violations};

use assertions::Patterns;
use cost::Costs;
use graph::SchemaGraph;
use locator::Locator;
use strict::{Caps, Extent};

/// The limits of schemas and of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateLimits {
    /// Bytes of a document. 1 MiB.
    pub document_bytes: usize,
    /// Bytes of a single string or property name of a document. 10 KiB. A string whose schema has a `maxLength` is bounded by
    /// that, and by the document.
    pub string_bytes: usize,
    /// Levels of arrays and objects in a document. 64; never more than [`GateLimits::MAX_DEPTH`].
    pub depth: usize,
    /// Violations listed; those beyond are counted. 32; never fewer than one.
    pub violations: usize,
    /// Steps that checking one document may take, at worst. 5 million, each of which is at most some 50 ns: evaluating
    /// a subschema for one value is a step, and so is matching one byte against a small pattern.
    pub work: u64,
    /// Bytes of a schema. 64 KiB.
    pub schema_bytes: usize,
    /// Levels of arrays and objects in a schema. 32; never more than [`GateLimits::MAX_DEPTH`].
    pub schema_depth: usize,
    /// Subschemas in a schema. 2,000.
    pub schema_nodes: usize,
    /// Different patterns in a schema. 50.
    pub patterns: usize,
    /// Characters of a pattern. 512.
    pub pattern_chars: usize,
    /// Bytes of a compiled pattern. 256 KiB.
    pub pattern_bytes: usize,
    /// Bytes that matching a pattern may use as a cache. 1 MiB.
    pub pattern_cache_bytes: usize,
    /// Evaluations of a subschema for one path through a document, at worst. 10,000.
    pub cost: u64,
}

impl GateLimits {
    /// The deepest nesting that can be asked for: what the parser and the stack are good for.
    pub const MOST_DEPTH: usize = 100;

    /// These limits with another cap on a single string, and documents that have room for such a string.
    #[must_use]
    pub fn with_string_bytes(self, bytes: usize) -> Self {
        // An escape makes two bytes of one.
        let document_bytes = self.document_bytes.max(bytes.saturating_mul(2));
        Self { string_bytes: bytes, document_bytes, ..self }
    }

    fn clamp(mut self) -> Self {
        self.depth = self.depth.min(Self::MOST_DEPTH);
        self.schema_depth = self.schema_depth.min(Self::MOST_DEPTH);
        self.violations = self.violations.max(1);
        self
    }
}

impl Default for GateLimits {
    fn default() -> Self {
        Self {
            document_bytes: 1 << 20,
            string_bytes: 10 << 10,
            depth: 64,
            violations: 32,
            work: 5_000_000,
            schema_bytes: 64 << 10,
            schema_depth: 32,
            schema_nodes: 2_000,
            patterns: 50,
            pattern_chars: 512,
            pattern_bytes: 256 << 10,
            pattern_cache_bytes: 1 << 20,
            cost: 10_000,
        }
    }
}

/// A compiled schema. Share it behind an `Arc`.
#[derive(Debug)]
pub struct Gate {
    validator: Validator,
    graph: SchemaGraph,
    patterns: Patterns,
    costs: Costs,
    limits: GateLimits,
}

impl Gate {
    /// Compiles the schema of a tool's arguments: they are an object, and undeclared properties are refused.
    ///
    /// A root that says nothing at all, `{}`, describes an object without properties.
    ///
    /// # Errors
    /// If the schema is not one of draft 2020-12, does not describe an object, refers to anything outside itself, or
    /// is over one of the limits.
    pub fn for_arguments(schema: &Value, limits: GateLimits) -> Result<Self, SchemaError> {
        compile::compile_gate(schema, limits.clamp(), true)
    }

    /// Compiles the schema of a tool's results: any value, and undeclared properties are only refused where the schema
    /// says so.
    ///
    /// # Errors
    /// As for [`Gate::for_arguments`], but that any value may be described.
    pub fn for_results(schema: &Value, limits: GateLimits) -> Result<Self, SchemaError> {
        compile::compile_gate(schema, limits.clamp(), false)
    }

    /// Reads a text as strict JSON and checks it against the schema.
    ///
    /// Strict means: JSON as of RFC 8259, no name twice in an object, numbers that are held exactly (64-bit integers,
    /// or decimals that a binary64 leads back to; where the schema says `number`, the nearest binary64 will do), Unicode
    /// without lone surrogates, and the caps of [`GateLimits`].
    ///
    /// # Errors
    /// Everything that is wrong with the text, or else everything that does not fit the schema.
    pub fn parse(&self, text: &str) -> Result<Value, Violations> {
        let (value, extent) = match strict::read(text, self.caps()) {
            Some(read) => read,
            None => {
                let locator = Locator::new(&self.graph, &self.patterns);
                let unexplained = || Violations::one(json_hints::explain_strictness(text));
                trace::explain_text(text, self.caps(), self.limits.violations, locator)?;
                strict::read(text, self.relaxed_caps()).ok_or_else(unexplained)?
            }
        };
        self.validate(&value, extent).map(|()| value)
    }

    /// Checks a value that is in memory already against the same caps and the schema.
    ///
    /// # Errors
    /// Everything that is over a cap, or else everything that does not fit the schema.
    pub fn check(&self, value: &Value) -> Result<(), Violations> {
        let extent = match strict::measure(value, self.caps()) {
            Some(extent) => extent,
            None => {
                let locator = Locator::new(&self.graph, &self.patterns);
                trace::explain_value(value, self.caps(), self.limits.violations, locator)?;
                let unexplained = || Violations::one(json_hints::explain_strictness(""));
                strict::measure(value, self.relaxed_caps()).ok_or_else(unexplained)?
            }
        };
        self.validate(value, extent)
    }

    /// The steps that checking a text of so many bytes takes at most, whatever it says; see [`GateLimits::work`]. What
    /// would take more than that limit is refused without being checked.
    #[must_use]
    pub fn max_steps(&self, bytes: usize) -> u64 {
        let bytes = bytes.min(self.limits.document_bytes);
        // Every value but the last has a comma or a bracket beside it.
        let values = bytes as u64 / 2 + 1;
        let extent = Extent { values, depth: self.limits.depth, text: bytes as u64 };
        self.costs.steps(extent).min(self.limits.work)
    }

    /// The same for a value that is in memory already.
    #[must_use]
    pub fn max_steps_for_value(&self, value: &Value) -> u64 {
        strict::measure(value, self.relaxed_caps()).map_or(0, |extent| self.costs.steps(extent).min(self.limits.work))
    }

    fn validate(&self, value: &Value, extent: Extent) -> Result<(), Violations> {
        let steps = self.costs.steps(extent);
        if steps > self.limits.work {
            let expected = format!(
                "a smaller document: checking it against this schema takes up to {steps} steps, of at most {}",
                self.limits.work
            );
            let given = format!("{} values with {} bytes of text", extent.values, extent.text);
            return Err(Violations::one(Violation::mismatch(String::new(), expected, given)));
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        Err(explain::explain(&self.graph, &self.patterns, value, self.limits.violations))
    }

    fn caps(&self) -> Caps {
        let GateLimits { document_bytes: text, string_bytes: string, depth, .. } = self.limits;
        Caps { text, string, depth, exact: true }
    }

    /// The caps of a document in which the schema allows what the usual ones refuse.
    fn relaxed_caps(&self) -> Caps {
        Caps { string: self.limits.document_bytes, exact: false, ..self.caps() }
    }
}
