//! `serve http` and `serve`: the HTTP API of the command, alone and beside MCP on one port.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::workbench::Workbench;

/// Timeout of every wait, far above what any of them takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The program, serving over HTTP. It ends when this is dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// Sent with every request, unless it is empty.
    pub(crate) token: String,
    errors: tempfile::NamedTempFile,
}

impl Server {
    fn start(bench: &Workbench, arguments: &[&str]) -> Self {
        let components =
            ["calculator.wasm", "countdown.wasm", "--listen", "127.0.0.1:0", "--no-auth", "--log", "log.db"];
        Self::run(bench.command(&[arguments, &components].concat()))
    }

    /// Starts a command that will serve. Its address is not known yet.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let errors = tempfile::NamedTempFile::new().unwrap();
        let child = command.stdout(Stdio::null()).stderr(errors.reopen().unwrap()).spawn().unwrap();
        Self { child, address: String::new(), token: String::new(), errors }
    }

    /// Starts a command that serves, and waits until it does.
    pub(crate) fn run(command: Command) -> Self {
        let mut server = Self::spawn(command);
        let started = Instant::now();
        while server.address.is_empty() {
            let said = server.said();
            let has_ended = server.child.try_wait().unwrap().is_some();
            assert!(started.elapsed() < PATIENCE && !has_ended, "it never serves: {said}");
            std::thread::sleep(Duration::from_millis(20));
            let found = said.split_once(" at http://").and_then(|(_, rest)| rest.split_once('/'));
            server.address = found.map(|(address, _)| address.to_owned()).unwrap_or_default();
        }
        server
    }

    /// Returns what it has written to standard error so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.errors.path()).unwrap()
    }

    /// Waits until it has written this to standard error.
    pub(crate) fn wait_for_note(&self, note: &str) {
        let started = Instant::now();
        while !self.said().contains(note) {
            assert!(started.elapsed() < PATIENCE, "{}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a request without waiting for the answer.
    fn send(&self, method: &str, path: &str, body: &str) -> TcpStream {
        self.send_with(method, path, "", body)
    }

    /// Sends a request with these lines of headers, each with its end.
    fn send_with(&self, method: &str, path: &str, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let token =
            if self.token.is_empty() { String::new() } else { format!("Authorization: Bearer {}\r\n", self.token) };
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{token}{headers}Connection: close\r\nHost: {}\r\nContent-Length: {}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream;q=0.5\r\n\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (status, _, body) = read(self.send(method, path, body));
        (status, body)
    }

    /// Like [`Self::ask`], with lines of headers. Returns the status, the head in lower case, and the body.
    pub(crate) fn ask_with(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, String) {
        read(self.send_with(method, path, headers, body))
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Asks until the answer is as expected.
    pub(crate) fn wait_for(&self, path: &str, is_expected: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let found = self.get(path);
            if is_expected(&found) {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "{found}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Reads the status, the head in lower case, and the body of an answer.
fn read(mut stream: TcpStream) -> (u16, String, String) {
    let mut answer = Vec::new();
    let _reset = stream.read_to_end(&mut answer);
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head.to_lowercase(), body.to_owned())
}

fn bench() -> Workbench {
    let bench = Workbench::new();
    bench.example("calculator");
    bench.example("countdown");
    bench
}

fn assert_in_log(record: &Value, server: &Server) {
    let calls = server.wait_for("/v1/calls", |page| page["calls"].as_array().is_some_and(|calls| calls.len() == 2));
    let statuses: Vec<&str> =
        calls["calls"].as_array().unwrap().iter().map(|it| it["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["invalid_arguments", "ok"], "{calls}");
    assert_eq!(calls["calls"][1]["id"], record["id"]);
    let ok = server.get("/v1/calls?outcome=ok&tool=calculator__add&limit=1");
    assert_eq!(ok["calls"][0], calls["calls"][1]);
    let next = ok["next"].as_str().unwrap();
    assert_eq!(server.get(&format!("/v1/calls?outcome=ok&cursor={next}"))["calls"], json!([]));
    let call = server.get(&format!("/v1/calls/{}", record["id"].as_str().unwrap()));
    assert_eq!(call["arguments"], json!({"a": 3, "b": 5}));
    assert_eq!(call["usage"]["fuel_used"], record["metadata"]["fuel_used"]);
    assert!(call["result"].to_string().contains('8'), "{call}");
}

#[test]
fn one_port_has_mcp_and_the_api_with_recorded_calls() {
    let bench = bench();
    let server = Server::start(&bench, &["serve"]);
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}});
    assert_eq!(server.ask("POST", "/mcp", &hello.to_string()).0, 200);
    let names = server.get("/v1/tools")["tools"].as_array().unwrap().len();
    assert!(names > 1);
    let (status, body) = server.ask("POST", "/v1/tools/calculator__add/calls", r#"{"a": 3, "b": 5}"#);
    let record: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &record["value"]), (200, &json!({"result": 8})));
    assert!(record["metadata"]["fuel_used"].as_u64().unwrap() > 0, "{record}");
    assert_eq!(server.ask("POST", "/v1/tools/calculator__add/calls", r#"{"a": "3"}"#).0, 422);
    assert_eq!(server.ask("GET", "/nothing", "").0, 404);
    assert_in_log(&record, &server);
    drop(server);
    // Another run, with the API alone, knows them from the log.
    let server = Server::start(&bench, &["serve", "http"]);
    assert_in_log(&record, &server);
    assert_eq!(server.ask("POST", "/mcp", &hello.to_string()).0, 404);
}

#[test]
fn a_client_that_leaves_stops_its_guest() {
    let bench = bench();
    let server = Server::start(&bench, &["serve", "http"]);
    let waiting = server.send("POST", "/v1/tools/countdown__countdown/calls", r#"{"from": 50, "step_ms": 100}"#);
    server.wait_for("/v1/calls", |page| page["calls"][0]["status"] == "running");
    drop(waiting);
    server.wait_for("/v1/calls", |page| page["calls"][0]["status"] == "cancelled");
}

#[test]
fn a_call_ends_before_the_server_does() {
    let bench = bench();
    let mut server = Server::start(&bench, &["serve", "http"]);
    let waiting = server.send("POST", "/v1/tools/countdown__countdown/calls", r#"{"from": 20, "step_ms": 50}"#);
    server.wait_for("/v1/calls", |page| page["calls"][0]["status"] == "running");
    kill_process(Pid::from_child(&server.child), Signal::TERM).unwrap();
    let (status, _, body) = read(waiting);
    assert_eq!(status, 200, "{body}");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn options_without_use_are_refused() {
    let bench = bench();
    let ran = bench.run(&["serve", "http", "calculator.wasm", "--listen", "0.0.0.0:0", "--no-auth"]);
    assert!(ran.code != 0 && ran.stderr.contains("is reachable from other machines"), "{ran:?}");
    let ran = bench.run(&["serve", "http", "calculator.wasm", "--http", "127.0.0.1:0"]);
    assert!(ran.code == 2 && ran.stderr.contains("--http"), "{ran:?}");
    let ran = bench.run(&["serve", "http", "calculator.wasm", "--listen", "nowhere"]);
    assert!(ran.code == 2 && ran.stderr.contains("nowhere"), "{ran:?}");
    let ran = bench.run(&["serve", "--listen", "127.0.0.1:0", "--no-auth"]);
    assert!(ran.code == 2 && ran.stderr.contains("nothing to serve"), "{ran:?}");
    let ran = bench.run(&["serve", "calculator.wasm", "--dashboard", "127.0.0.1:9000"]);
    assert!(ran.code == 2 && ran.stderr.contains("write `--dashboard=127.0.0.1:9000`"), "{ran:?}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ran = bench.run(&["serve", "calculator.wasm", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert!(ran.code == 7 && !ran.stderr.contains("bearer token"), "{ran:?}");
}
