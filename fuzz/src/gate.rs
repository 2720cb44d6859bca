//! A schema and a document: the gate neither panics nor takes longer than a schema of its limits may.

use std::time::{Duration, Instant};

use fumehood_core::gate::{ForeignSchema, Gate, GateLimits};

/// Separates the schema from the document.
const SEPARATOR: &str = "\n---\n";
/// A schema that could take longer is refused when it is compiled; instrumented code on a busy machine is slower still.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Compiles a schema in JSON and checks a document after it, as text and as a value.
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
            // What was read strictly is a value that passes as a value.
            Ok(value) => assert!(gate.check(&value).is_ok(), "{schema} {document}"),
            Err(violations) => assert!(!violations.to_string().is_empty(), "{schema} {document}"),
        }
    }
    assert!(started.elapsed() < MAX_TIME, "{:?}", started.elapsed());
}
