//! Tests of accepted and rejected schemas and documents, and of the messages.

mod closing;
mod cost;
mod foreign;
mod format;
mod properties;
mod rejections;
mod relaxations;
mod streaming;

use serde_json::Value;

use super::{Gate, GateLimits, SchemaError, explain};
use crate::schema::json::to_compact_text;

pub(super) fn arguments(schema: Value) -> Gate {
    Gate::for_arguments(&schema, GateLimits::default()).unwrap_or_else(|error| panic!("{error}: {schema}"))
}

pub(super) fn refused(schema: Value) -> SchemaError {
    match Gate::for_arguments(&schema, GateLimits::default()) {
        Ok(_) => panic!("accepted: {:.300}", schema.to_string()),
        Err(error) => error,
    }
}

pub(super) fn text(gate: &Gate, document: &str) -> String {
    gate.parse(document).map_or_else(|violations| violations.to_string(), |_| "fits".to_owned())
}

/// Checks that the explanation finds violations exactly if the validator rejects the document, and that a single pass over the
/// text accepts only what the validator does.
pub(super) fn agree(gate: &Gate, document: &Value) -> Result<(), String> {
    if gate.accepts_compact(&to_compact_text(document)) && !gate.validator.is_valid(document) {
        return Err("accepted in one pass, and invalid".to_owned());
    }
    let found = explain::explain(&gate.graph, &gate.patterns, document, 32);
    let nothing = found.violations[0].expected == "a document that fits the schema";
    match (gate.validator.is_valid(document), nothing) {
        (true, true) | (false, false) => Ok(()),
        (true, false) => Err(format!("valid, and yet: {found}")),
        (false, true) => Err("invalid, and nothing found".to_owned()),
    }
}
