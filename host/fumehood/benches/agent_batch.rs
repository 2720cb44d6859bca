//! Cost of a batch of sandboxed calls, compared to the same calls made directly and concurrently, and for ten times as
//! many.
//!
//! `cargo bench -p fumehood --bench agent_batch`

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::agent::allowlist::{Allowlists, DefaultAllowlist};
use fumehood::agent::executor::{Scope, ToolExecutor as _};
use fumehood::agent::pipeline::{Pipeline, PipelineBuilder};
use fumehood::chat::ToolIntent;
use fumehood::{Call, Host, Load};
use futures_util::future::join_all;

const CALCULATOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
const ADD: &str = r#"{"a": 3, "b": 5}"#;
const TOOL: &str = "calculator__add";
/// Number of measurements of each, in turns; the medians count.
const ROUNDS: usize = 41;

async fn batch(pipeline: &Pipeline, count: usize) -> Duration {
    let call = |id| ToolIntent { id: format!("{id}"), name: TOOL.to_owned(), arguments: ADD.to_owned() };
    let calls = (0..count).map(call).collect();
    let scope = Scope::default();
    let began = Instant::now();
    let outcome = pipeline.execute(calls, &scope).await;
    let elapsed = began.elapsed();
    assert_eq!(outcome.executions.iter().filter(|execution| !execution.has_error()).count(), count);
    elapsed
}

async fn direct(host: &Host, count: usize) -> Duration {
    let began = Instant::now();
    let results = join_all((0..count).map(|_| host.call(Call::new(TOOL, ADD)))).await;
    let elapsed = began.elapsed();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), count);
    elapsed
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

#[allow(clippy::print_stdout, reason = "a bench prints its figures")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(async {
        let host = Host::builder().build()?;
        host.load(Load::path(CALCULATOR)).await?;
        let lists = Allowlists { default: DefaultAllowlist::Everything, ..Allowlists::default() };
        let components = Arc::new(host.clone());
        let pipeline = PipelineBuilder::default().provider(components).allowlists(lists).build()?;
        batch(&pipeline, 500).await;
        direct(&host, 500).await;
        let mut through = Vec::new();
        let mut plain = Vec::new();
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let batch = batch(&pipeline, 1_000).await;
            let direct = direct(&host, 1_000).await;
            through.push(batch.as_secs_f64());
            plain.push(direct.as_secs_f64());
            // Of neighbours, because the speed of the machine changes while this runs.
            ratios.push(batch.as_secs_f64() / direct.as_secs_f64());
        }
        let through = median(through) * 1e3;
        let plain = median(plain) * 1e3;
        println!(
            "1,000 calls, median of {ROUNDS}: {through:.2} ms in a batch, {plain:.2} ms directly, ratio {:.3}",
            median(ratios)
        );
        for count in [1_000, 2_000, 5_000, 10_000] {
            let elapsed = batch(&pipeline, count).await;
            println!("{count} calls: {elapsed:?}, {:?} each", elapsed / u32::try_from(count).unwrap_or(1));
        }
        host.shutdown(Duration::from_secs(1)).await;
        Ok(())
    })
}
