//! `fumehood jail`: streams, exit codes and signals of its program, and what it was granted.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use fumehood_tests::fake_server;
use serde_json::Value;

use crate::cli::workbench::Workbench;

#[test]
fn streams_and_exit_codes_are_those_of_the_program() {
    let bench = Workbench::new();
    let ran = bench.run_with_input(&["jail", "--", "sh", "-c", "cat; echo error >&2; exit 7"], "input");
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (7, "input", "error\n"), "{ran:?}");
    let ran = bench.run(&["jail", "sh", "-c", "kill -USR1 $$"]);
    assert_eq!(ran.code, 128 + 10, "{ran:?}");
    let ran = bench.run(&["jail", "grep", "SigBlk", "/proc/self/status"]);
    assert_eq!(ran.stdout, format!("SigBlk:\t{:016}\n", 0), "it can be signalled: {ran:?}");
    let ran = bench.run(&["jail", "no-such-program"]);
    assert!(ran.code == 127 && ran.stderr.contains("cannot start no-such-program"), "{ran:?}");
    assert_eq!(bench.run(&["jail"]).code, 2);
}

#[test]
fn a_program_has_the_grants_that_were_typed_and_no_more() {
    let bench = Workbench::new();
    bench.put("note", "text");
    std::fs::create_dir(bench.path("out")).unwrap();
    let script = "cat note; echo x > out/new; echo \"$NAMED $HIDDEN $HOME\"";
    let run = |options: &[&str]| {
        let mut command = bench.command(&[&["jail"], options, &["--", "sh", "-c", script]].concat());
        command.env("NAMED", "yours").env("HIDDEN", "hidden");
        Workbench::run_command(command)
    };
    let ran = run(&[]);
    assert!(!ran.stdout.contains("text") && !ran.stdout.contains("hidden"), "{ran:?}");
    assert!(!bench.path("out/new").exists());
    let ran = run(&["--read", "note", "--write", "out", "--env", "NAMED", "--env", "HIDDEN=", "--home", "home"]);
    let home = bench.path("home");
    assert_eq!(ran.stdout, format!("textyours  {}\n", home.display()), "{ran:?}");
    assert!(bench.path("out/new").exists() && home.is_dir());
    let ran = run(&["--env", "FUMEHOOD_NO_SUCH_VARIABLE"]);
    assert!(ran.code == 2 && ran.stderr.contains("you have no variable"), "{ran:?}");
    let ran = run(&["--isolation", "in-process"]);
    assert!(ran.code == 2 && ran.stderr.contains("expected `process`"), "{ran:?}");
    assert_eq!(run(&["--isolation", "process=required"]).code, 0);
}

#[test]
fn signals_are_passed_on() {
    let bench = Workbench::new();
    let script = "trap 'echo got it; exit 9' TERM; echo ready; while :; do sleep 0.01; done";
    let mut child = bench.command(&["jail", "sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut start = [0; 6];
    output.read_exact(&mut start).unwrap();
    fumehood_platform::process::terminate(child.id());
    assert_eq!(child.wait().unwrap().code(), Some(9));
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "got it\n");
}

#[test]
fn refused_requests_are_printed_with_the_option_that_allows_them() {
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        return fumehood_tests::skip::skip("Python", "there is no /usr/bin/python3");
    }
    let bench = Workbench::new();
    let script = "import urllib.request as r\nfor n in 1, 2:\n try: r.urlopen('http://example.com/x')\n except r.HTTPError as e: print(e.code)";
    let ran = bench.run(&["jail", "--http", "GET http://example.org/**", "--", python, "-c", script]);
    assert_eq!(ran.stdout, "403\n403\n", "{ran:?}");
    let hint = "--allow-http 'GET http://example.com/**'";
    assert_eq!(ran.stderr.matches(hint).count(), 1, "{ran:?}");
    let observed = bench.run(&["jail", "--observe", "--", python, "-c", script]);
    assert!(observed.stdout == "403\n403\n" && observed.stderr.contains(hint), "{observed:?}");
}

#[test]
fn a_check_names_each_part_of_the_jail() {
    let bench = Workbench::new();
    let ran = bench.run(&["jail", "--check"]);
    assert!(ran.code == 0 && ran.stdout.contains("yes network"), "{ran:?}");
    let report = bench.run(&["jail", "--check", "--json"]).json();
    assert!(report["paths"] == true && report["network"] == true, "{report}");
}

#[test]
fn servers_of_the_command_line_are_jailed() {
    let bench = Workbench::new();
    bench.put("server.sh", fake_server::SCRIPT);
    bench.put("note", "text");
    let on_call = "ON_CALL=text \"$(cat note || echo refused)\"";
    let call = |options: &[&str]| {
        let words = ["mcp", "call", "--json", "--env", on_call];
        let ran = bench.run(&[&words, options, &["t", "--", "sh", "server.sh"]].concat());
        ran.json()["content"][0]["text"].as_str().map(str::to_owned)
    };
    assert_eq!(call(&[]).as_deref(), Some("refused"));
    assert_eq!(call(&["--read", "note"]).as_deref(), Some("text"));
    assert_eq!(call(&["--no-jail"]).as_deref(), Some("text"));
    let ran = bench.run(&["mcp", "list", "--read", "note", "http://127.0.0.1:1/mcp"]);
    assert!(ran.code == 2 && ran.stderr.contains("are for programs"), "{ran:?}");
}

#[test]
fn an_entry_for_a_client_starts_its_server_in_a_jail() {
    let bench = Workbench::new();
    bench.put("server.sh", fake_server::SCRIPT);
    std::fs::create_dir(bench.path("docs")).unwrap();
    let printed = bench.run(&[
        "mcp",
        "config",
        "cursor",
        "--jail",
        "files",
        "--write",
        "docs",
        "--cpu",
        "9s",
        "--",
        "sh",
        "server.sh",
    ]);
    let entry: Value = serde_json::from_str(&printed.stdout).unwrap_or_else(|_| panic!("{printed:?}"));
    let entry = &entry["mcpServers"]["files"];
    let arguments: Vec<&str> = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let docs = bench.path("docs");
    assert!(arguments.windows(2).any(|words| words == ["--allow-write", docs.to_str().unwrap()]), "{arguments:?}");
    assert!(arguments.windows(2).any(|words| words == ["--cpu", "9s"]), "{arguments:?}");
    let mut command = Command::new(entry["command"].as_str().unwrap());
    command.args(&arguments).current_dir(bench.path("")).env("XDG_STATE_HOME", bench.path("state"));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    writeln!(child.stdin.as_mut().unwrap(), "{request}").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&ended.stdout).contains("protocolVersion"), "{ended:?}");
    let ran = bench.run(&["mcp", "config", "cursor", "--jail", "files"]);
    assert_eq!(ran.code, 2, "{ran:?}");
}
