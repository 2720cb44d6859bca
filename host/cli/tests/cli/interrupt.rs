//! Ctrl-C: whatever the tool is doing, it stops.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::workbench::Workbench;

/// What a person would put up with.
const SOON: Duration = Duration::from_secs(5);

fn start(bench: &Workbench, arguments: &[&str]) -> Child {
    bench.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Presses Ctrl-C. Returns the exit code and what was printed after that.
fn interrupt(child: Child) -> (Option<i32>, String, String) {
    let pressed = Instant::now();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(pressed.elapsed() < SOON, "{:?}", pressed.elapsed());
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Waits until the component has been compiled and the call has had time to begin.
fn wait_for_the_call(bench: &Workbench) {
    let is_compiled = || {
        let entries = std::fs::read_dir(bench.cache()).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.path().extension().is_some_and(|found| found == "cwasm"))
    };
    let started = Instant::now();
    while !is_compiled() {
        assert!(started.elapsed() < Duration::from_secs(60), "it is never compiled");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
}

#[test]
fn a_tool_that_sleeps_in_a_host_call_or_spins_is_stopped() {
    for name in ["sleep", "spin"] {
        let bench = Workbench::new();
        bench.program(name);
        let child = start(&bench, &["call", &format!("{name}.wasm"), "run", "--timeout", "60s", "--fuel", "1000G"]);
        wait_for_the_call(&bench);
        let (code, stdout, stderr) = interrupt(child);
        assert_eq!((code, stdout.as_str()), (Some(130), ""), "{stderr}");
        assert!(stderr.starts_with("error[cancelled]: "), "{stderr}");
    }
}

#[test]
fn the_record_in_json_says_that_it_was_cancelled() {
    let bench = Workbench::new();
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
    let bench = Workbench::new();
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
