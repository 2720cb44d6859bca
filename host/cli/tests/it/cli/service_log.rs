//! The log of the program: lines on standard error that say what a service does, for people and for programs.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

use fumehood_tests::contract::{Answer, ToolDescription};
use fumehood_tests::fake_server;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::serve_http::{PATIENCE, Server};
use super::session::Session;
use super::workbench::{CommandOutput, Workbench};

/// A token of a client, which must be in no line.
const TOKEN: &str = "a-token-of-a-client-0123456789abcdef";
/// A token that nobody has, which must be in no line either.
const WRONG_TOKEN: &str = "a-wrong-token-0123456789abcdef-secret";
/// An argument of a call, which must be in no line.
const ARGUMENT: &str = "an-argument-that-is-nobodys-business";

/// A configuration of everything that a day needs, with a log that programs read.
const CONFIG: &str = r#"
[tools.calculator]
component = "calculator.wasm"
approval = "off"

[tools.notes]
component = "notes.wasm"
approval = "off"
isolation = "process"

[tools.waiting]
component = "waiting.wasm"

[mcp.servers.other]
command = ["sh", "server.sh"]
write = ["."]
folder = "."
start_timeout = "60s"
approval = "off"
env.ON_START = "echo $$ > server.pid"

[serve]
token = { file = "token" }

[log]
path = "events.db"

[logging]
format = "json"
"#;

fn answering(text: &str) -> Vec<u8> {
    fumehood_tests::answering(&[ToolDescription::new("read")], Answer::Text(text.as_bytes())).unwrap()
}

/// Puts the token into a file that only its owner can read.
fn put_token(bench: &Workbench) {
    let file = bench.put("token", TOKEN);
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Returns the lines of a log in JSON. All of them must be.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))).collect()
}

fn has_members(line: &Value, wanted: &Value) -> bool {
    wanted.as_object().unwrap().iter().all(|(name, value)| line[name] == *value)
}

/// Waits for an event with these members, and returns its last line.
fn wait_for(server: &Server, event: &str, members: &Value) -> Value {
    let started = Instant::now();
    loop {
        let said = server.said();
        let mut wanted = members.clone();
        wanted["event"] = event.into();
        if let Some(found) = lines(&said).into_iter().rfind(|line| has_members(line, &wanted)) {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "no {wanted}: {said}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Kills a process, and waits until it is dead: a call that is sent to a dying worker fails.
fn kill(pid: u64) {
    let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(process, Signal::KILL).unwrap();
    let stat = format!("/proc/{pid}/stat");
    while std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z ")) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn call(server: &Server, tool: &str, arguments: &Value) -> u16 {
    server.ask("POST", &format!("/v1/tools/{tool}/calls"), &arguments.to_string()).0
}

#[test]
fn lines_of_a_served_day_say_what_happened_and_no_secret() {
    let bench = Workbench::new();
    bench.example("calculator");
    bench.put("notes.wasm", answering("one"));
    bench.put("waiting.wasm", answering("two"));
    bench.put("server.sh", fake_server::SCRIPT);
    bench.put("fumehood.toml", CONFIG);
    put_token(&bench);
    let arguments = ["serve", "http", "--servers", "--watch", "--listen", "127.0.0.1:0"];
    let mut server = Server::run(bench.command(&arguments));

    let version = env!("CARGO_PKG_VERSION");
    let expected = json!({"level": "INFO", "command": "serve http", "isolation": "auto", "version": version});
    let starting = wait_for(&server, "serve.starting", &expected);
    assert!(starting["event_log"].as_str().unwrap().ends_with("events.db"), "{starting}");
    let started = wait_for(&server, "serve.started", &json!({}));
    assert!(started["names"].as_str().unwrap().split(' ').any(|name| name == "calculator__add"), "{started}");
    assert!(started["address"].as_str().unwrap().contains(&server.address), "{started}");
    wait_for(&server, "approval.needed", &json!({"component": "waiting"}));
    wait_for(&server, "mcp.connected", &json!({"server": "other"}));
    let worker = wait_for(&server, "worker.started", &json!({"component": "notes"}));

    WRONG_TOKEN.clone_into(&mut server.token);
    assert_eq!(call(&server, "calculator__add", &json!({"a": 1, "b": 2})), 401);
    let expected = json!({"level": "WARN", "status": 401, "path": "/v1/tools/calculator__add/calls"});
    let refused = wait_for(&server, "http.refused", &expected);
    assert!(refused["reason"].as_str().unwrap().contains("bearer token"), "{refused}");

    TOKEN.clone_into(&mut server.token);
    assert_eq!(call(&server, "calculator__add", &json!({"a": 1, "b": 2})), 200);
    assert_eq!(call(&server, "calculator__add", &json!({"a": ARGUMENT, "b": 2})), 422);
    kill(worker["pid"].as_u64().unwrap());
    // Its death shows when it is needed the next time, and that call may fail.
    let asked = Instant::now();
    while call(&server, "notes__read", &json!({})) != 200 {
        assert!(asked.elapsed() < PATIENCE, "{}", server.said());
    }
    let died = wait_for(&server, "worker.died", &json!({"component": "notes", "pid": worker["pid"]}));
    assert!(died["reason"].as_str().unwrap().contains("killed"), "{died}");
    wait_for(&server, "worker.restarted", &json!({"component": "notes"}));

    bench.put("notes.wasm", answering("three"));
    wait_for(&server, "component.reloaded", &json!({"component": "notes", "isolation": "process", "tools": 1}));

    let pid = std::fs::read_to_string(bench.path("server.pid")).unwrap().trim().parse().unwrap();
    kill(pid);
    wait_for(&server, "mcp.lost", &json!({"server": "other"}));
    assert_eq!(call(&server, "other__t", &json!({})), 200);
    wait_for(&server, "mcp.reconnected", &json!({"server": "other", "tools": 1}));

    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    let said = server.said();
    for secret in [TOKEN, WRONG_TOKEN, ARGUMENT] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
    let lines = lines(&said);
    for line in &lines {
        for member in ["timestamp", "level", "target", "message"] {
            assert!(line[member].is_string(), "{member}: {line}");
        }
    }
    let last: Vec<&str> = lines.iter().filter_map(|line| line["event"].as_str()).rev().take(2).collect();
    assert_eq!(last, ["serve.stopped", "serve.stopping"], "{said}");
}

#[test]
fn unreachable_issuer_is_in_the_log_of_a_refused_client() {
    let bench = Workbench::new();
    bench.example("calculator");
    bench.put(
        "fumehood.toml",
        "[tools.calculator]\ncomponent = \"calculator.wasm\"\napproval = \"off\"\n[log]\noff = true\n\
         [serve.oauth]\nissuer = \"http://127.0.0.1:1\"\nresource = \"https://tools.example.com\"\n\
         default_tenant = \"app\"\n[tenants.app]\n",
    );
    let mut server = Server::run(bench.command(&["serve", "http", "--listen", "127.0.0.1:0"]));
    // The head of a signed token, which is enough to have the keys fetched.
    server.token = format!("{}.e30.{}", "eyJhbGciOiJFZERTQSIsImtpZCI6InRlc3QiLCJ0eXAiOiJhdCtqd3QifQ", "A".repeat(86));
    assert_eq!(server.ask("GET", "/v1/tools", "").0, 503);
    server.wait_for_note("ERROR fumehood::oauth: cannot fetch the keys of the issuer");
    server.wait_for_note("issuer=http://127.0.0.1:1 ");
    server.wait_for_note("WARN fumehood::http: cannot serve a request now status=503");
    assert!(!server.said().contains(&server.token), "{}", server.said());
}

#[test]
fn lines_about_a_client_that_fails_again_and_again_are_bounded() {
    let bench = Workbench::new();
    bench.example("calculator");
    put_token(&bench);
    let arguments =
        ["serve", "http", "calculator.wasm", "--no-log", "--token-file", "token", "--listen", "127.0.0.1:0"];
    let mut server = Server::run(bench.command(&arguments));
    WRONG_TOKEN.clone_into(&mut server.token);
    for _ in 0..100 {
        assert_eq!(server.ask("GET", "/v1/tools", "").0, 401);
    }
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    assert!(server.child.wait().unwrap().success());
    let said = server.said();
    let refusals = said.matches("refused a request").count();
    assert!((1..=30).contains(&refusals), "{refusals}: {said}");
}

/// Runs a call with these options and this value of `RUST_LOG`.
fn run_with_variable(bench: &Workbench, options: &[&str], variable: &str) -> CommandOutput {
    let call = ["call", "calculator.wasm", "add", "a=1", "b=2", "--no-log"];
    let mut command = bench.command(&[options, &call].concat());
    command.env("RUST_LOG", variable);
    Workbench::run_command(command)
}

#[test]
fn levels_come_from_options_variables_and_the_configuration() {
    let bench = Workbench::new();
    bench.example("calculator");
    let run = |options: &[&str], variable: &str| run_with_variable(&bench, options, variable);
    let is_loaded = " INFO fumehood::component: loaded a component component=calculator";
    let quiet = run(&[], "");
    assert_eq!(quiet.code, 0, "{quiet:?}");
    for (options, variable, is_said) in [
        (&[][..], "", false),
        (&[], "info", true),
        (&[], "debug", true),
        (&[], "fumehood::component=info", true),
        (&[], "fumehood::mcp=trace", false),
        (&["--log-level", "info"], "", true),
        (&["--log-level", "warn"], "trace", false),
    ] {
        let ran = run(options, variable);
        assert_eq!((ran.code, &ran.stdout), (0, &quiet.stdout), "{options:?} {variable}: {ran:?}");
        assert_eq!(ran.stderr.contains(is_loaded), is_said, "{options:?} {variable}: {ran:?}");
    }
    let ran = run(&[], "fumehood=loud");
    assert!(ran.code == 0 && ran.stderr.contains("ignored a part of RUST_LOG part=\"fumehood=loud\""), "{ran:?}");
    let ran = run(&["--log-format", "json", "--log-level", "info"], "");
    let events: Vec<Value> = ran.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(events.iter().any(|line| line["event"] == "component.loaded"), "{ran:?}");
    // A configuration that a service shares changes nothing of what a person sees.
    bench.put("fumehood.toml", "[logging]\nlevel = \"trace\"\nformat = \"json\"\n");
    assert!(!run(&[], "").stderr.contains("component.loaded"));
    let usage = bench.run(&["--log-level", "loud", "demo"]);
    assert!(usage.code == 2 && usage.stderr.contains("--log-level"), "{usage:?}");
}

#[test]
fn lines_never_get_into_the_protocol() {
    let bench = Workbench::new();
    bench.example("calculator");
    let mut session = Session::start(&bench, &["calculator.wasm", "--no-log", "--log-level", "trace"]);
    let answer = session.request(1, "tools/call", json!({"name": "calculator__add", "arguments": {"a": 1, "b": 2}}));
    assert!(answer["result"].to_string().contains('3'), "{answer}");
    session.says("fumehood::component: loaded a component");
    session.says("serving ");
    let (rest, _, code) = session.leave();
    assert_eq!((rest.as_str(), code), ("", Some(0)));
}

/// A client may never read standard error. The pipe is full soon, and calls go on.
#[test]
fn reader_that_stalls_delays_no_call() {
    let bench = Workbench::new();
    bench.example("calculator");
    let arguments = ["serve", "mcp", "calculator.wasm", "--no-log", "--log-level", "trace"];
    let mut command = bench.command(&arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}});
    writeln!(input, "{hello}").unwrap();
    let count = 3000;
    let writing = std::thread::spawn(move || {
        for id in 1..=count {
            // A tool that is not there, which is an event at this level.
            let params = json!({"name": "calculator__nothing", "arguments": {}});
            writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}))
                .unwrap();
        }
        input
    });
    let mut output = child.stdout.take().unwrap();
    let mut answers = 0;
    let mut buffer = vec![0; 64 << 10];
    while answers <= count {
        let read = output.read(&mut buffer).unwrap();
        assert_ne!(read, 0, "it ended after {answers} answers");
        answers += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
    }
    drop(writing.join().unwrap());
    drop(child.stderr.take());
    assert!(child.wait().unwrap().success());
}

/// Without a journal to reach, a stream that is one gets text.
#[test]
fn stream_of_the_journal_gets_text_where_there_is_no_journal() {
    let bench = Workbench::new();
    bench.example("calculator");
    let errors = bench.put("errors", "");
    let file = File::options().append(true).open(&errors).unwrap();
    let stream = file.metadata().unwrap();
    let mut command =
        bench.command(&["--log-level", "info", "call", "calculator.wasm", "add", "a=1", "b=2", "--no-log"]);
    command.env("JOURNAL_STREAM", format!("{}:{}", stream.st_dev(), stream.st_ino())).stderr(file);
    let status = command.stdout(Stdio::null()).status().unwrap();
    let has_journal = UnixDatagram::unbound().unwrap().connect("/run/systemd/journal/socket").is_ok();
    let said = std::fs::read_to_string(errors).unwrap();
    assert!(status.success() && (has_journal || said.contains("loaded a component")), "{said}");
}
