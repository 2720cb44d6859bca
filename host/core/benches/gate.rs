//! The time that the gate takes, compared with parsing alone.
//!
//! `cargo bench -p fumehood-core --bench gate`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fumehood_core::schema::gate::{Gate, GateLimits};
use serde_json::{Map, Value, json};

const ROUNDS: usize = 50_000;

/// Returns a document of 40 fields in 738 bytes, and its schema.
fn document() -> (String, Value) {
    let mut text = String::from("{");
    let mut properties = Map::new();
    for n in 0..40 {
        let comma = if n == 0 { "" } else { "," };
        let (value, schema) = match n % 4 {
            0 => (format!("{}", n * 3), json!({"type": "integer", "minimum": 0})),
            1 => (format!("\"value {n:02}\""), json!({"type": "string", "maxLength": 20})),
            2 => (format!("{n}.5"), json!({"type": "number"})),
            _ => ((n % 8 == 3).to_string(), json!({"type": "boolean"})),
        };
        write!(text, "{comma}\"field_{n:02}\":{value}").expect("text grows");
        properties.insert(format!("field_{n:02}"), schema);
    }
    text.push('}');
    let padding = 738_usize.saturating_sub(text.len());
    text.insert_str(1, &" ".repeat(padding));
    let required: Vec<String> = properties.keys().cloned().collect();
    (text, json!({"type": "object", "properties": properties, "required": required}))
}

fn median(mut work: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn main() {
    let (text, schema) = document();
    let started = Instant::now();
    let gate = Gate::for_arguments(&schema, GateLimits::default()).expect("a schema");
    println!("compiling the schema of 40 fields: {:.1?}", started.elapsed());
    let value: Value = serde_json::from_str(&text).expect("JSON");
    let parse = median(|| drop(black_box(serde_json::from_str::<Value>(black_box(&text)).expect("JSON"))));
    let check = median(|| black_box(gate.check(black_box(&value))).expect("it fits"));
    let both = median(|| drop(black_box(gate.parse(black_box(&text)).expect("it fits"))));
    println!(
        "{} bytes, 40 fields: parsing alone {parse:.2?}, checking alone {check:.2?}, the gate {both:.2?}",
        text.len()
    );
}
