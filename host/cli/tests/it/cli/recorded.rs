//! Calls without an agent are recorded: those of `call`, `serve mcp` and `mcp call`, before they run.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::session::Session;
use super::workbench::{CommandOutput, Workbench};

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator");
    bench
}

fn call(bench: &Workbench, arguments: &str, more: &[&str]) -> CommandOutput {
    bench.run(&[&["call", "calculator.wasm", "add", arguments, "--log", "e.db"], more].concat())
}

fn calls(bench: &Workbench) -> Vec<Value> {
    let ran = bench.run(&["log", "--log", "e.db", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.json().as_array().unwrap().clone()
}

fn kinds(bench: &Workbench) -> Vec<String> {
    let ran = bench.run(&["log", "export", "--log", "e.db"]);
    let rows = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.map(|row| row["kind"].as_str().unwrap().to_owned()).collect()
}

fn entry_of(row: &Value) -> [String; 3] {
    ["tool", "status", "entry_point"].map(|name| row[name].as_str().unwrap().to_owned())
}

#[test]
fn each_call_is_in_the_log_with_what_it_cost_and_gave() {
    let bench = bench();
    assert_eq!(call(&bench, r#"{"a": 3, "b": 5}"#, &["--actor", "ada"]).code, 0);
    assert_eq!(call(&bench, r#"{"a": "3"}"#, &[]).code, 3);
    let calls = calls(&bench);
    assert_eq!(entry_of(&calls[1]), ["calculator__add", "ok", "call"]);
    assert_eq!(entry_of(&calls[0]), ["calculator__add", "invalid_arguments", "call"]);
    assert_eq!((&calls[1]["actor"], calls[1]["duration_ms"].is_number()), (&json!("ada"), true));
    let shown = bench.run(&["log", "show", calls[1]["call"].as_str().unwrap(), "--log", "e.db"]).stdout;
    for words in ["from       call", "digest     sha256:", r#"arguments  {"a":3,"b":5}"#, r#"{"result":8}"#, "fuel"] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let session = |end: &[&'static str]| [&["session_started"], end, &["session_finished"]].concat();
    let expected = [session(&["tool_started", "tool_finished", "tool_result"]), session(&["tool_rejected"])].concat();
    assert_eq!(kinds(&bench), expected);
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
}

#[test]
fn a_call_that_cannot_be_recorded_does_not_run() {
    let bench = bench();
    bench.put("e.db", "these are my notes, not a database. ".repeat(40));
    let ran = call(&bench, r#"{"a": 3, "b": 5}"#, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (7, ""), "{ran:?}");
    for words in ["nothing was run", "e.db", "turn it off with `--no-log`"] {
        assert!(ran.stderr.contains(words), "{words}: {ran:?}");
    }
    assert_eq!(call(&bench, r#"{"a": 3, "b": 5}"#, &["--no-log"]).code, 0);
    let ran = bench.run(&["serve", "mcp", "calculator.wasm", "--log", "e.db"]);
    assert!(ran.code == 7 && ran.stderr.contains("nothing was run"), "{ran:?}");
}

#[test]
fn a_call_of_a_file_ignores_the_configuration_of_the_folder() {
    let bench = bench();
    bench.put("fumehood.toml", "[log]\noff = true\n");
    assert_eq!(call(&bench, r#"{"a": 3, "b": 5}"#, &[]).code, 0);
    assert_eq!(calls(&bench).len(), 1);
}

#[test]
fn a_tool_with_persist_nothing_has_no_arguments_in_the_log() {
    let bench = bench();
    let section = "[tools.sums]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\npersist = \"nothing\"\n";
    bench.put("fumehood.toml", section);
    for arguments in [r#"{"a": 31337, "b": 5}"#, r#"{"a": "31337"}"#] {
        bench.run(&["call", "sums", "add", arguments, "--log", "e.db"]);
    }
    let exported = bench.run(&["log", "export", "--log", "e.db"]).stdout;
    assert!(!exported.contains("31337") && !exported.contains("31342"), "{exported}");
    assert_eq!(calls(&bench).len(), 2);
}

#[test]
fn an_interrupted_call_has_its_end_in_the_log() {
    let bench = Workbench::new();
    bench.program("sleep");
    let mut command = bench.command(&["call", "sleep.wasm", "run", "--timeout", "60s", "--log", "e.db"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = Instant::now();
    let log = ["log", "--kind", "tool_started", "--log", "e.db"];
    while !bench.run(&log).stdout.contains("tool_started") {
        assert!(started.elapsed() < Duration::from_secs(60), "it is recorded before it ends");
        std::thread::sleep(Duration::from_millis(20));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(calls(&bench)[0]["status"], "cancelled");
}

#[test]
fn served_calls_are_recorded_with_their_client() {
    let bench = bench();
    let mut session = Session::start(&bench, &["calculator.wasm", "--log", "e.db", "--actor", "desk"]);
    for id in 1..=3 {
        session.call(id, "calculator__add", json!({"a": id, "b": 5}));
        assert_eq!(session.next()["result"]["structuredContent"], json!({"result": id + 5}));
    }
    session.call(4, "calculator__add", json!({"a": "4"}));
    assert_eq!(session.next()["result"]["isError"], true);
    let (_, _, code) = session.leave();
    assert_eq!(code, Some(0));
    let calls = calls(&bench);
    let status: Vec<_> = calls.iter().map(|row| row["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["invalid_arguments", "ok", "ok", "ok"]);
    for row in &calls {
        let told = ["entry_point", "client", "actor"].map(|name| row[name].as_str().unwrap());
        assert_eq!(told, ["serve mcp", "test/0", "desk"], "{row}");
    }
    let list = bench.run(&["log", "--log", "e.db"]).stdout;
    assert!(list.contains("serve mcp: test/0"), "{list}");
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
}

fn add_once(session: &mut Session, id: u64) -> Value {
    session.call(id, "calculator__add", json!({"a": 3, "b": 5}));
    session.next()["result"].clone()
}

#[test]
fn a_served_call_that_cannot_be_recorded_does_not_run() {
    let bench = bench();
    let mut session = Session::start(&bench, &["calculator.wasm", "--log", "e.db"]);
    assert_eq!(add_once(&mut session, 1)["structuredContent"], json!({"result": 8}));
    let holder = rusqlite::Connection::open(bench.path("e.db")).unwrap();
    holder.busy_timeout(Duration::from_secs(10)).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let said = add_once(&mut session, 2).to_string();
    assert!(said.contains("could not be recorded") && said.contains("has not answered within"), "{said}");
    let started = Instant::now();
    let named = (3..)
        .map(|id| add_once(&mut session, id))
        .inspect(|_| std::thread::sleep(Duration::from_millis(50)))
        .find(|answer| {
            assert!(started.elapsed() < Duration::from_secs(60) && answer["isError"] == true, "{answer}");
            answer.to_string().contains("another process has locked")
        });
    assert!(named.is_some());
    holder.execute_batch("COMMIT").unwrap();
    let started = Instant::now();
    while add_once(&mut session, 1_000_000)["isError"] == true {
        assert!(started.elapsed() < Duration::from_secs(60), "it goes on once it can be recorded");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(session);
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
}

/// Answers calls over MCP, kills the server right after the last answer, and returns the statuses that the log has.
fn statuses_after_kill(config: &str, calls: u64) -> Vec<String> {
    let bench = bench();
    bench.put("fumehood.toml", config);
    let mut session = Session::start(&bench, &["calculator.wasm", "--log", "e.db"]);
    for id in 1..=calls {
        session.call(id, "calculator__add", json!({"a": id, "b": 5}));
        assert_eq!(session.next()["result"]["structuredContent"], json!({"result": id + 5}));
    }
    let process = rustix::process::Pid::from_raw(session.process() as i32).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    drop(session);
    assert_eq!(bench.run(&["log", "verify", "--log", "e.db"]).code, 0);
    let listed = bench.run(&["log", "--log", "e.db", "--json"]).json();
    listed.as_array().unwrap().iter().map(|row| row["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn answered_calls_of_a_killed_server_are_in_the_log() {
    for calls in [1, 2, 5, 20] {
        let statuses = statuses_after_kill("", calls);
        assert_eq!(statuses, vec!["ok"; calls as usize]);
    }
    assert_eq!(statuses_after_kill("[agent]\ndurable = true\n", 3), ["ok"; 3]);
}

#[test]
fn calls_of_foreign_servers_are_recorded() {
    let bench = bench();
    let cache = format!("FUMEHOOD_CACHE_DIR={}", bench.cache().display());
    let server = [env!("CARGO_BIN_EXE_fumehood"), "serve", "mcp", "--no-log", "calculator.wasm"];
    let call =
        ["mcp", "call", "--log", "e.db", "--no-jail", "--env", &cache, "calculator__add", r#"{"a": 3, "b": 5}"#, "--"];
    assert_eq!(bench.run(&[&call[..], &server].concat()).code, 0);
    let calls = calls(&bench);
    let told = ["tool", "status", "entry_point"].map(|name| calls[0][name].as_str().unwrap());
    assert_eq!(told, ["calculator__add", "ok", "mcp call"]);
}

fn run_with_file_limit(bench: &Workbench, arguments: &std::path::Path, more: &str) -> std::process::Output {
    let script = format!(
        "ulimit -f 8; exec '{}' call files.wasm write --args-file '{}' --allow-write ./out:/out --isolation in-process \
         {more}",
        env!("CARGO_BIN_EXE_fumehood"),
        arguments.display()
    );
    let mut command = bench.command(&[]);
    let environment: Vec<_> =
        command.get_envs().map(|(name, value)| (name.to_owned(), value.map(Into::into))).collect();
    command = std::process::Command::new("sh");
    command.args(["-c", &script]).current_dir(bench.path("")).stdin(Stdio::null());
    for (name, value) in environment {
        let value: Option<std::ffi::OsString> = value;
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().unwrap()
}

#[test]
fn a_limit_on_file_sizes_is_an_error_and_no_end_of_the_process() {
    let bench = Workbench::new();
    bench.example("files");
    std::fs::create_dir(bench.path("out")).unwrap();
    let text = "x".repeat(9_000);
    let arguments = bench.put("arguments.json", json!({"path": "/out/a.txt", "text": text}).to_string());
    // Puts the code into the cache first, because it is larger than the limit.
    assert_eq!(bench.run(&["inspect", "files.wasm"]).code, 0);
    let output = run_with_file_limit(&bench, &arguments, "--no-log");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{:?}: {said}", output.status);
    let output = run_with_file_limit(&bench, &arguments, "--log e.db");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code().is_some(), "no signal ended it: {:?}: {said}", output.status);
}
