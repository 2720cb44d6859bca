//! The delay in stopping a hostile call, its effect on other calls, and the memory of the process, compared with raw
//! wasmtime.
//!
//! Raw means: the same engine, a thread that advances its epoch once a millisecond, a callback that compares clocks, a
//! limiter, and a tokio timeout around instantiation and call. It has no gate, no queue and no threads of its own.
//!
//! `cargo bench -p fumehood-runtime --bench deadlines`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::time::{Duration, Instant};

use fumehood::{Call, ErrorKind, Host, Limits, Load};
use fumehood_runtime::{Sandbox, SandboxConfig};
use fumehood_tests::answering;
use fumehood_tests::contract::{Answer, ToolDescription};
use serde_json::json;
use wasmtime::component::{Component, InstancePre, Linker, ResourceTable, Val};
use wasmtime::{Engine, Store, StoreLimits, StoreLimitsBuilder, UpdateDeadline};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

const DEADLINE: Duration = Duration::from_millis(50);
const ROUNDS: usize = 100;
const SPINNERS: usize = 8;
/// Number of callers of the same large result.
const CALLERS: usize = 4;
const BOMBS: usize = 10;
const MIB: f64 = 1048576.0;

fn limits() -> Limits {
    Limits::default().deadline(DEADLINE)
}

async fn host_with(program: &str) -> Host {
    let host = Host::builder().limits(limits()).build().expect("a host");
    host.load(Load::bytes("it", fumehood_tests::component(program).expect("a program"))).await.expect("it loads");
    host
}

fn percentile(times: &mut [Duration], share: f64) -> Duration {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize]
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Median, 99th percentile and maximum.
fn figures(times: &mut [Duration]) -> String {
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|share| millis(percentile(times, share)));
    format!("{p50:>8.2} {p99:>8.2} {max:>8.2}")
}

struct State {
    limits: StoreLimits,
    deadline: Instant,
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

/// A component on wasmtime alone, without a host.
struct Raw {
    sandbox: Sandbox,
    pre: InstancePre<State>,
}

impl Raw {
    fn new(program: &str) -> Self {
        let sandbox = Sandbox::new(SandboxConfig::default()).expect("a sandbox");
        let engine = sandbox.engine();
        let component = fumehood_tests::component(program).expect("a program");
        let component = Component::from_binary(engine, &component).expect("a component");
        let mut linker = Linker::new(engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).expect("links");
        let pre = linker.instantiate_pre(&component).expect("links");
        advance_epoch(engine);
        Self { sandbox, pre }
    }

    /// Runs a program for at most `allowed`. Panics if it succeeds.
    async fn run(&self, arguments: &[Val], allowed: Duration) {
        let deadline = Instant::now() + allowed;
        let limits = StoreLimitsBuilder::new().memory_size(Limits::default().memory).build();
        let state = State { limits, deadline, wasi: WasiCtxBuilder::new().build(), table: ResourceTable::new() };
        let mut store = Store::new(self.sandbox.engine(), state);
        store.limiter(|state| &mut state.limits);
        store.set_fuel(u64::MAX).expect("fuel is on");
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|cx| {
            if Instant::now() > cx.data().deadline {
                return Err(wasmtime::Error::msg("deadline"));
            }
            Ok(UpdateDeadline::Yield(1))
        });
        let ended = tokio::time::timeout_at(deadline.into(), async {
            let guest = self.pre.instantiate_async(&mut store).await?;
            let function = guest.get_func(&mut store, "run").expect("the export");
            let mut results = vec![Val::Bool(false); function.ty(&store).results().len()];
            function.call_async(&mut store, arguments, &mut results).await
        })
        .await;
        assert!(!matches!(ended, Ok(Ok(()))), "it should have been stopped");
    }
}

/// Starts a thread that advances the epoch once a millisecond, and ends with the engine.
fn advance_epoch(engine: &Engine) {
    let engine = engine.weak();
    std::thread::spawn(move || {
        while let Some(engine) = engine.upgrade() {
            engine.increment_epoch();
            drop(engine);
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

async fn bench_overshoot(program: &str) {
    let (arguments, values) = match program {
        "spin-realloc" => (json!({"text": "hello"}), vec![Val::String("hello".to_owned())]),
        _ => (json!({}), Vec::new()),
    };
    let raw = Raw::new(program);
    let host = host_with(program).await;
    let mut raw_times = Vec::new();
    let mut host_times = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        raw.run(&values, DEADLINE).await;
        raw_times.push(started.elapsed().saturating_sub(DEADLINE));
        let started = Instant::now();
        let result = host.call(Call::new("it__run", arguments.clone())).await;
        assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Deadline), "{program}");
        host_times.push(started.elapsed().saturating_sub(DEADLINE));
    }
    println!("{program:<32} {} {}", figures(&mut raw_times), figures(&mut host_times));
}

/// Measures a well-behaved call while others spin.
async fn bench_beside_spinners() {
    let host = host_with("spin").await;
    host.load(Load::bytes("good", fumehood_tests::contract("echo").expect("a program"))).await.expect("it loads");
    let long = limits().deadline(Duration::from_secs(8));
    let spinning: Vec<_> = (0..SPINNERS)
        .map(|_| {
            let host = host.clone();
            tokio::spawn(async move { host.call(Call::new("it__run", "{}").limits(long)).await })
        })
        .collect();
    while host.running() < SPINNERS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut times = Vec::new();
    while times.len() < 500 && host.running() >= SPINNERS {
        let started = Instant::now();
        assert!(host.call(Call::new("good__echo", json!({"a": 1}))).await.is_ok());
        times.push(started.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    host.load(Load::bytes("sleep", fumehood_tests::component("sleep").expect("a program"))).await.expect("it loads");
    let mut late = Vec::new();
    while late.len() < ROUNDS / 2 && host.running() >= SPINNERS {
        let started = Instant::now();
        host.call(Call::new("sleep__run", "{}").limits(limits())).await;
        late.push(started.elapsed().saturating_sub(DEADLINE));
    }
    spinning.iter().for_each(tokio::task::JoinHandle::abort);
    println!("{:<59} {}", format!("a sleeping call past its deadline beside {SPINNERS}"), figures(&mut late));
    println!("{:<59} {}", format!("a good call beside {SPINNERS} spinning ones"), figures(&mut times));
}

fn typed_lists() -> Vec<u8> {
    fumehood_tests::component("typed-lists").expect("a program")
}

fn answer_with(answer: Answer<'_>) -> Vec<u8> {
    answering(&[ToolDescription::new("t")], answer).expect("a program")
}

/// Returns the component and the arguments of a call whose result is expensive to convert.
fn large_results() -> [(&'static str, Vec<u8>, &'static str, serde_json::Value); 7] {
    let controls = vec![1; 1 << 20];
    [
        ("120,000 values of 32 flags", typed_lists(), "flags", json!({"n": 120_000})),
        ("12,000 values of 32 flags", typed_lists(), "flags", json!({"n": 12_000})),
        ("250,000 variants of 600 cases", typed_lists(), "variants", json!({"n": 250_000})),
        ("6,000 records of 40 fields", typed_lists(), "records", json!({"n": 6000})),
        ("250,000 bytes", typed_lists(), "bytes", json!({"n": 250_000})),
        ("30,000 parts without content", answer_with(Answer::EmptyTexts(30_000)), "t", json!({})),
        ("1 MiB of control characters", answer_with(Answer::Text(&controls)), "t", json!({})),
    ]
}

/// Measures how late results are that are expensive to convert, and a good call beside them.
async fn bench_large_results() {
    let columns = format!("{:>8} {:>8} {:>8}", "p50", "p99", "most");
    let beside = format!("past a deadline beside {CALLERS}");
    println!("\n{:<32} {beside:^26} {:^26}", "ms, host only: returning", "a good call beside them");
    println!("{:<32} {columns} {columns}", "");
    for (name, component, tool, arguments) in large_results() {
        let host = Host::builder().limits(limits()).build().expect("a host");
        host.load(Load::bytes("it", component)).await.expect("it loads");
        host.load(Load::bytes("good", fumehood_tests::contract("echo").expect("a program"))).await.expect("it loads");
        let calling = |host: Host, arguments: serde_json::Value| async move {
            let mut late = Vec::new();
            for _ in 0..ROUNDS {
                let started = Instant::now();
                let result = host.call(Call::new(format!("it__{tool}"), arguments.clone())).await;
                let past = started.elapsed().saturating_sub(DEADLINE + result.metadata.queued);
                late.push(past);
                tokio::task::yield_now().await;
            }
            late
        };
        let callers: Vec<_> = (0..CALLERS).map(|_| tokio::spawn(calling(host.clone(), arguments.clone()))).collect();
        let mut times = Vec::new();
        while !callers.iter().all(tokio::task::JoinHandle::is_finished) {
            let started = Instant::now();
            assert!(host.call(Call::new("good__echo", json!({"a": 1}))).await.is_ok());
            tokio::task::yield_now().await;
            times.push(started.elapsed());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut late = Vec::new();
        for caller in callers {
            late.extend(caller.await.expect("a caller"));
        }
        println!("{name:<32} {} {}", figures(&mut late), figures(&mut times));
    }
}

/// Measures the memory of the process before anything was loaded. Must run first, because memory is rarely returned.
fn measure_idle() {
    let alone = read_status("VmRSS");
    // As the host's own: no collector is built in.
    let mut config = wasmtime::Config::new();
    config.wasm_exceptions(false).wasm_function_references(false).wasm_gc(false).gc_support(false);
    let engine = Engine::new(&config).expect("an engine");
    let mut linker = Linker::<State>::new(&engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker).expect("links");
    let raw = read_status("VmRSS");
    let host = Host::builder().build().expect("a host");
    let ours = read_status("VmRSS");
    drop((host, linker));
    println!("resident, nothing loaded: {:.1} MiB the bench alone", alone / MIB);
    println!("  {:.1} MiB more with wasmtime's own engine and WASI linked", (raw - alone) / MIB);
    println!("  {:.1} MiB more with a host beside it", (ours - raw) / MIB);
}

fn print_row(name: &str, before: f64, ceiling: f64) {
    let over = read_status("VmHWM") - before - ceiling;
    let held = read_status("VmRSS") - before;
    println!("{name:<32} {:>26.1} {:>26.1}", over / MIB, held / MIB);
}

/// Measures the memory above its limit that a memory bomb makes the process hold, and the part that is held afterwards.
async fn bench_memory_bomb() {
    let patient = limits().deadline(Duration::from_secs(10));
    let ceiling = patient.memory as f64;
    println!("\n{:<32} {:>26} {:>26}", "MiB resident", "at most, over the ceiling", "still held afterwards");
    println!("{BOMBS} memory bombs under {} MiB", patient.memory >> 20);
    let raw = Raw::new("memory-bomb");
    let before = reset_peak();
    for _ in 0..BOMBS {
        raw.run(&[], patient.deadline).await;
    }
    print_row("  raw", before, ceiling);
    drop(raw);
    let host = host_with("memory-bomb").await;
    let before = reset_peak();
    for _ in 0..BOMBS {
        let result = host.call(Call::new("it__run", "{}").limits(patient)).await;
        assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Memory));
    }
    print_row("  host", before, ceiling);
}

/// Resets the peak to the current memory, and returns it in bytes.
fn reset_peak() -> f64 {
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux");
    read_status("VmRSS")
}

/// Returns the field of this name in `/proc/self/status`, in bytes.
fn read_status(name: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("a figure");
    let kibibytes = line.trim_start_matches(':').trim().trim_end_matches(" kB").trim();
    kibibytes.parse::<f64>().expect("a number") * 1024.0
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    measure_idle();
    bench_memory_bomb().await;
    println!("\n{:<32} {:^26} {:^26}", format!("ms past a deadline of {} ms", DEADLINE.as_millis()), "raw", "host");
    let columns = format!("{:>8} {:>8} {:>8}", "p50", "p99", "most");
    println!("{:<32} {columns} {columns}", "");
    for program in ["spin", "sleep", "spin-start", "spin-realloc", "spin-post-return", "bulk-fill"] {
        bench_overshoot(program).await;
    }
    println!("\n{:<59} {columns}", "ms, host only");
    bench_beside_spinners().await;
    bench_large_results().await;
}
