//! Time from the start of the process to the first result, and memory of loaded components.
//!
//! `cargo bench -p fumehood-cli --bench startup`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and stops by panicking"
)]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fumehood::{CacheReport, CodeCache, Host, Load};

const STARTS: usize = 100;
const COMPONENTS: usize = 100;

fn calculator() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm")
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a figure");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

fn percentile(times: &mut [Duration], share: f64) -> f64 {
    times.sort_unstable();
    times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
}

fn time_start(cache: &std::path::Path, program: &str, arguments: &[&str]) -> Duration {
    let started = Instant::now();
    let mut command = Command::new(program);
    command.args(arguments).env("FUMEHOOD_CACHE_DIR", cache).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("XDG_STATE_HOME", cache.with_file_name("state")).env_remove("FUMEHOOD_LOG");
    assert!(command.status().expect("it starts").success());
    started.elapsed()
}

fn starts(cache: &std::path::Path) {
    let call = ["call", calculator(), "add", r#"{"a": 3, "b": 5}"#];
    time_start(cache, env!("CARGO_BIN_EXE_fumehood"), &call);
    let mut warm: Vec<_> = (0..STARTS).map(|_| time_start(cache, env!("CARGO_BIN_EXE_fumehood"), &call)).collect();
    let mut unrecorded: Vec<_> = (0..STARTS)
        .map(|_| time_start(cache, env!("CARGO_BIN_EXE_fumehood"), &[&call[..], &["--no-log"]].concat()))
        .collect();
    let mut floor: Vec<_> = (0..STARTS).map(|_| time_start(cache, "/bin/true", &[])).collect();
    let p50 = percentile(&mut warm, 0.5);
    let p99 = percentile(&mut warm, 0.99);
    let nothing = percentile(&mut floor, 0.5);
    println!("process start to first result, warm cache: p50 {p50:.2} ms, p99 {p99:.2} ms (`true`: {nothing:.2} ms)");
    let p50 = percentile(&mut unrecorded, 0.5);
    let p99 = percentile(&mut unrecorded, 0.99);
    println!("the same without a record in the event log: p50 {p50:.2} ms, p99 {p99:.2} ms");
}

/// Returns a component with the same code but another digest, because of a custom section with its number.
fn variant(component: &[u8], number: usize) -> Vec<u8> {
    let name = format!("{number:04}");
    let mut bytes = component.to_vec();
    bytes.extend([0, 5, 4]);
    bytes.extend(name.bytes());
    bytes
}

async fn loads(cache: &std::path::Path) {
    let component = std::fs::read(calculator()).expect("the built component");
    let cache = CodeCache::open(cache).expect("a cache");
    let build = || Host::builder().code_cache(cache.clone()).build().expect("a host");
    let cold = build();
    println!("a host with nothing loaded: this process holds {:.1} MiB", resident() as f64 / 1024.0);
    let variants: Vec<_> = (0..COMPONENTS).map(|number| variant(&component, number)).collect();
    let load = |number: usize| Load::bytes(format!("c{number}"), variants[number].clone());
    let started = Instant::now();
    for number in 0..COMPONENTS {
        let load = load(number);
        cold.load(load).await.expect("it loads");
    }
    println!("{COMPONENTS} components of {} KiB compiled in {:.1?}", component.len() >> 10, started.elapsed());
    cold.shutdown(Duration::ZERO).await;
    drop(cold);
    let host = build();
    let before = resident();
    // The bytes are read before the clock starts, so that the disk is not measured.
    let all: Vec<_> = (0..COMPONENTS).map(load).collect();
    let started = Instant::now();
    for load in all {
        let loaded = host.load(load).await.expect("it loads");
        assert_eq!(loaded.report().cache, CacheReport::Hit);
    }
    let elapsed = started.elapsed();
    let each = resident().saturating_sub(before) / COMPONENTS as u64;
    println!(
        "{COMPONENTS} cached components (with 5 tools each), one after another: {elapsed:.1?}, {each} KiB resident each"
    );
    let host = build();
    let all: Vec<_> = (0..COMPONENTS).map(load).collect();
    let started = Instant::now();
    let mut loads = tokio::task::JoinSet::new();
    for load in all {
        let host = host.clone();
        loads.spawn(async move { host.load(load).await.map(drop) });
    }
    loads.join_all().await.into_iter().for_each(|loaded| loaded.expect("it loads"));
    println!("the same, all at once: {:.1?}", started.elapsed());
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    starts(&cache);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(loads(&cache));
}
