//! Calls while workers are killed, stopped, started and cut off, NATS and PostgreSQL are restarted, and the disk of the log is
//! full: every call ends once, and truly.
//!
//! `FUMEHOOD_CELL_CALLS` is the number of calls. Each guest writes its own trace, which is compared with what callers were told
//! and with the log. Without PostgreSQL, the logs of the gateways are files.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::client::{Answer, call};
use super::harness::{Cell, wait_until};
use super::proxy::Network;

const DEFAULT_CALLS: usize = 1_000;
const CALLERS: usize = 12;
const PLACES: u32 = 4;
/// The deadline of every call, as the configuration of the harness says, and the most that one may take beyond it.
const MAX_TIME: Duration = Duration::from_secs(3);

/// The gateways, of which the first connects to NATS through a network of its own.
const GATEWAYS: [&str; 2] = ["g1", "g2"];

/// Makes one of the calls. Two of three write a trace.
fn make(address: &str, index: usize) -> Answer {
    if index.is_multiple_of(3) {
        let arguments = format!(r#"{{"from": {}, "step_ms": 40}}"#, 1 + index % 17);
        return call(address, "countdown__countdown", &arguments);
    }
    let arguments = format!(r#"{{"path": "/trace/{index}", "text": "ran\n", "append": true}}"#);
    call(address, "files__write", &arguments)
}

/// Does something bad to the cell, `round` after `round`. Returns its name.
fn harm(cell: &mut Cell, round: usize) -> &'static str {
    let worker = ["w1", "w2", "w3"][round % 3];
    match round % 10 {
        3 if cell.restart_log(Duration::from_millis(if round < 10 { 200 } else { 2500 })) => "PostgreSQL crashed",
        0 | 3 | 8 => {
            cell.kill(worker);
            std::thread::sleep(Duration::from_millis(150));
            cell.worker(worker, PLACES);
            "kill -9"
        }
        1 => {
            cell.signal(worker, Signal::STOP);
            std::thread::sleep(Duration::from_millis(900));
            cell.signal(worker, Signal::CONT);
            "SIGSTOP for 0.9 s"
        }
        2 => {
            cell.signal(worker, Signal::TERM);
            assert!(cell.has_ended_well(worker), "{}", cell.said(worker));
            cell.worker(worker, PLACES);
            "drained and started"
        }
        4 => {
            cell.stop_nats();
            std::thread::sleep(Duration::from_millis(200));
            cell.start_nats();
            "NATS killed"
        }
        9 => cut(cell, worker, Network::Cut, "worker cut for 0.8 s"),
        6 => cut(cell, ["g1", worker][round / 10 % 2], Network::HalfOpen, "half open for 0.8 s"),
        5 => {
            cell.fill_log_disk(&GATEWAYS, true);
            std::thread::sleep(Duration::from_millis(800));
            cell.fill_log_disk(&GATEWAYS, false);
            "disk of the log full for 0.8 s"
        }
        _ => {
            cut(cell, worker, Network::Slow(Duration::from_millis(60)), "slow");
            cell.network("g1").reset();
            "worker slow for 0.8 s, gateway reset"
        }
    }
}

fn cut(cell: &Cell, node: &str, network: Network, name: &'static str) -> &'static str {
    cell.network(node).set(network);
    std::thread::sleep(Duration::from_millis(800));
    cell.network(node).set(Network::Well);
    name
}

/// Returns whether a call was refused because there was no room to record it, and not because there was no server.
fn is_without_room(answer: &Answer) -> bool {
    let detail = answer.detail();
    detail.contains("could not be recorded") && !detail.contains("cannot be reached")
}

/// Compares what callers were told with the traces of the guests, and prints a table of both.
fn check_traces(cell: &Cell, answers: &BTreeMap<usize, Answer>) {
    let mut table: BTreeMap<(String, usize), usize> = BTreeMap::new();
    for (index, answer) in answers {
        let trace = std::fs::read_to_string(cell.path(&format!("trace/{index}"))).unwrap_or_default();
        let ran = trace.lines().count();
        let reason = if is_without_room(answer) { "unavailable: the disk of the log is full" } else { answer.kind() };
        *table.entry((reason.to_owned(), ran)).or_default() += 1;
        assert!(ran <= 1, "call {index} ran {ran} times: {answer:?}");
        if !index.is_multiple_of(3) {
            match answer.kind() {
                "ok" => assert_eq!(ran, 1, "call {index} is ok and did not run: {answer:?}"),
                "unavailable" => assert_eq!(ran, 0, "call {index} ran: {answer:?}"),
                "interrupted" | "deadline" => {}
                other => panic!("call {index}: {other}: {answer:?}"),
            }
        }
        assert!(answer.took < MAX_TIME, "call {index} took {:?}: {answer:?}", answer.took);
    }
    println!("| told | traces | calls |\n|---|---|---|");
    for ((told, ran), count) in &table {
        println!("| {told} | {ran} | {count} |");
    }
}

/// Compares what callers were told with the log: of each call that writes a trace, and of the others together.
fn check_log(cell: &Cell, answers: &BTreeMap<usize, Answer>) {
    let mut recorded: BTreeMap<String, String> = BTreeMap::new();
    for (arguments, status) in cell.recorded_calls(&GATEWAYS, "files__write") {
        let path = arguments["path"].as_str().unwrap().to_owned();
        assert_eq!(recorded.insert(path, status), None, "recorded twice: {arguments}");
    }
    let (others, writes): (Vec<_>, Vec<_>) = answers.iter().partition(|(index, _)| index.is_multiple_of(3));
    for (index, answer) in &writes {
        let status = recorded.get(&format!("/trace/{index}")).map(String::as_str);
        assert_eq!(status, Some(answer.kind()), "the log does not agree: call {index}: {answer:?}");
    }
    assert_eq!(recorded.len(), writes.len());
    let mut recorded: Vec<String> =
        cell.recorded_calls(&GATEWAYS, "countdown__countdown").into_iter().map(|(_, status)| status).collect();
    let mut told: Vec<&str> = others.iter().map(|(_, answer)| answer.kind()).collect();
    recorded.sort();
    told.sort_unstable();
    assert_eq!(recorded, told, "the log does not agree");
}

#[test]
fn what_callers_are_told_is_what_guests_did() {
    let Some(mut cell) = Cell::start() else { return };
    cell.deadline = "2s";
    cell.proxy("g1");
    for worker in ["w1", "w2", "w3"] {
        cell.proxy(worker);
        cell.worker(worker, PLACES);
    }
    cell.record_in_postgres();
    let addresses = GATEWAYS.map(|name| cell.gateway_of(name, "", &["--no-auth"]));
    cell.waste_pages();
    let calls = std::env::var("FUMEHOOD_CELL_CALLS").ok().and_then(|count| count.parse().ok()).unwrap_or(DEFAULT_CALLS);
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(BTreeMap::new());
    let mut harms: BTreeMap<&str, u32> = BTreeMap::new();
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= calls {
                        break;
                    }
                    let answer = make(&addresses[index % 2], index);
                    let pause = match answer.kind() {
                        _ if is_without_room(&answer) => 200,
                        "unavailable" => 100,
                        _ => 20,
                    };
                    answers.lock().unwrap().insert(index, answer);
                    std::thread::sleep(Duration::from_millis(pause));
                }
            });
        }
        let mut round = 0;
        while next.load(Ordering::Relaxed) < calls {
            std::thread::sleep(Duration::from_millis(250));
            *harms.entry(harm(&mut cell, round)).or_default() += 1;
            round += 1;
        }
    });
    let took = began.elapsed();
    // Guests whose callers were told something else may still run.
    for address in &addresses {
        wait_until("the cell is well", || call(address, "calculator__add", r#"{"a": 1, "b": 1}"#).kind() == "ok");
    }
    std::thread::sleep(MAX_TIME);
    let answers = answers.into_inner().unwrap();
    let longest = answers.values().map(|answer| answer.took).max().unwrap();
    println!("{calls} calls of {CALLERS} callers in {took:.1?}, {harms:?}; the longest took {longest:?}");
    check_traces(&cell, &answers);
    assert_eq!(answers.len(), calls);
    check_log(&cell, &answers);
    cell.verify_log(&GATEWAYS);
    assert!(answers.values().any(is_without_room), "the disk of the log was never full");
    let of = |kind: &str| answers.values().filter(|answer| answer.kind() == kind).count();
    assert!(of("ok") > calls / 4 && of("interrupted") > 0, "a test in which nothing goes wrong proves nothing");
}
