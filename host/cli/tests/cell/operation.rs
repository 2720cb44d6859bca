//! Operation of a cell: workers are drained, reloaded and replaced, and a disk is full.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::client::{Answer, call, read, send};
use super::harness::{Cell, wait_until};

const ADD: &str = r#"{"a": 1, "b": 1}"#;

fn add(address: &str) -> Answer {
    call(address, "calculator__add", ADD)
}

#[test]
fn a_worker_is_drained_over_the_cell() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 2);
    let gateway = cell.gateway("");
    let running = send(&gateway, "countdown__countdown", r#"{"from": 30, "step_ms": 50}"#);
    let sent = Instant::now();
    wait_until("the worker knows the gateway", || add(&gateway).kind() == "ok");
    let unknown = cell.run_as_gateway(&["worker", "drain", "nobody"]);
    assert!(!unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("nobody"), "{unknown:?}");
    let absent = cell.run_as_gateway(&["worker", "drain", "w2"]);
    assert!(
        !absent.status.success() && String::from_utf8_lossy(&absent.stderr).contains("announce itself"),
        "{absent:?}"
    );
    let drained = cell.run_as_gateway(&["worker", "drain", "w1"]);
    assert!(drained.status.success(), "{drained:?}");
    let told = String::from_utf8_lossy(&drained.stderr).into_owned();
    assert!(told.contains("is draining") && told.contains("has exited"), "{told}");
    let answer = read(running, sent);
    assert_eq!(answer.kind(), "ok", "{answer:?}");
    assert!(cell.has_ended_well("w1"), "{}", cell.said("w1"));
    assert!(cell.said("w1").contains("as a gateway requested"), "{}", cell.said("w1"));
}

#[test]
fn a_worker_reads_its_configuration_again() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 2);
    let gateway = cell.gateway("");
    assert_eq!(add(&gateway).kind(), "ok");
    let config = std::fs::read_to_string(cell.path("w1.toml")).unwrap();
    let without = config.replace("[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n", "");
    assert_ne!(without, config);
    std::fs::write(cell.path("w1.toml"), without).unwrap();
    cell.signal("w1", Signal::HUP);
    wait_until("the tool is gone", || add(&gateway).kind() == "unavailable");
    let answer = add(&gateway);
    assert!(answer.detail().contains("has this version"), "{answer:?}");
    assert_eq!(call(&gateway, "files__write", r#"{"path": "/trace/a", "text": "1"}"#).kind(), "ok");
    // What cannot be read leaves in place what is served.
    std::fs::write(cell.path("w1.toml"), "[tools").unwrap();
    cell.signal("w1", Signal::HUP);
    wait_until("the worker complains", || cell.said("w1").contains("the current tools stay served"));
    assert_eq!(call(&gateway, "files__write", r#"{"path": "/trace/b", "text": "1"}"#).kind(), "ok");
    std::fs::write(cell.path("w1.toml"), config.replace("places = 2", "places = 3")).unwrap();
    cell.signal("w1", Signal::HUP);
    wait_until("the tool is back", || add(&gateway).kind() == "ok");
    // What cannot change is named.
    wait_until("the worker says so", || cell.said("w1").contains("some changes in [cell] need a restart"));
}

#[test]
fn workers_are_replaced_without_a_failed_call() {
    let Some(mut cell) = Cell::start() else { return };
    for worker in ["w1", "w2"] {
        cell.worker(worker, 8);
    }
    let gateway = cell.gateway("");
    // Both of them announce themselves before the first leaves.
    std::thread::sleep(Duration::from_millis(600));
    let is_over = AtomicBool::new(false);
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for caller in 0..3_u32 {
            let gateway = &gateway;
            let is_over = &is_over;
            let answers = &answers;
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let answer = match caller {
                        0 => call(gateway, "countdown__countdown", r#"{"from": 8, "step_ms": 30}"#),
                        _ => add(gateway),
                    };
                    answers.lock().unwrap().push(answer);
                }
            });
        }
        for round in 0..4 {
            let worker = ["w1", "w2"][round % 2];
            cell.signal(worker, Signal::TERM);
            assert!(cell.has_ended_well(worker), "{}", cell.said(worker));
            cell.worker(worker, 8);
            std::thread::sleep(Duration::from_millis(600));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let answers = answers.into_inner().unwrap();
    println!("{} calls while workers were replaced four times", answers.len());
    let failed: Vec<&Answer> = answers.iter().filter(|answer| answer.kind() != "ok").collect();
    assert!(failed.is_empty() && answers.len() > 50, "{failed:?}");
}

#[test]
fn a_gateway_whose_disk_is_full_runs_no_call() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 2);
    let gateway = cell.gateway("");
    assert_eq!(add(&gateway).kind(), "ok");
    cell.limit_files("g1", Some(1));
    let mut refused = 0;
    for index in 0..20 {
        let arguments = format!(r#"{{"path": "/trace/{index}", "text": "ran"}}"#);
        let answer = call(&gateway, "files__write", &arguments);
        let has_run = cell.path(&format!("trace/{index}")).exists();
        // A call that was recorded before the disk was full may end well; no other runs.
        assert!(answer.kind() != "ok" || has_run, "{index}: {answer:?}");
        if answer.kind() != "ok" {
            refused += 1;
            assert!(!has_run || index == 0, "{index} ran without a record: {answer:?}");
        }
    }
    assert!(refused >= 19, "{refused} calls were refused");
    let told_ok = 20 - refused;
    cell.limit_files("g1", None);
    wait_until("the gateway records again", || add(&gateway).kind() == "ok");
    assert_eq!(cell.recorded("files__write", "ok"), told_ok, "the log does not agree");
}

#[test]
fn a_cell_is_measured_beside_bare_requests() {
    let Some(mut cell) = Cell::start() else { return };
    cell.worker("w1", 8);
    drop(cell.gateway(""));
    cell.kill("g1");
    let plot = cell.path("cell.svg").display().to_string();
    let measure =
        ["--json", "bench", "cell", "calculator__add", ADD, "--callers", "1,4", "--time", "300ms", "--plot", &plot];
    let measured = cell.run_as_gateway(&measure);
    assert!(measured.status.success(), "{measured:?}");
    let report: Value = serde_json::from_slice(&measured.stdout).unwrap();
    println!("{report:#}");
    for round in report["rounds"].as_array().unwrap() {
        for measured in ["cell", "local", "bare"] {
            let figures = &round[measured];
            assert!(figures["calls"].as_u64().unwrap() > 0 && figures["failed"] == 0, "{round:#}");
            assert!(figures["p50_us"].as_u64() <= figures["p99_us"].as_u64(), "{round:#}");
        }
    }
    assert_eq!((report["workers"].as_u64(), report["rounds"].as_array().unwrap().len()), (Some(1), 2));
    assert!(std::fs::read_to_string(plot).unwrap().starts_with("<svg"));
    let failing = cell.run_as_gateway(&["bench", "cell", "calculator__nothing"]);
    assert!(!failing.status.success(), "{failing:?}");
}
