//! The cost of a call, compared with the same call on wasmtime alone.
//!
//! Raw means: the same engine, the same component, a fresh instance for each call, fuel, a limiter, a yielding epoch
//! callback that compares clocks, and a tokio timeout around it. It has no gate, no schema, no queue and no events.
//!
//! `cargo bench -p fumehood-runtime --bench calls`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fumehood::{Call, Host, Limits, Load};
use fumehood_runtime::{Sandbox, SandboxConfig};
use wasmtime::component::{Component, HasSelf, Linker, ResourceTable};
use wasmtime::{Store, StoreLimits, StoreLimitsBuilder, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

#[allow(missing_docs, reason = "generated")]
mod bindings {
    wasmtime::component::bindgen!({ path: "../../wit", world: "tool", exports: { default: async } });
}

use bindings::ToolPre;
use bindings::exports::fumehood::tool::tools::ToolCall;
use bindings::fumehood::tool::{context, key_value, log, progress, secrets, types};

const ROUNDS: usize = 20_000;
const WARM_UP: usize = 2_000;
/// Calls of one kind in a row.
const BLOCK: usize = 100;

struct State {
    limits: StoreLimits,
    deadline: Instant,
    wasi: Option<WasiCtx>,
    table: ResourceTable,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: self.wasi.get_or_insert_with(|| WasiCtxBuilder::new().build()), table: &mut self.table }
    }
}

impl types::Host for State {}
impl log::Host for State {
    fn log(&mut self, _: log::Level, _: String) {}
}
impl progress::Host for State {
    fn report(&mut self, _: progress::Update) {}
}
impl context::Host for State {
    fn call_id(&mut self) -> String {
        String::new()
    }
    fn tool_name(&mut self) -> String {
        String::new()
    }
    fn remaining_ms(&mut self) -> u64 {
        1000
    }
    fn actor(&mut self) -> Option<String> {
        None
    }
    fn state(&mut self) -> Option<String> {
        None
    }
}

impl secrets::Host for State {
    fn exists(&mut self, _: String) -> bool {
        false
    }
}

impl key_value::Host for State {
    fn get(&mut self, _: String) -> Result<Option<Vec<u8>>, key_value::Error> {
        Err(key_value::Error::Denied)
    }
    fn set(&mut self, _: String, _: Vec<u8>) -> Result<(), key_value::Error> {
        Err(key_value::Error::Denied)
    }
    fn delete(&mut self, _: String) -> Result<bool, key_value::Error> {
        Err(key_value::Error::Denied)
    }
    fn list(&mut self, _: String, _: Option<String>, _: u32) -> Result<key_value::Page, key_value::Error> {
        Err(key_value::Error::Denied)
    }
}

/// A component on wasmtime alone, without a host.
struct Raw {
    sandbox: Sandbox,
    pre: ToolPre<State>,
}

impl Raw {
    fn new(component: &[u8]) -> Self {
        let sandbox = Sandbox::new(SandboxConfig::default()).expect("a sandbox");
        let engine = sandbox.engine();
        let mut linker = Linker::new(engine);
        bindings::Tool::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut State| state).expect("links");
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).expect("links");
        let component = Component::from_binary(engine, component).expect("a component");
        let pre = ToolPre::new(linker.instantiate_pre(&component).expect("links")).expect("the contract");
        Self { sandbox, pre }
    }

    async fn call(&self, tool: &str, arguments: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(10);
        let limits = StoreLimitsBuilder::new().memory_size(64 << 20).build();
        let state = State { limits, deadline, wasi: None, table: ResourceTable::new() };
        let mut store = Store::new(self.sandbox.engine(), state);
        store.limiter(|state| &mut state.limits);
        store.set_fuel(10_000_000_000).expect("fuel is on");
        store.set_epoch_deadline(2);
        store.epoch_deadline_callback(|cx| {
            if Instant::now() > cx.data().deadline {
                return Err(wasmtime::Error::msg("deadline"));
            }
            Ok(UpdateDeadline::Yield(1))
        });
        let request = ToolCall { id: "call-1".to_owned(), tool: tool.to_owned(), arguments: arguments.to_owned() };
        let parts = tokio::time::timeout_at(deadline.into(), async {
            let guest = self.pre.instantiate_async(&mut store).await.expect("an instance");
            guest.fumehood_tool_tools().call_call(&mut store, &request).await.expect("no trap").expect("success")
        })
        .await
        .expect("in time");
        match parts.into_iter().next() {
            Some(types::Content::Json(text) | types::Content::Text(text)) => text,
            _ => String::new(),
        }
    }
}

/// About 1 KB of JSON as most tools receive it: some text and a few options.
fn document() -> String {
    format!(r#"{{"text":"{}","mode":"summary","limit":10,"strict":true}}"#, "Behind glass. ".repeat(72))
}

/// About 1 KB of JSON with 36 fields.
fn form() -> String {
    let fields: Vec<String> = (0..36).map(|n| format!(r#""field_{n:02}":"value number {n:04}""#)).collect();
    format!("{{{}}}", fields.join(","))
}

struct Figures {
    p50: Duration,
    p99: Duration,
}

fn figures(mut times: Vec<Duration>) -> Figures {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    Figures { p50: at(0.5), p99: at(0.99) }
}

/// Measures two ways of making a call, taking turns in blocks, so that a busy machine slows both alike.
async fn compare<A: Future, B: Future>(
    rounds: usize,
    mut first: impl FnMut() -> A,
    mut second: impl FnMut() -> B,
) -> (Figures, Figures) {
    let mut firsts = Vec::with_capacity(rounds);
    let mut seconds = Vec::with_capacity(rounds);
    for block in 0..(rounds + WARM_UP).div_ceil(BLOCK) {
        let is_warm = block * BLOCK >= WARM_UP;
        for _ in 0..BLOCK {
            let start = Instant::now();
            std::hint::black_box(first().await);
            firsts.extend(is_warm.then(|| start.elapsed()));
        }
        for _ in 0..BLOCK {
            let start = Instant::now();
            std::hint::black_box(second().await);
            seconds.extend(is_warm.then(|| start.elapsed()));
        }
    }
    (figures(firsts), figures(seconds))
}

/// Measures calls a second on this many threads.
fn throughput<F>(threads: usize, call: impl Fn() -> F + Send + Sync + 'static) -> f64
where
    F: Future + Send,
{
    let call = Arc::new(call);
    let start = Instant::now();
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let call = Arc::clone(&call);
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
                runtime.block_on(async {
                    for _ in 0..ROUNDS * 5 {
                        std::hint::black_box(call().await);
                    }
                });
            })
        })
        .collect();
    workers.into_iter().for_each(|worker| worker.join().expect("no panic"));
    (threads * ROUNDS * 5) as f64 / start.elapsed().as_secs_f64()
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn row(name: &str, raw: &Figures, host: &Figures) {
    println!(
        "{name:<34} {:>8.2} {:>8.2} {:>8.2} {:>8.2} {:>7.2}×",
        micros(raw.p50),
        micros(raw.p99),
        micros(host.p50),
        micros(host.p99),
        micros(host.p50) / micros(raw.p50)
    );
}

async fn host_with(name: &str, bytes: &[u8]) -> Host {
    let host = Host::builder().limits(Limits::default()).build().expect("a host");
    host.load(Load::bytes(name, bytes)).await.expect("it loads");
    host
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let echo = fumehood_tests::contract("echo").expect("the program");
    let countdown = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/countdown.wasm"));
    let countdown = countdown.expect("the built component");
    let text = document();
    println!("1 KB of JSON in and out ({} bytes), one thread\n", text.len());
    println!("{:<34} {:>8} {:>8} {:>8} {:>8} {:>8}", "µs", "raw p50", "raw p99", "host p50", "host p99", "ratio");
    let host = runtime.block_on(host_with("echo", &echo));
    let raw = Arc::new(Raw::new(&echo));
    runtime.block_on(async {
        let (raw_times, host_times) =
            compare(ROUNDS, || raw.call("echo", &text), || host.call(Call::new("echo__echo", text.as_str()))).await;
        row("pure tool, a text and 3 options", &raw_times, &host_times);
        let form = form();
        let (raw_times, host_times) =
            compare(ROUNDS, || raw.call("echo", &form), || host.call(Call::new("echo__echo", form.as_str()))).await;
        row("pure tool, 36 fields", &raw_times, &host_times);
        let wasi = Raw::new(&countdown);
        let arguments = r#"{"from":1,"step_ms":0}"#;
        let wasi_host = host_with("countdown", &countdown).await;
        let host_call = || wasi_host.call(Call::new("countdown__countdown", arguments));
        let (raw_times, host_times) = compare(ROUNDS / 4, || wasi.call("countdown", arguments), host_call).await;
        row("WASI tool (countdown from 1)", &raw_times, &host_times);
        bench_many_tools(&echo, &text).await;
    });
    println!("\n{:<34} {:>10} {:>10} {:>8}", "calls a second", "1 thread", "2 threads", "scaling");
    let raw_throughput = |threads| {
        let raw = Arc::clone(&raw);
        let text = text.clone();
        throughput(threads, move || {
            let raw = Arc::clone(&raw);
            let text = text.clone();
            async move { raw.call("echo", &text).await }
        })
    };
    let host_throughput = |threads| {
        let host = host.clone();
        let text = text.clone();
        throughput(threads, move || {
            let host = host.clone();
            let text = text.clone();
            async move { host.call(Call::new("echo__echo", text)).await }
        })
    };
    // An engine and a pool for each thread, to see what threads that share them wait for.
    let hosts = [host.clone(), runtime.block_on(host_with("echo", &echo))];
    let next = AtomicUsize::new(0);
    let per_thread = text.clone();
    thread_local! { static OWN: Cell<Option<usize>> = const { Cell::new(None) }; }
    let engines_throughput = throughput(2, move || {
        let own = OWN.get().unwrap_or_else(|| next.fetch_add(1, Ordering::Relaxed));
        OWN.set(Some(own));
        let host = hosts[own % 2].clone();
        let text = per_thread.clone();
        async move { host.call(Call::new("echo__echo", text)).await }
    });
    let raw1 = raw_throughput(1);
    let raw2 = raw_throughput(2);
    let host1 = host_throughput(1);
    let host2 = host_throughput(2);
    println!("{:<34} {raw1:>10.0} {raw2:>10.0} {:>7.2}×", "raw", raw2 / raw1);
    println!("{:<34} {host1:>10.0} {host2:>10.0} {:>7.2}×", "host", host2 / host1);
    let scaling = engines_throughput / host1;
    println!("{:<34} {:>10} {engines_throughput:>10.0} {scaling:>7.2}×", "host, an engine for each thread", "");
}

/// Measures a call with one tool loaded and with a thousand.
async fn bench_many_tools(echo: &[u8], text: &str) {
    let single = host_with("echo", echo).await;
    let many = host_with("echo", echo).await;
    for n in 0..999 {
        many.load(Load::bytes(format!("echo-{n}"), echo)).await.expect("it loads");
    }
    let call = |name| Call::new(name, text);
    let (one, thousand) =
        compare(ROUNDS, || single.call(call("echo__echo")), || many.call(call("echo-500__echo"))).await;
    println!(
        "{:<34} {:>8.2} {:>8} {:>8.2} {:>8} {:>7.2}×",
        "1 tool loaded, 1,000 tools loaded",
        micros(one.p50),
        "",
        micros(thousand.p50),
        "",
        micros(thousand.p50) / micros(one.p50)
    );
}
