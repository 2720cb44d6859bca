//! Raw clients of MCP, over standard streams and over HTTP.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A server over standard input and output, and the raw client at its other end.
pub(super) struct Wire {
    pub(super) child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: u64,
}

impl Wire {
    pub(super) fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
        let output = BufReader::with_capacity(64 << 10, child.stdout.take().expect("a pipe"));
        let mut this = Self { input: child.stdin.take(), output, child, next: 1 };
        let info = json!({"name": "raw", "version": "0"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        let id = this.ask("initialize", &params);
        assert_eq!(this.answer()["id"], id);
        this.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        this
    }

    pub(super) fn send(&mut self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.input.as_mut().expect("open").write_all(line.as_bytes()).expect("it reads");
    }

    pub(super) fn ask(&mut self, method: &str, params: &Value) -> u64 {
        let id = self.next;
        self.next += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.ask("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    pub(super) fn answer(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).expect("a line"), 0, "the server is gone");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The time of one call from the first byte to the last.
    pub(super) fn timed(&mut self, tool: &str, arguments: &Value) -> Duration {
        let started = Instant::now();
        let id = self.call(tool, arguments);
        let answer = loop {
            let answer = self.answer();
            if answer["id"] == id {
                break answer;
            }
        };
        let elapsed = started.elapsed();
        assert_ne!(answer["result"]["isError"], json!(true), "{answer}");
        elapsed
    }

    /// Keeps `in_flight` calls under way for two seconds, and returns the number of answers per second.
    pub(super) fn rate(&mut self, arguments: &Value, in_flight: usize) -> f64 {
        let started = Instant::now();
        let mut under_way = 0_usize;
        let mut answered = 0_u32;
        while started.elapsed() < Duration::from_secs(2) {
            while under_way < in_flight {
                self.call("echo__echo", arguments);
                under_way += 1;
            }
            self.answer();
            under_way -= 1;
            answered += 1;
        }
        let rate = f64::from(answered) / started.elapsed().as_secs_f64();
        (0..under_way).for_each(|_| drop(self.answer()));
        rate
    }

    /// Resident memory in KiB.
    pub(super) fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("Linux");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a figure");
        line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.input = None;
        let _gone = self.child.wait();
    }
}

/// One connection over HTTP that stays open.
pub(super) struct Http {
    stream: BufReader<TcpStream>,
    address: String,
}

impl Http {
    pub(super) fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        Self { stream: BufReader::new(stream), address: address.to_owned() }
    }

    pub(super) fn timed(&mut self, arguments: &Value) -> Duration {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {}
        });
        let params = json!({"name": "echo__echo", "arguments": arguments, "_meta": meta});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, \
             text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: \
             echo__echo\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        let started = Instant::now();
        self.stream.get_mut().write_all((head + &body).as_bytes()).expect("it reads");
        let answer = self.answer();
        let elapsed = started.elapsed();
        assert!(answer.contains(r#""isError":false"#) || answer.contains(r#""content""#), "{answer}");
        elapsed
    }

    fn answer(&mut self) -> String {
        let mut headers = HashMap::new();
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a status");
        assert!(line.contains(" 200 "), "{line}");
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("a header");
            let Some((name, value)) = line.trim().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        if let Some(length) = headers.get("content-length") {
            return self.exactly(length.parse().expect("a number"));
        }
        let mut body = String::new();
        loop {
            line.clear();
            self.stream.read_line(&mut line).expect("a chunk");
            let length = usize::from_str_radix(line.trim(), 16).expect("a number");
            body.push_str(self.exactly(length + 2).trim_end_matches("\r\n"));
            if length == 0 {
                return body;
            }
        }
    }

    fn exactly(&mut self, length: usize) -> String {
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).expect("a body");
        String::from_utf8(bytes).expect("text")
    }
}
