//! The gate: with any schema and document it neither panics nor exceeds its time limit.

use std::time::{Duration, Instant};

use fumehood_core::schema::gate::{ForeignSchema, Gate, GateLimits};

/// The separator between the schema and the document.
const SEPARATOR: &str = "\n---\n";
/// Maximum time for one input. A schema that could take longer is rejected when it is compiled; the limit is generous
/// because instrumented code on a busy machine is slow.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Compiles a JSON Schema, and validates the document after it, as text and as a value.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (schema, document) = text.split_once(SEPARATOR).unwrap_or((text, "{}"));
    let Ok(schema) = serde_json::from_str(schema) else { return };
    let started = Instant::now();
    let limits = GateLimits::default;
    let foreign = Gate::for_foreign_arguments(&ForeignSchema::translate(&schema, &limits()), limits());
    let foreign = foreign.map(|foreign| foreign.gate);
    assert!(foreign.is_ok(), "{schema}");
    for gate in [Gate::for_arguments(&schema, limits()), Gate::for_results(&schema, limits()), foreign] {
        let Ok(gate) = gate else { continue };
        match gate.parse(document) {
            // A document that is valid as text is valid as a value.
            Ok(value) => assert!(gate.check(&value).is_ok(), "{schema} {document}"),
            Err(violations) => assert!(!violations.to_string().is_empty(), "{schema} {document}"),
        }
    }
    assert!(started.elapsed() < MAX_TIME, "{:?}", started.elapsed());
}
