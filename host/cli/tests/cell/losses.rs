//! The time until a lost worker is known: killed, stopped and cut off, again and again.
//!
//! `FUMEHOOD_CELL_LOSSES` is the number of losses.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::{call, read, send};
use super::harness::{Cell, wait_until};
use super::proxy::Network;

const DEFAULT_LOSSES: u32 = 12;
/// Arguments of a call that takes ten seconds.
const LONG: &str = r#"{"from": 100, "step_ms": 90}"#;
/// Maximum of the median and of each loss, far above what is documented: other tests run at the same time.
const MAX_MEDIAN: Duration = Duration::from_secs(1);
const MAX_TIME: Duration = Duration::from_secs(3);
/// Time after which a call that does not run is sent again.
const RESEND_AFTER: Duration = Duration::from_millis(500);

fn is_well(address: &str) -> bool {
    call(address, "calculator__add", r#"{"a": 1, "b": 1}"#).kind() == "ok"
}

#[test]
fn a_lost_worker_is_known_soon() {
    let Some(mut cell) = Cell::start() else { return };
    cell.proxy("w1");
    cell.worker("w1", 1);
    let gateway = cell.gateway("");
    let losses = std::env::var("FUMEHOOD_CELL_LOSSES").ok().and_then(|count| count.parse().ok());
    let mut times: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for round in 0..losses.unwrap_or(DEFAULT_LOSSES) {
        wait_until("the worker is there", || is_well(&gateway));
        let mut running = send(&gateway, "countdown__countdown", LONG);
        let mut sent = Instant::now();
        wait_until("the call runs", || {
            let runs = !is_well(&gateway);
            // Refused if the place of the call before it was not free yet.
            if !runs && sent.elapsed() > RESEND_AFTER {
                (running, sent) = (send(&gateway, "countdown__countdown", LONG), Instant::now());
            }
            runs
        });
        // At another time between two heartbeats in each round.
        std::thread::sleep(Duration::from_millis(u64::from(150 + round * 17 % 90)));
        let lost = Instant::now();
        let harm = match round % 4 {
            0 => {
                cell.kill("w1");
                "kill -9"
            }
            1 => {
                cell.signal("w1", Signal::STOP);
                "SIGSTOP"
            }
            2 => {
                cell.network("w1").set(Network::Cut);
                "cut"
            }
            _ => {
                cell.network("w1").set(Network::HalfOpen);
                "half open"
            }
        };
        let answer = read(running, lost);
        assert_eq!(answer.kind(), "interrupted", "{harm}: {answer:?}");
        assert!(answer.detail().contains("had started"), "{harm}: {answer:?}");
        times.entry(harm).or_default().push(answer.took);
        match harm {
            "kill -9" => cell.worker("w1", 1),
            "SIGSTOP" => cell.signal("w1", Signal::CONT),
            _ => cell.network("w1").set(Network::Well),
        }
    }
    println!("| loss | times | p50 | p99 | longest |\n|---|---|---|---|---|");
    let all: Vec<Duration> = times.values().flatten().copied().collect();
    for (harm, mut times) in times.into_iter().chain([("all", all)]) {
        times.sort_unstable();
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        println!("| {harm} | {} | {:?} | {:?} | {:?} |", times.len(), at(50), at(99), at(100));
        assert!(at(50) < MAX_MEDIAN && at(100) < MAX_TIME, "{harm}: {times:?}");
    }
}
