//! The cost of telemetry: a pure call without a collector, and with one that gets every tenth trace.
//!
//! A process has one subscriber, so each kind is measured in processes of its own, which take turns. Off is measured as what
//! the disabled spans of a call take by themselves, because there is no build without them.
//!
//! `cargo bench -p fumehood --features telemetry --bench telemetry`

#![allow(
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::process::Command;
use std::time::{Duration, Instant};

use fumehood::telemetry::{ExportOptions, Telemetry};
use fumehood::{Call, CallResult, Host, Load, Metadata};
use fumehood_tests::otlp_collector::Collector;

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// Turns of each kind.
const TURNS: usize = 7;
/// Calls of a turn, in blocks.
const BLOCKS: usize = 100;
const BLOCK: u32 = 100;
/// Variable that says what a child measures.
const KIND: &str = "FUMEHOOD_BENCH_TELEMETRY";

fn main() {
    match std::env::var(KIND).as_deref() {
        Ok("on") => measure_on(),
        Ok("off") => println!("{}", calls().as_nanos()),
        Ok(_) => println!("{}", disabled_spans().as_nanos()),
        Err(_) => compare(),
    }
}

fn compare() {
    let mut on = Vec::new();
    let mut off = Vec::new();
    let mut spans = Vec::new();
    for _ in 0..TURNS {
        off.push(child("off"));
        on.push(child("on"));
        spans.push(child("spans"));
    }
    let [on, off, spans] = [on, off, spans].map(|mut nanos| {
        nanos.sort_by(f64::total_cmp);
        nanos[nanos.len() / 2]
    });
    println!("a call without a collector   {off:8.0} ns");
    println!("with one, at 10 % sampling   {on:8.0} ns   {:.3} x", on / off);
    println!("of it, spans that are off    {spans:8.0} ns   {:.3} x", off / (off - spans));
}

fn child(kind: &str) -> f64 {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program).env(KIND, kind).output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn measure_on() {
    let collector = Collector::start().expect("a port");
    let endpoint = collector.endpoint().parse().expect("a URL");
    let options = ExportOptions { endpoint: Some(endpoint), sampling: 0.1, ..ExportOptions::default() };
    let telemetry = Telemetry::install(&options, |warning| panic!("{warning}")).expect("it is installed once");
    println!("{}", calls().as_nanos());
    telemetry.shutdown(Duration::from_secs(5));
    assert!(!collector.exported().spans.is_empty(), "nothing was sampled");
}

/// Returns the median time of a call.
fn calls() -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let host = Host::builder().build().expect("a host");
        host.load(Load::path(CALCULATOR)).await.expect("a component");
        let call = || async {
            let result = host.call(Call::new("calculator__add", r#"{"a":3,"b":5}"#)).await;
            assert!(result.is_ok());
        };
        for _ in 0..1_000 {
            call().await;
        }
        let mut blocks = Vec::with_capacity(BLOCKS);
        for _ in 0..BLOCKS {
            let started = Instant::now();
            for _ in 0..BLOCK {
                call().await;
            }
            blocks.push(started.elapsed() / BLOCK);
        }
        blocks.sort();
        blocks[BLOCKS / 2]
    })
}

/// Returns the time of what a call does for its span while nobody collects it.
fn disabled_spans() -> Duration {
    use fumehood_core::telemetry;
    let result =
        CallResult { id: String::new(), tool: String::new(), outcome: Ok(Vec::new()), metadata: Metadata::default() };
    let rounds = 1_000_000;
    let started = Instant::now();
    for _ in 0..rounds {
        let span = std::hint::black_box(telemetry::call_span("calculator__add", "1"));
        span.clone().in_scope(|| std::hint::black_box(()));
        telemetry::record_result(&span, &result);
    }
    started.elapsed() / rounds
}
