//! How late a hostile call is stopped, and what others notice of it.
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
use serde_json::json;

const DEADLINE: Duration = Duration::from_millis(50);
const ROUNDS: usize = 100;
const SPINNERS: usize = 8;

fn limits() -> Limits {
    Limits { deadline: DEADLINE, ..Limits::default() }
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

fn row(name: &str, times: &mut [Duration]) {
    let (p50, p99) = (percentile(times, 0.5), percentile(times, 0.99));
    let most = percentile(times, 1.0);
    println!("{name:<44} {:>8.2} {:>8.2} {:>8.2}", millis(p50), millis(p99), millis(most));
}

async fn overshoot(program: &str) {
    let host = host_with(program).await;
    let arguments = if program == "spin-realloc" { json!({"text": "hello"}) } else { json!({}) };
    let mut late = Vec::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let result = host.call(Call::new("it__run", arguments.clone())).await;
        assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Deadline), "{program}");
        late.push(started.elapsed().saturating_sub(DEADLINE));
    }
    row(program, &mut late);
}

/// What a well-behaved call takes while others spin.
async fn beside_spinners() {
    let host = host_with("spin").await;
    host.load(Load::bytes("good", fumehood_tests::contract("echo").expect("a program"))).await.expect("it loads");
    let long = Limits { deadline: Duration::from_secs(8), ..limits() };
    let spinning: Vec<_> = (0..SPINNERS)
        .map(|_| {
            let host = host.clone();
            tokio::spawn(async move { host.call(Call::new("it__run", "{}").with_limits(long)).await })
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
        host.call(Call::new("sleep__run", "{}").with_limits(limits())).await;
        late.push(started.elapsed().saturating_sub(DEADLINE));
    }
    spinning.iter().for_each(tokio::task::JoinHandle::abort);
    row(&format!("a sleeping call past its deadline beside {SPINNERS}"), &mut late);
    row(&format!("a good call beside {SPINNERS} spinning ones"), &mut times);
}

/// How much more memory than its ceiling a bomb makes the process hold.
async fn bomb() {
    let host = host_with("memory-bomb").await;
    let patient = Limits { deadline: Duration::from_secs(10), ..limits() };
    let before = peak();
    for _ in 0..10 {
        let result = host.call(Call::new("it__run", "{}").with_limits(patient)).await;
        assert_eq!(result.error().map(|error| error.kind), Some(ErrorKind::Memory));
    }
    let over = peak().saturating_sub(before).saturating_sub(patient.memory as u64);
    println!("\na memory bomb under {} MiB: {:.1} MiB over that", patient.memory >> 20, over as f64 / 1048576.0);
}

/// The most memory that this process ever held, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a figure");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") * 1024
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    println!(
        "{:<44} {:>8} {:>8} {:>8}",
        format!("ms past a deadline of {} ms", DEADLINE.as_millis()),
        "p50",
        "p99",
        "most"
    );
    for program in ["spin", "sleep", "spin-start", "spin-realloc", "spin-post-return", "bulk-fill"] {
        overshoot(program).await;
    }
    println!("\n{:<44} {:>8} {:>8} {:>8}", "ms", "p50", "p99", "most");
    beside_spinners().await;
    bomb().await;
}
