//! The time that a search over 10,000 tools takes, and that of an update of their index.
//!
//! `cargo bench -p fumehood-core --bench tool_index`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood_core::schema::gate::{Gate, GateLimits};
use fumehood_core::tool::Tool;
use fumehood_core::tool::definition::{DefinitionLimits, RawDefinition};
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::search::ToolIndex;
use serde_json::json;

const TOOLS: usize = 10_000;
const ROUNDS: usize = 1_000;

const VERBS: [&str; 10] =
    ["create", "list", "get", "update", "delete", "search", "send", "export", "archive", "analyze"];
const NOUNS: [&str; 20] = [
    "issue",
    "message",
    "invoice",
    "customer",
    "file",
    "folder",
    "branch",
    "deployment",
    "alert",
    "dashboard",
    "event",
    "contact",
    "ticket",
    "table",
    "record",
    "image",
    "report",
    "payment",
    "release",
    "pipeline",
];

fn tool(number: usize) -> Arc<Tool> {
    let verb = VERBS[number % VERBS.len()];
    let noun = NOUNS[number / 10 % NOUNS.len()];
    let other = NOUNS[number / 200 % NOUNS.len()];
    let schema = json!({"type": "object", "properties": {
        "id": {"type": "string"}, format!("{noun}_id"): {"type": "string"}, "limit": {"type": "integer"},
        "filter": {"type": "string"}, format!("{other}_name"): {"type": "string"},
    }});
    let description = format!(
        "Use this to {verb} one {noun} or several of a {other}, by id or by a filter. Returns the {noun} with all of \
         its fields, the {other} that it belongs to, and when it was changed. Number {number} of many like it.",
    );
    let raw = RawDefinition {
        name: format!("{verb}_{noun}"),
        description,
        input_schema: schema.to_string(),
        ..RawDefinition::default()
    };
    let definition = raw.parse(&DefinitionLimits::default()).expect("a definition");
    let gate = Gate::for_arguments(&schema, GateLimits::default()).expect("a schema");
    let server = Namespace::parse(&format!("server-{}", number / 200)).expect("a name");
    Arc::new(Tool::new(definition, gate).in_namespace(&server))
}

fn percentiles(mut work: impl FnMut()) -> (Duration, Duration) {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            work();
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[ROUNDS / 2], times[ROUNDS * 99 / 100])
}

fn main() {
    let tools: Vec<_> = (0..TOOLS).map(tool).collect();
    let started = Instant::now();
    let mut index = ToolIndex::new(tools.iter().cloned());
    println!("an index of {} tools: {:.1?}", index.len(), started.elapsed());
    for query in ["send an invoice to a customer", "number 4711", "get all fields of the release with its id by filter"]
    {
        let (median, slow) = percentiles(|| drop(black_box(index.search(black_box(query), 5))));
        println!("`{query}`: p50 {median:.1?}, p99 {slow:.1?}");
    }
    let mut changed = tools;
    changed.pop();
    changed.push(tool(TOOLS));
    let started = Instant::now();
    index.update(changed);
    println!("an update with one other tool: {:.1?}", started.elapsed());
}
