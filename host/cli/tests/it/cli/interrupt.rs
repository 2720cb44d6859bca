//! Ctrl-C stops a tool, whatever it is doing.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::workbench::Workbench;

/// Maximum time until a command has stopped, as short as a person expects.
const SOON: Duration = Duration::from_secs(5);

fn start(bench: &Workbench, arguments: &[&str]) -> Child {
    bench.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn to_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// Presses Ctrl-C. Returns the exit code and what was printed after that.
fn interrupt(child: Child) -> (Option<i32>, String, String) {
    let pressed = Instant::now();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(pressed.elapsed() < SOON, "{:?}", pressed.elapsed());
    (output.status.code(), to_text(output.stdout), to_text(output.stderr))
}

fn is_compiled(bench: &Workbench) -> bool {
    let entries = std::fs::read_dir(bench.cache()).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().extension().is_some_and(|found| found == "cwasm"))
}

/// Waits until the component has been compiled and the call has had time to begin.
fn wait_for_the_call(bench: &Workbench) {
    let started = Instant::now();
    while !is_compiled(bench) {
        assert!(started.elapsed() < Duration::from_secs(60), "it is never compiled");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
}

#[test]
fn a_tool_that_sleeps_in_a_host_call_or_spins_is_stopped() {
    for name in ["sleep", "spin"] {
        let bench = Workbench::with_own_cache();
        bench.program(name);
        let child = start(&bench, &["call", &format!("{name}.wasm"), "run", "--timeout", "60s", "--fuel", "1000G"]);
        wait_for_the_call(&bench);
        let (code, stdout, stderr) = interrupt(child);
        assert_eq!((code, stdout.as_str()), (Some(130), ""), "{stderr}");
        assert!(stderr.starts_with("error[cancelled]: "), "{stderr}");
    }
}

#[test]
fn the_json_record_of_an_interrupted_call_is_cancelled() {
    let bench = Workbench::with_own_cache();
    bench.program("sleep");
    let child = start(&bench, &["call", "--json", "sleep.wasm", "run", "--timeout", "60s"]);
    wait_for_the_call(&bench);
    let (code, stdout, stderr) = interrupt(child);
    assert_eq!((code, stderr.as_str()), (Some(130), ""));
    let record: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(record["error"]["kind"], "cancelled", "{record}");
}

#[test]
fn a_tool_that_reports_progress_is_stopped_in_the_middle() {
    let bench = Workbench::with_own_cache();
    bench.example("countdown");
    let arguments = r#"{"from": 1000, "step_ms": 20}"#;
    let mut child = start(&bench, &["call", "countdown.wasm", "countdown", arguments, "--timeout", "60s"]);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("1 of 1000"), "progress comes while it runs: {line}");
    let draining = std::thread::spawn(move || stderr.lines().map_while(Result::ok).last());
    let (code, stdout, _) = interrupt(child);
    assert_eq!((code, stdout.as_str()), (Some(130), ""));
    draining.join().unwrap();
}

#[test]
fn a_run_is_cancelled_and_that_is_recorded() {
    let bench = Workbench::with_own_cache();
    bench.program("sleep").put("script.jsonl", r#"{"calls": [{"name": "sleep__run", "id": "nap"}]}"#);
    let run = ["run", "Sleep", "--tool", "sleep.wasm", "--script", "script.jsonl", "--timeout", "60s", "--log", "e.db"];
    let mut child = start(&bench, &run);
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("→ sleep__run"), "{line}");
    let rest = std::thread::spawn(move || stderr.lines().map_while(Result::ok).collect::<Vec<_>>().join("\n"));
    let (code, stdout, _) = interrupt(child);
    let rest = rest.join().unwrap();
    assert_eq!((code, stdout.as_str()), (Some(130), ""), "{rest}");
    assert!(rest.contains("✗ sleep__run {} → cancelled") && rest.contains("interrupted; stopped sleep__run"), "{rest}");
    let calls = bench.run(&["log", "--log", "e.db", "--json"]).json();
    assert_eq!((calls.as_array().unwrap().len(), &calls[0]["status"]), (1, &"cancelled".into()), "{calls}");
    let sessions = bench.run(&["log", "--log", "e.db", "--of", "sessions", "--json"]).json();
    assert_eq!(sessions[0]["status"], "cancelled");
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
}

#[test]
fn a_model_that_does_not_answer_can_be_interrupted() {
    let bench = Workbench::with_own_cache();
    bench.put("script.jsonl", r#"{"text": "late", "delay_ms": 3000000}"#);
    let run = ["run", "Hello", "--script", "script.jsonl", "--json", "--wall", "1h", "--stream-time", "1h"];
    let mut child = start(&bench, &run);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("model_asked") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0);
    }
    let last = std::thread::spawn(move || stdout.lines().map_while(Result::ok).last().unwrap());
    let (code, _, stderr) = interrupt(child);
    assert_eq!((code, stderr.as_str()), (Some(130), ""));
    let outcome: serde_json::Value = serde_json::from_str(&last.join().unwrap()).unwrap();
    assert_eq!((&outcome["event"], &outcome["ending"]), (&"outcome".into(), &"cancelled".into()));
}
