//! `serve mcp` and `serve http` under load: messages that are cheap to send and expensive to parse, and more sockets than
//! file descriptors.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fumehood_tests::contract::{Answer, ToolDescription};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::json;

use super::session::Session;
use super::workbench::Workbench;

/// Maximum time that a well-behaved client waits, on a loaded machine.
const SOON: Duration = Duration::from_secs(2);
/// Time that the server has to end, on a loaded machine.
const GRACE: Duration = Duration::from_secs(4);
/// Timeout of every wait, far above what any of them takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Number of clients that send the same message concurrently.
const CLIENTS: usize = 48;
const MAX_BODY_BYTES: usize = 4 << 20;
/// The file of the served tool.
const TOOL: &str = "any.wasm";

/// The protocol that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Face {
    Mcp,
    Http,
}

impl Face {
    const ALL: [Self; 2] = [Self::Mcp, Self::Http];

    fn arguments(self) -> [&'static str; 6] {
        match self {
            Self::Mcp => ["serve", "mcp", TOOL, "--no-auth", "--listen", "127.0.0.1:0"],
            Self::Http => ["serve", "http", TOOL, "--no-auth", "--listen", "127.0.0.1:0"],
        }
    }

    /// Returns the end of the URL that the program prints.
    fn path(self) -> &'static str {
        match self {
            Self::Mcp => "/mcp\n",
            Self::Http => "/v1\n",
        }
    }

    /// Returns the path of messages.
    fn target(self) -> &'static str {
        match self {
            Self::Mcp => "/mcp",
            Self::Http => "/v1/tools/any__call/calls",
        }
    }

    /// Returns a message that a well-behaved client sends.
    fn hello(self) -> Vec<u8> {
        match self {
            Self::Mcp => hello(),
            Self::Http => b"{}".to_vec(),
        }
    }

    /// Returns a call with a list of this many values.
    fn call(self, values: usize) -> Vec<u8> {
        let (before, after) = match self {
            Self::Mcp => (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"any__call","arguments":{"a":"#,
                "}}}",
            ),
            Self::Http => (r#"{"a":"#, "}"),
        };
        format!("{before}{}{after}", zeroes(values)).into_bytes()
    }
}

/// The program, serving over HTTP. It ends when this is dropped.
struct Server {
    face: Face,
    child: Child,
    address: String,
}

impl Server {
    fn start(bench: &Workbench, face: Face) -> Self {
        // It takes any arguments, so that all of a message is parsed and checked.
        bench.answering("any", &[ToolDescription::new("call")], Answer::Text(b"done"));
        let errors = tempfile::NamedTempFile::new().unwrap();
        let mut command = bench.command(&face.arguments());
        let child = command.stdout(Stdio::null()).stderr(errors.reopen().unwrap()).spawn().unwrap();
        let mut server = Self { face, child, address: String::new() };
        let started = Instant::now();
        while server.address.is_empty() {
            assert!(started.elapsed() < PATIENCE, "it never serves");
            std::thread::sleep(Duration::from_millis(20));
            let said = std::fs::read_to_string(errors.path()).unwrap();
            let found = said.split_once(" at http://").and_then(|(_, rest)| rest.split_once(face.path()));
            server.address = found.map(|(address, _)| address.to_owned()).unwrap_or_default();
        }
        server
    }

    /// Sends a message without waiting for the answer.
    fn send(&self, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "POST {} HTTP/1.1\r\nConnection: close\r\nHost: {}\r\nContent-Length: {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n\r\n",
            self.face.target(),
            self.address,
            body.len()
        );
        // A server may close the connection before it has read everything.
        let _refused = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        stream
    }

    /// Sends a message. Returns the status of the answer, and the time that it took.
    fn ask(&self, body: &[u8]) -> (String, Duration) {
        let asked = Instant::now();
        let mut answer = Vec::new();
        let _reset = self.send(body).read_to_end(&mut answer);
        (String::from_utf8_lossy(&answer).chars().skip(9).take(3).collect(), asked.elapsed())
    }

    /// Returns the peak of its memory, in MiB.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    }

    /// Sends a signal to end it. Returns the time that it took.
    fn terminate(&mut self) -> Duration {
        let told = Instant::now();
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        while self.child.try_wait().unwrap().is_none() {
            assert!(told.elapsed() < PATIENCE, "it never ends");
            std::thread::sleep(Duration::from_millis(5));
        }
        told.elapsed()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn hello() -> Vec<u8> {
    let client = json!({"name": "test", "version": "0"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string().into_bytes()
}

fn zeroes(count: usize) -> String {
    format!("[{}0]", "0,".repeat(count - 1))
}

/// Checks that while many clients send a message, a well-behaved one is answered soon, memory stays bounded, and a
/// signal ends it.
fn check_that_nobody_starves(face: Face, body: &[u8], statuses: &[&str], growth: u64) {
    let bench = Workbench::new();
    let mut server = Server::start(&bench, face);
    let hello = face.hello();
    assert_eq!(server.ask(&hello).0, "200");
    let before = server.peak();
    let (status, took) = server.ask(body);
    assert!(statuses.contains(&status.as_str()) && took < SOON, "{face:?}: {status} after {took:?}");
    std::thread::scope(|scope| {
        let sending: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| server.send(body))).collect();
        std::thread::sleep(Duration::from_millis(300));
        for _ in 0..3 {
            let (status, took) = server.ask(&hello);
            assert!(status == "200" && took < SOON, "{face:?}: {status} after {took:?}");
        }
        drop(sending);
    });
    let after = server.peak();
    assert!(after < before + growth, "{face:?}: {before} MiB became {after} MiB");
    let _open: Vec<_> = (0..CLIENTS).map(|_| server.send(body)).collect();
    let took = server.terminate();
    assert!(took < GRACE, "{face:?}: {took:?}");
}

#[test]
fn bodies_of_too_many_values_starve_nobody() {
    let zeroes = zeroes(MAX_BODY_BYTES / 2 - 1);
    for face in Face::ALL {
        check_that_nobody_starves(face, zeroes.as_bytes(), &["413"], 300);
        check_that_nobody_starves(face, &face.call(MAX_BODY_BYTES / 2 - 100), &["413"], 300);
    }
}

#[test]
fn the_costliest_bodies_that_are_taken_starve_nobody() {
    for face in Face::ALL {
        // The rest of the message has a few more values, so this is just below the limit.
        check_that_nobody_starves(face, &face.call(99_900), &["200", "400", "422"], 300);
    }
}

#[test]
fn more_sockets_than_files_are_survived() {
    for face in Face::ALL {
        let bench = Workbench::new();
        let server = Server::start(&bench, face);
        let hello = face.hello();
        assert_eq!(server.ask(&hello).0, "200");
        let process = server.child.id();
        let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count() as u64;
        // Half of them are left to everything but connections.
        let limit = Rlimit { current: Some(open + 64), maximum: Some(open + 64) };
        prlimit(Some(Pid::from_child(&server.child)), Resource::Nofile, limit).unwrap();
        let silent: Vec<_> = (0..200).map(|_| TcpStream::connect(&server.address).unwrap()).collect();
        for _ in 0..20 {
            let (status, took) = server.ask(&hello);
            assert!(status == "200" && took < SOON, "{face:?}: {status} after {took:?}");
        }
        drop(silent);
    }
}

#[test]
fn a_line_of_too_many_values_is_answered_unparsed() {
    let bench = Workbench::new();
    bench.example("calculator");
    let mut session = Session::start(&bench, &["calculator.wasm"]);
    let asked = Instant::now();
    let values: Vec<u8> = vec![0; MAX_BODY_BYTES / 2 - 100];
    session.call(7, "calculator__add", json!({"a": values}));
    let answer = session.next();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)), "{answer}");
    assert!(asked.elapsed() < PATIENCE, "{:?}", asked.elapsed());
    session.call(8, "calculator__add", json!({"a": 3, "b": 5}));
    assert_eq!(session.next()["result"]["structuredContent"], json!({"result": 8}));
    session.leave();
}
