//! The cost of a worker process, compared with the same calls in this process, measured alternately in one run.
//!
//! `cargo bench -p fumehood-runtime --bench isolation`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fumehood::{Call, CodeCache, Host, Isolation, Load, Workers};

const WORKER: &str = "run-worker";
const ROUNDS: usize = 20_000;
const WARM_UP: usize = 2_000;
/// Numbers of concurrent callers for throughput.
const CALLERS: [usize; 3] = [1, 2, 8];
const STARTS: usize = 40;
/// Numbers of busy threads beside the calls.
const BUSY_THREADS: [usize; 4] = [0, 1, 2, 4];
const BUSY_ROUNDS: usize = 5_000;

fn document() -> String {
    format!(r#"{{"text":"{}","mode":"summary","limit":10,"strict":true}}"#, "Behind glass. ".repeat(72))
}

fn percentile_us(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6
}

async fn time_call(host: &Host, tool: &str, text: &str) -> Duration {
    let start = Instant::now();
    let result = host.call(Call::new(tool, text)).await;
    let took = start.elapsed();
    assert!(result.is_ok(), "{result:?}");
    took
}

/// Measures the latencies of both alternately, so that other load of the machine affects both.
async fn latencies(host: &Host, text: &str, pause: Duration, rounds: usize) -> [Vec<Duration>; 2] {
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..rounds + WARM_UP.min(rounds) {
        for (which, tool) in ["here__echo", "apart__echo"].into_iter().enumerate() {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await;
            }
            let took = time_call(host, tool, text).await;
            if round >= WARM_UP.min(rounds) {
                times[which].push(took);
            }
        }
    }
    times
}

/// Runs `measure` beside threads that never sleep.
fn beside_busy_threads<T>(threads: usize, measure: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let measured = measure();
        is_over.store(true, Ordering::Relaxed);
        measured
    })
}

/// Prints the latencies of calls beside threads that never sleep.
fn print_beside_busy_threads(runtime: &tokio::runtime::Runtime, host: &Host, text: &str) {
    println!(
        "\n{:<40} {:>10} {:>10} {:>10} {:>10}",
        "µs, beside busy threads", "in-process", "process", "ratio", "p99 ratio"
    );
    for threads in BUSY_THREADS {
        let measure = || runtime.block_on(latencies(host, text, Duration::ZERO, BUSY_ROUNDS));
        let [mut here, mut apart] = beside_busy_threads(threads, measure);
        let [here50, apart50] = [percentile_us(&mut here, 0.5), percentile_us(&mut apart, 0.5)];
        let ratio99 = percentile_us(&mut apart, 0.99) / percentile_us(&mut here, 0.99);
        let name = format!("{threads} busy threads");
        println!("{name:<40} {here50:>10.1} {apart50:>10.1} {:>10.2} {ratio99:>10.2}", apart50 / here50);
    }
}

/// Measures calls a second with this many callers, on two threads.
fn throughput(host: &Host, tool: &'static str, text: &str, callers: usize) -> f64 {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
    let start = Instant::now();
    let all: Vec<_> = (0..callers)
        .map(|_| {
            let host = host.clone();
            let text = Arc::<str>::from(text);
            runtime.spawn(async move {
                for _ in 0..2 * ROUNDS / callers {
                    time_call(&host, tool, &text).await;
                }
            })
        })
        .collect();
    runtime.block_on(async {
        for caller in all {
            caller.await.expect("no panic");
        }
    });
    (2 * ROUNDS) as f64 / start.elapsed().as_secs_f64()
}

/// Kilobytes of a process, by a field of `/proc/PID/smaps_rollup`.
fn kilobytes(pid: u32, field: &str) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("the worker lives");
    let line = rollup.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().expect("a number")
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|first| first == WORKER) {
        return fumehood::serve_worker();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let echo = fumehood_tests::contract("echo").expect("the program");
    let text = document();
    let cache = tempfile::tempdir().expect("a folder");
    let builder = Host::builder().workers(Workers::this_program([WORKER])).concurrency(16);
    let host =
        builder.code_cache(CodeCache::open(cache.path().join("code")).expect("a cache")).build().expect("a host");
    let load = |name: &str, isolation| Load::bytes(name, echo.clone()).isolation(isolation);
    let worker = runtime.block_on(async {
        host.load(load("here", Isolation::InProcess)).await.expect("it loads");
        host.load(load("apart", Isolation::Process)).await.expect("it loads")
    });
    println!("jail: {:?}\n", worker.jail().expect("a worker"));
    println!("1 KB of JSON in and out ({} bytes), warm worker\n", text.len());
    println!("{:<40} {:>10} {:>10} {:>10} {:>10}", "µs", "in-process", "process", "added", "p99 added");
    let cases = [
        ("calls one after the other", Duration::ZERO, ROUNDS),
        ("a pause of 2 ms before each", Duration::from_millis(2), 400),
    ];
    for (name, pause, rounds) in cases {
        let [mut here, mut apart] = runtime.block_on(latencies(&host, &text, pause, rounds));
        let [here50, apart50] = [percentile_us(&mut here, 0.5), percentile_us(&mut apart, 0.5)];
        let added99 = percentile_us(&mut apart, 0.99) - percentile_us(&mut here, 0.99);
        println!("{name:<40} {here50:>10.1} {apart50:>10.1} {:>10.1} {added99:>10.1}", apart50 - here50);
    }
    print_beside_busy_threads(&runtime, &host, &text);
    println!("\n{:<40} {:>10} {:>10} {:>10}", "calls a second", "in-process", "process", "ratio");
    for callers in CALLERS {
        let [here, apart] = ["here__echo", "apart__echo"].map(|tool| throughput(&host, tool, &text, callers));
        println!("{:<40} {here:>10.0} {apart:>10.0} {:>10.2}", format!("{callers} callers, 2 threads"), apart / here);
    }
    let pid = worker.worker_id().expect("it lives");
    let [rss, pss, anonymous] = ["Rss", "Pss", "Anonymous"].map(|field| kilobytes(pid, field));
    println!("\na worker after all this, KiB: {rss} resident, {pss} its share of that, {anonymous} of its own");
    let fresh = runtime.block_on(host.load(load("fresh", Isolation::Process))).expect("it loads");
    let pid = fresh.worker_id().expect("it lives");
    let [rss, pss, anonymous] = ["Rss", "Pss", "Anonymous"].map(|field| kilobytes(pid, field));
    println!("a worker that has run nothing, KiB:   {rss} resident, {pss} its share of that, {anonymous} of its own");
    let mut starts = Vec::new();
    let mut loads = [Vec::new(), Vec::new()];
    for start in 0..STARTS {
        for (which, isolation) in [Isolation::InProcess, Isolation::Process].into_iter().enumerate() {
            let name = format!("start-{which}-{start}");
            let began = Instant::now();
            let component = runtime.block_on(host.load(load(&name, isolation))).expect("it loads");
            loads[which].push(began.elapsed());
            if let Some(pid) = component.worker_id() {
                let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process");
                rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it lives");
                std::thread::sleep(Duration::from_millis(50));
                starts.push(runtime.block_on(time_call(&host, &format!("{name}__echo"), &text)));
            }
            host.unload(&name);
        }
    }
    let [here, apart] = loads.each_mut().map(|times| percentile_us(times, 0.5) / 1e3);
    println!("\nloading with cached code, p50 ms: {here:.1} in-process, {apart:.1} with a worker");
    println!("a call that starts its worker again, p50 ms: {:.1}", percentile_us(&mut starts, 0.5) / 1e3);
    ExitCode::SUCCESS
}
