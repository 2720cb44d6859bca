//! The cost of a batch: compared to the same calls made directly, for ten times as many, and for three that wait.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood_agent::allowlist::{Allowlists, DefaultAllowlist};
use fumehood_agent::executor::{Scope, ToolExecutor as _};
use fumehood_agent::pipeline::{Pipeline, PipelineBuilder};
use fumehood_agent::registry::{BuiltIn, BuiltInError, BuiltIns};
use fumehood_core::call::CallContext;
use fumehood_core::chat::ToolIntent;
use fumehood_core::tool::ToolProvider as _;
use futures_util::future::join_all;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

#[derive(Deserialize, JsonSchema)]
struct Work {
    rounds: u64,
}

#[derive(Deserialize, JsonSchema)]
struct Wait {
    millis: u64,
}

/// The work of a call: about the time of a small call into a sandbox.
const ROUNDS: u64 = 60_000;

fn tools() -> Arc<BuiltIns> {
    let tools = BuiltIns::default();
    let work = |args: Work, _: CallContext| async move {
        Ok::<_, BuiltInError>(
            (0..args.rounds).fold(1u64, |hash, round| std::hint::black_box(hash ^ round).wrapping_mul(31)),
        )
    };
    let wait = |args: Wait, _: CallContext| async move {
        tokio::time::sleep(Duration::from_millis(args.millis)).await;
        Ok::<_, BuiltInError>(())
    };
    for registered in [
        BuiltIn::new("work", "Works.", work).map(|tool| tools.register(tool).is_ok()),
        BuiltIn::new("wait", "Waits.", wait).map(|tool| tools.register(tool).is_ok()),
    ] {
        assert!(registered.is_ok_and(|registered| registered));
    }
    Arc::new(tools)
}

fn calls(count: usize, name: &str, arguments: &str) -> Vec<ToolIntent> {
    let call = |id| ToolIntent { id: format!("{id}"), name: name.to_owned(), arguments: arguments.to_owned() };
    (0..count).map(call).collect()
}

async fn batch(pipeline: &Pipeline, calls: Vec<ToolIntent>) -> Duration {
    let scope = Scope::default();
    let count = calls.len();
    let began = Instant::now();
    let outcome = pipeline.execute(calls, &scope).await;
    let elapsed = began.elapsed();
    assert_eq!(outcome.executions.iter().filter(|execution| !execution.has_error()).count(), count);
    elapsed
}

async fn direct(tools: &BuiltIns, count: usize) -> Duration {
    let validated = tools.find("work").and_then(|tool| tool.validate(json!({"rounds": ROUNDS}).into()).ok());
    let Some(validated) = validated else { return Duration::ZERO };
    let began = Instant::now();
    let call = |_| tools.call(validated.clone(), CallContext::default());
    let done = join_all((0..count).map(call)).await;
    assert_eq!(done.len(), count);
    began.elapsed()
}

#[allow(clippy::print_stdout, reason = "a bench prints its figures")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    let tools = tools();
    let lists = Allowlists { default: DefaultAllowlist::Everything, ..Allowlists::default() };
    let pipeline = PipelineBuilder::default().built_ins(tools.clone()).allowlists(lists).build()?;
    let work = format!(r#"{{"rounds": {ROUNDS}}}"#);
    let tiny = r#"{"rounds": 1}"#;
    runtime.block_on(async {
        batch(&pipeline, calls(500, "work", &work)).await;
        let mut ratios = Vec::new();
        for _ in 0..7 {
            let through = batch(&pipeline, calls(1_000, "work", &work)).await;
            let plain = direct(&tools, 1_000).await;
            ratios.push(through.as_secs_f64() / plain.as_secs_f64());
            println!("1,000 calls: {through:?} in a batch, {plain:?} directly");
        }
        ratios.sort_by(f64::total_cmp);
        println!("ratio, median of 7: {:.2}", ratios.get(3).copied().unwrap_or_default());
        for count in [1_000, 10_000] {
            let elapsed = batch(&pipeline, calls(count, "work", tiny)).await;
            println!("{count} empty calls: {elapsed:?}, {:?} each", elapsed / u32::try_from(count).unwrap_or(1));
        }
        println!("three calls of 100 ms: {:?}", batch(&pipeline, calls(3, "wait", r#"{"millis": 100}"#)).await);
    });
    Ok(())
}
