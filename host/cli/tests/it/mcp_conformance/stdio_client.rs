//! A client over pipes that writes the protocol by hand and shows answers as they came.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Timeout of an answer, far above what any server takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server, and its client. The server ends when this is dropped.
pub(crate) struct StdioClient {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    next_id: u64,
}

impl StdioClient {
    /// Starts a server and completes the handshake.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = child.stdout.take().unwrap();
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let _nobody_listens = sender.send(line);
            }
        });
        let mut client = Self { child, input, lines, next_id: 0 };
        let info = json!({"name": "raw", "version": "0"});
        // Those of the gateway: some servers have tools for clients with them only.
        let capabilities = json!({"elicitation": {"form": {}, "url": {}}});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": info});
        client.request("initialize", &hello);
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    /// Returns the result of a request, or its error. Notifications before it are skipped.
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|error| panic!("{method}: {error}"));
            let mut answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
            if answer["id"] == id && answer.get("method").is_none() {
                return if answer["result"].is_null() { answer["error"].take() } else { answer["result"].take() };
            }
        }
    }

    /// Returns all tools, of all pages.
    pub(crate) fn tools(&mut self) -> Vec<Value> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let mut page = self.request("tools/list", &params);
            match page["tools"].take() {
                Value::Array(listed) => tools.extend(listed),
                other => panic!("{other}: {page}"),
            }
            if page["nextCursor"].is_null() {
                return tools;
            }
            params = json!({"cursor": page["nextCursor"]});
        }
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }
}

impl Drop for StdioClient {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
    }
}
