//! The schema gate: strict validation of tool arguments and results against JSON Schema 2020-12.
//!
//! A [`Gate`] is compiled once, when a tool is loaded, from an untrusted schema. Compiling any schema, and checking any
//! document against it, takes bounded time, memory and stack. No reference is followed out of the document.
//! [`Gate::parse`] reads strict JSON: a text has one meaning or is rejected, no value is coerced, and all violations
//! are reported at once ([`Violations`]). Numbers keep their digits. [`Gate::repair`] mends what callers often get wrong.
//!
//! Arguments are *closed*: a property that the schema does not declare is rejected, even if the schema does not mention
//! undeclared properties. A schema that takes any property must say `"additionalProperties": true`. [`Gate::present`] adds
//! what is rejected to a schema. Those of MCP servers are not closed: see [`Gate::for_foreign_arguments`].
//!
//! ```
//! use fumehood_core::schema::gate::{Gate, GateLimits};
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
pub(crate) mod number;
mod preparation;
mod present;
mod repair;
mod source;
mod streaming;
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
pub use repair::{DEFAULT_INJECTED, Repair, RepairKind, RepairPolicy, RepairedArguments};
pub use violation::{Violation, Violations};

use assertions::Patterns;
use compile::Use;
use cost::Costs;
use graph::SchemaGraph;
use locator::Locator;
use streaming::StreamingSchema;
use strict::{Caps, Extent};

/// Limits of schemas and of documents.
///
/// The defaults named below are those of [`GateLimits::default`].
///
/// ```
/// use fumehood_core::schema::gate::{Gate, GateLimits};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
/// let long = json!({"text": "x".repeat(20 << 10)});
/// assert!(Gate::for_arguments(&schema, GateLimits::default())?.check(&long).is_err());
/// // A tool that reads whole documents.
/// let limits = GateLimits::default().with_string_bytes(1 << 20);
/// Gate::for_arguments(&schema, limits)?.check(&long)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateLimits {
    /// Maximum size of a document, in bytes. Default: 1 MiB.
    pub document_bytes: usize,
    /// Maximum size of a single string or property name, in bytes. Default: 10 KiB. A string whose schema has a
    /// `maxLength` is bounded by that, and by `document_bytes`.
    pub string_bytes: usize,
    /// Maximum levels of arrays and objects in a document. Default: 64; at most [`GateLimits::MAX_DEPTH`].
    pub depth: usize,
    /// Maximum number of violations listed; further ones are only counted. Default: 32; at least 1.
    pub violations: usize,
    /// Maximum steps to check one document, in the worst case. Default: 5 million, each of at most some 50 ns. A step
    /// is the evaluation of one subschema for one value, or the match of one byte against a small pattern.
    pub work: u64,
    /// Maximum size of a schema, in bytes. Default: 64 KiB.
    pub schema_bytes: usize,
    /// Maximum levels of arrays and objects in a schema. Default: 32; at most [`GateLimits::MAX_DEPTH`].
    pub schema_depth: usize,
    /// Maximum number of subschemas in a schema. Default: 2,000.
    pub schema_nodes: usize,
    /// Maximum number of different patterns in a schema. Default: 50.
    pub patterns: usize,
    /// Maximum length of a pattern, in characters. Default: 512.
    pub pattern_chars: usize,
    /// Maximum size of a compiled pattern, in bytes. Default: 256 KiB.
    pub pattern_bytes: usize,
    /// Maximum size of the cache used to match a pattern, in bytes. Default: 1 MiB.
    pub pattern_cache_bytes: usize,
    /// Maximum evaluations of subschemas for one path through a document, in the worst case. Default: 10,000.
    pub cost: u64,
}

impl GateLimits {
    /// Upper bound of `depth` and `schema_depth`: the nesting that the parser and the stack can take.
    pub const MAX_DEPTH: usize = 100;

    /// Sets `string_bytes`, and raises `document_bytes` so that such a string fits.
    #[must_use]
    pub fn with_string_bytes(self, bytes: usize) -> Self {
        // An escape such as `\"` takes two bytes for one.
        let document_bytes = self.document_bytes.max(bytes.saturating_mul(2));
        Self { string_bytes: bytes, document_bytes, ..self }
    }

    fn clamp(mut self) -> Self {
        self.depth = self.depth.min(Self::MAX_DEPTH);
        self.schema_depth = self.schema_depth.min(Self::MAX_DEPTH);
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

/// A compiled schema, to be shared behind an `Arc`.
///
/// ```
/// use fumehood_core::schema::gate::{Gate, GateLimits};
/// use serde_json::json;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let gate = Gate::for_arguments(&json!({"properties": {"a": {"type": "integer"}}}), GateLimits::default())?;
/// gate.check(&json!({"a": 3}))?;
/// // A property that the schema does not declare is rejected.
/// let refused = gate.check(&json!({"a": 3, "b": 5}));
/// assert!(refused.is_err_and(|found| found.violations.iter().any(|violation| violation.pointer == "/b")));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Gate {
    validator: Validator,
    graph: SchemaGraph,
    patterns: Patterns,
    costs: Costs,
    /// Decides on most documents; `None` for a schema that is not simple enough.
    streaming: Option<StreamingSchema>,
    limits: GateLimits,
}

impl Gate {
    /// Compiles the schema of a tool's arguments. They must be an object, and undeclared properties are rejected.
    ///
    /// The empty schema `{}` describes an object without properties.
    ///
    /// # Errors
    /// If the schema is not valid in draft 2020-12, does not describe an object, refers to anything outside itself, or
    /// exceeds a limit.
    pub fn for_arguments(schema: &Value, limits: GateLimits) -> Result<Self, SchemaError> {
        compile::compile_gate(schema, limits.clamp(), Use::Arguments)
    }

    /// Compiles the schema of a tool's results. They may be any value, and undeclared properties are rejected only
    /// where the schema says so.
    ///
    /// # Errors
    /// As for [`Gate::for_arguments`], except that the schema need not describe an object.
    pub fn for_results(schema: &Value, limits: GateLimits) -> Result<Self, SchemaError> {
        compile::compile_gate(schema, limits.clamp(), Use::Results)
    }

    /// Parses a text as strict JSON and checks it against the schema.
    ///
    /// Strict JSON is JSON (RFC 8259) with these restrictions, most of them those of I-JSON (RFC 7493, section 2):
    /// - no duplicate name in an object;
    /// - numbers of at most 1,024 bytes, within the range of binary64 if they have a fraction or an exponent. They are kept
    ///   as they are written, and compared exactly;
    /// - Unicode without lone surrogates;
    /// - the limits of [`GateLimits`].
    ///
    /// # Errors
    /// All syntax violations of the text, or else all violations of the schema.
    pub fn parse(&self, text: &str) -> Result<Value, Violations> {
        self.parse_text(text).map(|(value, _)| value)
    }

    /// Like [`Gate::parse`]. Also returns whether the text is what [`to_compact_text`](super::json::to_compact_text) writes
    /// for the value; if unsure, false.
    pub(crate) fn parse_text(&self, text: &str) -> Result<(Value, bool), Violations> {
        let document = match strict::read(text, self.caps()) {
            Some(document) => document,
            None => {
                let locator = Locator::new(&self.graph, &self.patterns);
                let unexplained = || Violations::one(json_hints::explain_strictness(text));
                trace::explain_text(text, self.caps(), self.limits.violations, locator)?;
                strict::read(text, self.relaxed_caps()).ok_or_else(unexplained)?
            }
        };
        self.validate(&document.value, document.extent)?;
        Ok((document.value, document.is_compact))
    }

    /// Returns whether a text is compact JSON that [`Gate::parse`] accepts: what
    /// [`to_compact_text`](super::json::to_compact_text) writes for its value. If unsure, false. Quicker than parsing.
    pub(crate) fn accepts_compact(&self, text: &str) -> bool {
        let extent = self.streaming.as_ref().and_then(|schema| schema.check(text, self.caps()));
        extent.is_some_and(|extent| self.costs.steps(extent) <= self.limits.work)
    }

    /// Checks a value in memory against the limits and the schema.
    ///
    /// # Errors
    /// All exceeded limits, or else all violations of the schema.
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

    /// Returns an upper bound of the steps to check any text of `bytes` bytes; see [`GateLimits::work`]. A document
    /// that would take more than that limit is rejected without being checked.
    #[must_use]
    pub fn max_steps(&self, bytes: usize) -> u64 {
        let bytes = bytes.min(self.limits.document_bytes);
        self.max_steps_with(bytes, 0)
    }

    /// Like [`Gate::max_steps`], for a text that is at hand.
    #[must_use]
    pub fn max_steps_for_text(&self, text: &str) -> u64 {
        self.max_steps_with(text.len().min(self.limits.document_bytes), number::evaluations_in(text))
    }

    fn max_steps_with(&self, bytes: usize, arithmetic: u64) -> u64 {
        // Every value but the last is followed by a comma or a bracket.
        let values = bytes as u64 / 2 + 1;
        let extent = Extent { values, depth: self.limits.depth, text: bytes as u64, arithmetic };
        self.costs.steps(extent).min(self.limits.work)
    }

    /// Returns an upper bound of the steps to check this value. Like [`Gate::max_steps`], for a value in memory.
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
            let given = match extent.arithmetic {
                0 => format!("{} values with {} bytes of text", extent.values, extent.text),
                _ => format!("{} values, some of them long numbers, with {} bytes of text", extent.values, extent.text),
            };
            return Err(Violations::one(Violation::mismatch(String::new(), expected, given)));
        }
        if self.validator.is_valid(value) {
            return Ok(());
        }
        Err(explain::explain(&self.graph, &self.patterns, value, self.limits.violations))
    }

    fn caps(&self) -> Caps {
        let GateLimits { document_bytes: text, string_bytes: string, depth, .. } = self.limits;
        Caps { text, string, depth }
    }

    /// The caps for a document whose schema allows what the default caps reject.
    fn relaxed_caps(&self) -> Caps {
        Caps { string: self.limits.document_bytes, ..self.caps() }
    }
}
