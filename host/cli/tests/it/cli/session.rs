//! A session with `fumehood serve mcp` over pipes, and a client that writes the protocol by hand.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::workbench::Workbench;

/// Timeout of every wait, far above what any of them takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The program, and its client. The program ends when this is dropped.
pub(crate) struct Session {
    child: Child,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: tempfile::NamedTempFile,
    hello: Value,
}

impl Session {
    /// Starts the program and completes the handshake.
    pub(crate) fn start(bench: &Workbench, arguments: &[&str]) -> Self {
        Self::start_with(bench, arguments, json!({}))
    }

    /// Starts the program, and completes the handshake with these capabilities of the client.
    pub(crate) fn start_with(bench: &Workbench, arguments: &[&str], capabilities: Value) -> Self {
        Self::run(bench.command(&[&["serve", "mcp"], arguments].concat()), capabilities)
    }

    /// Runs the program, and completes the handshake with these capabilities of the client.
    pub(crate) fn run(mut command: Command, capabilities: Value) -> Self {
        let errors = tempfile::NamedTempFile::new().unwrap();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors.reopen().unwrap());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _nobody_listens = sender.send(line);
            }
        });
        let mut session = Self { child, input, lines, errors, hello: Value::Null };
        let client = json!({"name": "test", "version": "0"});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client});
        session.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        session.hello = session.next();
        assert_eq!(session.hello["result"]["protocolVersion"], "2025-11-25");
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        session
    }

    /// Returns the answer to the handshake.
    pub(crate) fn hello(&self) -> &Value {
        &self.hello
    }

    /// Returns the id of the process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    /// Sends a request without waiting for the answer.
    pub(crate) fn ask(&mut self, id: u64, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    /// Calls a tool without waiting for the result.
    pub(crate) fn call(&mut self, id: u64, tool: &str, arguments: Value) {
        self.ask(id, "tools/call", json!({"name": tool, "arguments": arguments}));
    }

    /// Returns the next line, which must be a message.
    pub(crate) fn next(&mut self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{error}; {}", self.said()));
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}; {}", self.said()))
    }

    /// Returns whether no message arrives within this time.
    pub(crate) fn is_quiet_for(&mut self, time: Duration) -> bool {
        matches!(self.lines.recv_timeout(time), Err(RecvTimeoutError::Timeout))
    }

    /// Sends a request and returns its answer. No other message may come before it.
    pub(crate) fn request(&mut self, id: u64, method: &str, params: Value) -> Value {
        self.ask(id, method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// Returns the names of the tools that are listed.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let listed = self.request(1_000_000, "tools/list", json!({}));
        let tools = listed["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the text on standard error so far.
    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(self.errors.path()).unwrap()
    }

    /// Waits until this text is on standard error.
    pub(crate) fn says(&self, what: &str) {
        let started = Instant::now();
        while !self.said().contains(what) {
            assert!(started.elapsed() < PATIENCE, "it never says {what:?}: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Closes the input. Returns the rest of the output, the time until the end and the exit code.
    pub(crate) fn leave(mut self) -> (String, Duration, Option<i32>) {
        let left = Instant::now();
        drop(self.input.take());
        let code = self.child.wait().unwrap().code();
        let took = left.elapsed();
        (self.lines.iter().map(|line| format!("{line}\n")).collect(), took, code)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
