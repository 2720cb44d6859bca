//! Single calls over a cell: how each of them ends when something happens to its worker.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::client::{call, read, send};
use super::harness::{Cell, wait_until};

/// Arguments of a call that takes ten seconds.
const LONG: &str = r#"{"from": 100, "step_ms": 90}"#;
/// Maximum time until a lost worker is known, on a loaded machine. The figure itself is printed.
const GENEROUS: Duration = Duration::from_secs(3);

/// Waits until a call would be refused, because the only place of the only worker is taken.
fn wait_until_full(address: &str) {
    wait_until("the cell is full", || call(address, "calculator__add", r#"{"a": 1, "b": 1}"#).kind() == "unavailable");
}

#[test]
fn calls_run_at_workers_with_their_powers() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 4);
    let gateway = cell.gateway("");
    let sum = call(&gateway, "calculator__add", r#"{"a": 3, "b": 5}"#);
    assert_eq!((sum.kind(), &sum.body["value"]), ("ok", &json!({"result": 8})), "{sum:?}");
    let written = call(&gateway, "files__write", r#"{"path": "/trace/one", "text": "1"}"#);
    assert_eq!(written.kind(), "ok", "{written:?}");
    assert_eq!(std::fs::read_to_string(cell.path("trace/one")).unwrap(), "1");
    let refused = call(&gateway, "calculator__add", r#"{"a": "3", "b": 5}"#);
    assert_eq!(refused.kind(), "invalid_arguments");
    // Nothing but a worker can have run them.
    cell.kill("w1");
    wait_until("the worker is missed", || {
        call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#).kind() == "unavailable"
    });
}

#[test]
fn a_killed_worker_is_an_interrupted_call() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 1);
    let gateway = cell.gateway("");
    let running = send(&gateway, "countdown__countdown", LONG);
    wait_until_full(&gateway);
    // By then the worker has said that the call runs.
    std::thread::sleep(Duration::from_millis(500));
    let killed = Instant::now();
    cell.kill("w1");
    let answer = read(running, killed);
    println!("kill -9: known after {:?}", answer.took);
    assert_eq!((answer.status, answer.kind()), (502, "interrupted"), "{answer:?}");
    assert!(answer.detail().contains("`w1`") && answer.detail().contains("had started"), "{answer:?}");
    assert!(answer.took < GENEROUS, "{:?}", answer.took);
}

#[test]
fn a_stopped_worker_is_an_interrupted_call_and_goes_on_later() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 1);
    let gateway = cell.gateway("");
    let running = send(&gateway, "countdown__countdown", LONG);
    wait_until_full(&gateway);
    let stopped = Instant::now();
    cell.signal("w1", Signal::STOP);
    let answer = read(running, stopped);
    println!("SIGSTOP: known after {:?}", answer.took);
    assert_eq!(answer.kind(), "interrupted", "{answer:?}");
    assert!(answer.took < GENEROUS, "{:?}", answer.took);
    cell.signal("w1", Signal::CONT);
    wait_until("the worker goes on", || call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#).kind() == "ok");
    wait_until("the late result is told", || cell.said("g1").contains("arrived after its call had ended"));
    wait_until("the late result is recorded", || cell.recorded_late("countdown__countdown") == 1);
    assert_eq!(cell.recorded("countdown__countdown", "interrupted"), 1);
    assert_eq!(cell.recorded("countdown__countdown", "ok"), 0);
}

#[test]
fn a_full_cell_says_so_at_once() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 1);
    let gateway = cell.gateway("");
    let _running = send(&gateway, "countdown__countdown", LONG);
    wait_until_full(&gateway);
    let answer = call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#);
    println!("full: refused after {:?}", answer.took);
    assert_eq!((answer.status, answer.kind(), answer.retry_after), (503, "unavailable", true), "{answer:?}");
    assert!(answer.detail().contains("did not run"), "{answer:?}");
    assert!(answer.took < GENEROUS, "{:?}", answer.took);
}

#[test]
fn a_caller_that_leaves_stops_the_guest() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 1);
    let gateway = cell.gateway("");
    let running = send(&gateway, "countdown__countdown", LONG);
    wait_until_full(&gateway);
    let left = Instant::now();
    drop(running);
    wait_until("the place is free", || call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#).kind() == "ok");
    println!("cancel: the place is free after {:?}", left.elapsed());
    assert!(left.elapsed() < GENEROUS, "{:?}", left.elapsed());
}

#[test]
fn a_worker_that_drains_loses_no_call() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 2);
    cell.worker("w2", 2);
    let gateway = cell.gateway("");
    let short = r#"{"from": 100, "step_ms": 50}"#;
    let running: Vec<_> = (0..4).map(|_| (send(&gateway, "countdown__countdown", short), Instant::now())).collect();
    std::thread::sleep(Duration::from_millis(200));
    wait_until_full(&gateway);
    cell.signal("w1", Signal::TERM);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1500) {
        let answer = call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#);
        assert!(["ok", "unavailable"].contains(&answer.kind()), "{answer:?}");
    }
    for (stream, sent) in running {
        let answer = read(stream, sent);
        assert_eq!(answer.kind(), "ok", "{answer:?}");
    }
    let after = call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#);
    assert_eq!(after.kind(), "ok", "{after:?}");
    assert!(cell.has_ended_well("w1"), "{}", cell.said("w1"));
}

#[test]
fn a_restarted_server_interrupts_and_the_cell_goes_on() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 1);
    let gateway = cell.gateway("");
    let running = send(&gateway, "countdown__countdown", LONG);
    wait_until_full(&gateway);
    let stopped = Instant::now();
    cell.stop_nats();
    let answer = read(running, stopped);
    println!("NATS killed: known after {:?}", answer.took);
    assert_eq!(answer.kind(), "interrupted", "{answer:?}");
    let meanwhile = call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#);
    assert!(["unavailable", "interrupted"].contains(&meanwhile.kind()), "{meanwhile:?}");
    cell.start_nats();
    wait_until("the cell goes on", || call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#).kind() == "ok");
}

#[test]
fn a_worker_with_other_powers_gets_no_call() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 1);
    let gateway = cell.gateway("");
    let config = std::fs::read_to_string(cell.path("w1.toml")).unwrap();
    assert_eq!(call(&gateway, "files__write", r#"{"path": "/trace/a", "text": "1"}"#).kind(), "ok");
    cell.kill("w1");
    std::fs::create_dir(cell.path("elsewhere")).unwrap();
    let elsewhere = config.replace("./trace:/trace", "./elsewhere:/trace");
    assert_ne!(elsewhere, config);
    cell.worker_of(&elsewhere, "w1");
    wait_until("the worker is back", || call(&gateway, "calculator__add", r#"{"a": 1, "b": 1}"#).kind() == "ok");
    let answer = call(&gateway, "files__write", r#"{"path": "/trace/a", "text": "2"}"#);
    assert_eq!(answer.kind(), "unavailable", "{answer:?}");
    assert!(answer.detail().contains("with these powers"), "{answer:?}");
}
