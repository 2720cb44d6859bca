//! A log that cannot be written: reported before anything runs, or as soon as it is noticed, without losing a recorded
//! call.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::workbench::{CommandOutput, Workbench};

const SCRIPT: &str = r#"
{"calls": [{"name": "sleep__run", "id": "nap"}]}
{"text": "Good morning."}
"#;

const RUN: &[&str] = &["run", "Sleep", "--tool", "sleep.wasm", "--script", "script.jsonl", "--log", "e.db"];

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.program("sleep").put("script.jsonl", SCRIPT);
    bench
}

/// Creates a folder with a log of one session.
fn with_log() -> Workbench {
    let bench = bench();
    bench.put("hello.jsonl", r#"{"text": "Hello."}"#);
    assert_eq!(bench.run(&["run", "Hello", "--script", "hello.jsonl", "--log", "e.db"]).code, 0);
    bench
}

/// Checks that nothing was called, and that the message has a hint.
fn refused(ran: &CommandOutput, words: &[&str]) {
    assert_eq!((ran.code, ran.stdout.as_str()), (7, ""), "{ran:?}");
    for words in words.iter().chain(&["nothing was run", "e.db", "name another log with `--log FILE`"]) {
        assert!(ran.stderr.contains(words), "{words}: {ran:?}");
    }
    assert!(!ran.stderr.contains("sleep__run"), "{ran:?}");
}

/// Locks the log, as another program that writes to it would.
fn hold(path: &Path) -> Connection {
    let holder = Connection::open(path).unwrap();
    holder.busy_timeout(Duration::from_secs(10)).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    holder
}

#[test]
fn a_damaged_log_is_refused_and_not_changed() {
    let bench = with_log();
    let mut bytes = std::fs::read(bench.path("e.db")).unwrap();
    bytes[4096..].fill(0xa5);
    bench.put("e.db", &bytes);
    refused(&bench.run(RUN), &["the file is damaged; nothing was changed", "restore a backup"]);
    assert_eq!(std::fs::read(bench.path("e.db")).unwrap(), bytes);
    let json = bench.run(&[&["--json"], RUN].concat()).json();
    assert_eq!((&json["status"], &json["error"]["kind"]), (&"error".into(), &"host".into()), "{json}");
}

#[test]
fn a_file_that_is_no_log_is_refused_and_not_changed() {
    let bench = bench();
    let notes = "these are my notes, not a database. ".repeat(40);
    bench.put("e.db", &notes);
    refused(&bench.run(RUN), &["is not a database"]);
    assert_eq!(std::fs::read_to_string(bench.path("e.db")).unwrap(), notes);
}

/// Root may write the file in spite of its mode, but not in a folder of the kernel.
#[cfg(unix)]
#[test]
fn a_read_only_log_is_refused_before_anything_runs() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = with_log();
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    set(&bench.path("e.db"), 0o400);
    let may_write = std::fs::OpenOptions::new().append(true).open(bench.path("e.db")).is_ok();
    if !may_write {
        refused(&bench.run(RUN), &["read-only; make both writable for this user"]);
    }
    let nowhere: Vec<&str> = RUN.iter().map(|word| if *word == "e.db" { "/proc/nowhere/e.db" } else { word }).collect();
    refused(&bench.run(&nowhere), &["/proc/nowhere/e.db", "check its folder"]);
}

#[test]
fn a_locked_log_is_refused_before_anything_runs() {
    let bench = with_log();
    // An exclusive lock prevents reading too, as when a program moves the log.
    let holder = Connection::open(bench.path("e.db")).unwrap();
    holder.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT").unwrap();
    refused(&bench.run(RUN), &["another process has locked the database", "stop it, or try again"]);
    drop(holder);
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
}

fn start(bench: &Workbench, arguments: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = bench.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    assert!(line.contains("→ sleep__run"), "{line}");
    (child, stderr)
}

/// Waits for the end. Returns the exit code, standard output and the rest of standard error.
fn finish(child: Child, mut stderr: BufReader<std::process::ChildStderr>) -> (Option<i32>, String, String) {
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap(), said)
}

fn press(child: &Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::INT).unwrap();
}

#[test]
fn a_log_locked_for_a_while_during_a_run_loses_nothing() {
    let bench = bench();
    let (child, stderr) = start(&bench, &[RUN, &["--timeout", "300ms"]].concat());
    let holder = hold(&bench.path("e.db"));
    std::thread::sleep(Duration::from_secs(1));
    holder.execute_batch("COMMIT").unwrap();
    let (code, stdout, stderr) = finish(child, stderr);
    assert_eq!((code, stdout.as_str()), (Some(0), "Good morning.\n"), "{stderr}");
    let calls = bench.run(&["log", "--log", "e.db", "--json"]).json();
    assert_eq!((&calls[0]["model_call"], &calls[0]["status"]), (&"nap".into(), &"deadline".into()), "{calls}");
    let sessions = bench.run(&["log", "--log", "e.db", "--of", "sessions", "--json"]).json();
    assert_eq!(sessions[0]["status"], "answered");
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
}

#[test]
fn a_log_that_stays_locked_is_an_error() {
    let bench = bench();
    let (child, stderr) = start(&bench, &[RUN, &["--timeout", "300ms"]].concat());
    let holder = hold(&bench.path("e.db"));
    let (code, _, stderr) = finish(child, stderr);
    assert_eq!(code, Some(7), "{stderr}");
    assert!(stderr.contains("another process has locked the database"), "{stderr}");
    drop(holder);
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
}

#[test]
fn the_second_ctrl_c_ends_at_once_even_if_the_disk_does_not() {
    let bench = bench();
    let (child, stderr) = start(&bench, &[RUN, &["--timeout", "60s"]].concat());
    let started = Instant::now();
    while !bench.run(&["log", "--kind", "tool_started", "--log", "e.db"]).stdout.contains("tool_started") {
        assert!(started.elapsed() < Duration::from_secs(60), "it is recorded before it runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    let holder = hold(&bench.path("e.db"));
    press(&child);
    // The end of the call waits for its record.
    std::thread::sleep(Duration::from_millis(500));
    let pressed = Instant::now();
    press(&child);
    let (code, _, said) = finish(child, stderr);
    assert_eq!(code, Some(130), "{said}");
    assert!(pressed.elapsed() < Duration::from_secs(2), "{:?}", pressed.elapsed());
    drop(holder);
    // The rows on disk are in order; the lost ones are those that the second Ctrl-C gave up.
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
}
