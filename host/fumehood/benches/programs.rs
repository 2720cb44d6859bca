//! Cost of programs: `return 1+2`, a loop, and a call within a program compared to the same call made directly.
//!
//! `cargo bench -p fumehood --bench programs`

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::agent::allowlist::{Allowlists, DefaultAllowlist};
use fumehood::agent::code::{CodeMode, ProgramLimits, RUN_CODE};
use fumehood::agent::executor::{Scope, ToolExecutor as _};
use fumehood::agent::pipeline::{Pipeline, PipelineBuilder};
use fumehood::chat::ToolIntent;
use fumehood::{Call, Host, Load};
use serde_json::json;

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
const ADD: &str = r#"{"a":3,"b":5}"#;
const TOOL: &str = "calculator__add";
/// Number of calls of one program.
const CALLS: u32 = 1000;
/// Number of measurements of what takes long.
const ROUNDS: usize = 15;
/// Number of measurements of what takes little.
const MANY: usize = 500;

async fn call(pipeline: &Pipeline, name: &str, arguments: String) -> u64 {
    let intent = ToolIntent { id: "c".to_owned(), name: name.to_owned(), arguments };
    let outcome = pipeline.execute(vec![intent], &Scope::default()).await;
    let ended = outcome.executions.first();
    assert!(ended.is_some_and(|ended| !ended.has_error()), "{ended:?}");
    ended.map_or(0, |ended| ended.result.metadata.fuel_used)
}

async fn program(pipeline: &Pipeline, code: &str) -> u64 {
    call(pipeline, RUN_CODE, json!({"code": code}).to_string()).await
}

async fn measure(rounds: usize, mut work: impl AsyncFnMut() -> u64) -> (Vec<Duration>, u64) {
    let (mut times, mut fuel) = (Vec::with_capacity(rounds), 0);
    for _ in 0..rounds {
        let began = Instant::now();
        fuel = work().await;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    (times, fuel)
}

/// Returns the time below which this share of the sorted times is.
fn quantile(times: &[Duration], share: f64) -> Duration {
    let at = (times.len() as f64 * share) as usize;
    times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

#[allow(clippy::print_stdout, reason = "a bench prints its figures")]
async fn run(host: &Host, pipeline: &Pipeline) {
    let (times, fuel) = measure(MANY, async || program(pipeline, "return 1+2").await).await;
    let (p50, p99) = (quantile(&times, 0.5), quantile(&times, 0.99));
    println!("`return 1+2`: p50 {p50:?}, p99 {p99:?}, fuel {fuel}");

    let code = format!("for (let i = 0; i < {CALLS}; i++) await tools.calculator.add({ADD})");
    let (mut inner, mut direct, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    // Side by side, so that what else the machine does affects them alike.
    for _ in 0..ROUNDS {
        inner.push(measure(1, async || program(pipeline, &code).await).await.0.swap_remove(0) / CALLS);
        let calls = measure(CALLS as usize, async || call(pipeline, TOOL, ADD.to_owned()).await).await.0;
        direct.push(calls.iter().sum::<Duration>() / CALLS);
        let calls = measure(CALLS as usize, async || host.call(Call::new(TOOL, ADD)).await.metadata.fuel_used).await.0;
        plain.push(calls.iter().sum::<Duration>() / CALLS);
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        quantile(&times, 0.5)
    };
    let (inner, direct, plain) = (median(inner), median(direct), median(plain));
    let ratio = inner.as_secs_f64() / direct.as_secs_f64();
    println!(
        "a call, median of {ROUNDS} × {CALLS}: {inner:?} in a program, {direct:?} through the pipeline, ratio {ratio:.2}"
    );
    println!("the same call of the host alone: {plain:?}");

    let code = "let n = 0; for (let i = 0; i < 1e6; i++) n += i; return n";
    let (times, fuel) = measure(ROUNDS, async || program(pipeline, code).await).await;
    println!("a million turns: p50 {:?}, fuel {fuel}", quantile(&times, 0.5));
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(async {
        let host = Host::builder().build()?;
        host.load(Load::path(CALCULATOR)).await?;
        let lists = Allowlists { default: DefaultAllowlist::Everything, ..Allowlists::default() };
        let limits = ProgramLimits { calls: CALLS, ..ProgramLimits::default() };
        let components = Arc::new(host.clone());
        let pipeline = PipelineBuilder::default().provider(components).allowlists(lists);
        let pipeline =
            pipeline.code(Arc::new(host.javascript()), CodeMode::beside_direct_calls().limits(limits)).build()?;
        program(&pipeline, "return 1").await;
        run(&host, &pipeline).await;
        host.shutdown(Duration::from_secs(1)).await;
        Ok(())
    })
}
