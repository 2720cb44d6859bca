//! Cost of programs and of what is around calls: `return 1+2`, a call within a program beside the same call made
//! directly, 100 programs at once, a loop, hooks, flows, and the records of a program.
//!
//! `cargo bench -p fumehood --bench programs`. A search over 10,000 tools is measured by
//! `cargo bench -p fumehood-core --bench tool_index`, a server's tool that is served again by
//! `cargo bench -p fumehood-cli --bench mcp -- gateway`.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::agent::agent::Outcome;
use fumehood::agent::allowlist::{Allowlists, DefaultAllowlist};
use fumehood::agent::budget::Budget;
use fumehood::agent::code::{CodeMode, ProgramLimits, RUN_CODE};
use fumehood::agent::executor::{Scope, ToolExecutor as _};
use fumehood::agent::pipeline::{Pipeline, PipelineBuilder};
use fumehood::chat::ToolIntent;
use fumehood::event_log::{EventLog, Options};
use fumehood::flow::FlowPolicy;
use fumehood::model::{ScriptedModel, ScriptedReply};
use fumehood::policy::{Policies, Policy};
use fumehood::saved_session::SessionStore;
use fumehood::{Call, Host, Load};
use futures_util::future::join_all;
use serde_json::json;

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist");
const ADD: &str = r#"{"a":3,"b":5}"#;
const TOOL: &str = "calculator__add";
/// Number of calls of one program.
const CALLS: u32 = if cfg!(debug_assertions) { 100 } else { 1000 };
/// Number of measurements of what takes long.
const ROUNDS: usize = if cfg!(debug_assertions) { 3 } else { 15 };
/// Number of measurements of what takes little.
const MANY: usize = if cfg!(debug_assertions) { 50 } else { 500 };
/// Number of programs that run at once.
const PROGRAMS: usize = 100;
/// Number of turns of the loop in each of them.
const TURNS: u32 = 200_000;

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
    let mut times = Vec::with_capacity(rounds);
    let mut fuel = 0;
    for _ in 0..rounds {
        let began = Instant::now();
        fuel = work().await;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    (times, fuel)
}

/// Returns the mean time of [`CALLS`] calls, one after the other.
async fn mean(work: impl AsyncFnMut() -> u64) -> Duration {
    measure(CALLS as usize, work).await.0.iter().sum::<Duration>() / CALLS
}

/// Returns the time below which this share of the sorted times is.
fn quantile(times: &[Duration], share: f64) -> Duration {
    let at = (times.len() as f64 * share) as usize;
    times.get(at.min(times.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    quantile(&times, 0.5)
}

/// Returns the difference in microseconds, which noise can make negative.
fn added(with: Duration, without: Duration) -> f64 {
    (with.as_secs_f64() - without.as_secs_f64()) * 1e6
}

fn limits() -> ProgramLimits {
    ProgramLimits { calls: CALLS, ..ProgramLimits::default() }
}

fn pipeline(host: &Host, with: impl FnOnce(PipelineBuilder) -> PipelineBuilder) -> Result<Pipeline, Box<dyn Error>> {
    let lists = Allowlists { default: DefaultAllowlist::Everything, ..Allowlists::default() };
    let pipeline = PipelineBuilder::default().provider(Arc::new(host.clone())).allowlists(lists);
    let pipeline = pipeline.code(Arc::new(host.javascript()), CodeMode::beside_direct_calls().limits(limits()));
    Ok(with(pipeline).build()?)
}

#[allow(clippy::print_stdout, reason = "a bench prints its figures")]
async fn start_and_loop(pipeline: &Pipeline) {
    let (times, fuel) = measure(MANY, async || program(pipeline, "return 1+2").await).await;
    let p50 = quantile(&times, 0.5);
    let p99 = quantile(&times, 0.99);
    println!("`return 1+2`: p50 {p50:.1?}, p99 {p99:.1?}, fuel {fuel}");
    let code = "let n = 0; for (let i = 0; i < 1e6; i++) n += i; return n";
    let (times, fuel) = measure(ROUNDS, async || program(pipeline, code).await).await;
    println!("a million turns: p50 {:.1?}, fuel {fuel}", quantile(&times, 0.5));
}

fn loop_of_calls() -> String {
    format!("for (let i = 0; i < {CALLS}; i++) await tools.calculator.add({ADD})")
}

#[allow(clippy::print_stdout, reason = "a bench prints its figures")]
async fn inner_calls(host: &Host, pipeline: &Pipeline) {
    let code = loop_of_calls();
    let mut inner = Vec::new();
    let mut direct = Vec::new();
    let mut plain = Vec::new();
    // Side by side, so that what else the machine does affects them alike.
    for _ in 0..ROUNDS {
        inner.push(measure(1, async || program(pipeline, &code).await).await.0.swap_remove(0) / CALLS);
        direct.push(mean(async || call(pipeline, TOOL, ADD.to_owned()).await).await);
        plain.push(mean(async || host.call(Call::new(TOOL, ADD)).await.metadata.fuel_used).await);
    }
    let inner = median(inner);
    let direct = median(direct);
    let plain = median(plain);
    let ratio = inner.as_secs_f64() / direct.as_secs_f64();
    println!(
        "a call, median of {ROUNDS} × {CALLS}: {inner:.1?} in a program, {direct:.1?} through the pipeline, ratio {ratio:.2}"
    );
    println!("the same call of the host alone: {plain:.1?}");
}

/// Runs equal programs at once, and prints how evenly they shared the cores: all end late if they did.
#[allow(clippy::print_stdout, reason = "a bench prints its figures")]
async fn at_once(pipeline: Arc<Pipeline>) {
    let code = format!("let n = 0; for (let i = 0; i < {TURNS}; i++) n += i; return n");
    let alone = quantile(&measure(ROUNDS, async || program(&pipeline, &code).await).await.0, 0.5);
    let began = Instant::now();
    let tasks = (0..PROGRAMS).map(|_| {
        let pipeline = Arc::clone(&pipeline);
        let code = code.clone();
        tokio::spawn(async move {
            program(&pipeline, &code).await;
            began.elapsed()
        })
    });
    let mut times: Vec<Duration> = join_all(tasks).await.into_iter().flatten().collect();
    assert_eq!(times.len(), PROGRAMS);
    times.sort_unstable();
    let first = quantile(&times, 0.0);
    let last = quantile(&times, 1.0);
    let fairness = first.as_secs_f64() / last.as_secs_f64();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    println!(
        "{PROGRAMS} programs at once on {cores} cores, {alone:.1?} each if alone: the first ends after {first:.1?}, the \
         last after {last:.1?}, first/last {fairness:.2}"
    );
}

/// A native hook that decides on everything, and lets everything pass.
struct Allow;

impl Policy for Allow {
    fn name(&self) -> &str {
        "allow"
    }

    fn decides_on_results(&self) -> bool {
        true
    }
}

/// Prints the time that flows and hooks add to a direct call.
#[allow(clippy::print_stdout, reason = "a bench prints its figures")]
async fn layers(host: &Host) -> Result<(), Box<dyn Error>> {
    let component: Arc<dyn Policy> = Arc::new(host.hook("redact-email")?);
    let of = |hook: Arc<dyn Policy>| Policies::from_iter([hook]);
    let pipelines = [
        pipeline(host, |it| it)?,
        pipeline(host, |it| it.flows(FlowPolicy::new()))?,
        pipeline(host, |it| it.call_hooks(of(Arc::new(Allow))))?,
        pipeline(host, |it| it.call_hooks(of(component)))?,
    ];
    let mut times = pipelines.each_ref().map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for (pipeline, times) in pipelines.iter().zip(&mut times) {
            times.push(mean(async || call(pipeline, TOOL, ADD.to_owned()).await).await);
        }
    }
    let [without, flows, native, sandboxed] = times.map(median);
    println!("added to a direct call of {without:.1?}, in µs: flows {:.1}", added(flows, without));
    println!("  a native hook {:.1}", added(native, without));
    println!("  a hook in the sandbox, three functions of it {:.1}", added(sandboxed, without));
    Ok(())
}

/// Runs an agent whose model writes one program.
async fn agent(host: &Host, store: Option<Arc<dyn SessionStore>>) -> Result<Outcome, Box<dyn Error>> {
    let arguments = json!({"code": loop_of_calls()}).to_string();
    let model = ScriptedModel::new(vec![ScriptedReply::call(RUN_CODE, arguments), ScriptedReply::text("done")]);
    let agent = host.agent(Arc::new(model)).allow_everything().code(CodeMode::only().limits(limits()));
    let budget = Budget { calls: CALLS + 1, calls_in_all: None, ..Budget::default() };
    let mut agent = agent.budget(budget);
    if let Some(store) = store {
        agent = agent.save_to(store);
    }
    Ok(agent.build()?.run("go").await?)
}

/// Prints the time that the records of a saved session add to a call of a program. Each is on disk before it counts.
#[allow(clippy::print_stdout, reason = "a bench prints its figures")]
async fn records(host: &Host) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let log: Arc<EventLog> = Arc::new(EventLog::open(folder.path().join("log.db"), &Options::default())?);
    let mut without = Vec::new();
    let mut with = Vec::new();
    for _ in 0..ROUNDS {
        for (store, times) in [(None, &mut without), (Some(Arc::clone(&log) as Arc<dyn SessionStore>), &mut with)] {
            let began = Instant::now();
            let outcome = agent(host, store).await?;
            times.push(began.elapsed() / CALLS);
            assert!(outcome.run.executions().all(|execution| !execution.has_error()), "{outcome:?}");
        }
    }
    let without = median(without);
    let with = median(with);
    println!(
        "a call of a program: {without:.1?}, recorded for a resume {with:.1?}, {:.1} µs more",
        added(with, without)
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    runtime.block_on(async {
        let host = Host::builder().build()?;
        for name in ["calculator", "redact-email"] {
            host.load(Load::path(format!("{TOOLS}/{name}.wasm"))).await?;
        }
        let plain = Arc::new(pipeline(&host, |it| it)?);
        program(&plain, "return 1").await;
        start_and_loop(&plain).await;
        inner_calls(&host, &plain).await;
        at_once(plain).await;
        layers(&host).await?;
        records(&host).await?;
        host.shutdown(Duration::from_secs(1)).await;
        Ok(())
    })
}
