//! A client that writes the protocol by hand, and a host to connect it to.

use std::sync::Arc;
use std::time::Duration;

use fumehood::mcp::{Server, ServerOptions};
use fumehood::{Host, Load};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// Slack of a loaded machine for something quick.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Creates a host with example tools and hostile programs, named after their files.
pub(crate) async fn host(examples: &[&str], programs: &[&str]) -> Host {
    let host = Host::builder().concurrency(16).queue(16).build().unwrap();
    for name in examples {
        let path = format!("{}/../example-tools/dist/{name}.wasm", env!("CARGO_MANIFEST_DIR"));
        host.load(Load::path(path)).await.unwrap();
    }
    for name in programs {
        host.load(Load::bytes(*name, fumehood_tests::component(name).unwrap())).await.unwrap();
    }
    host
}

/// A client over a pipe, and the server behind it.
pub(crate) struct Raw {
    reader: BufReader<ReadHalf<DuplexStream>>,
    writer: Option<WriteHalf<DuplexStream>>,
    served: JoinHandle<()>,
    last: u64,
    /// Messages other than the awaited answer, in the order of their arrival.
    pub(crate) news: Vec<Value>,
}

impl Raw {
    /// Connects without a handshake.
    pub(crate) fn connect(host: &Host, options: ServerOptions) -> Self {
        Self::connect_to(&Server::new(Arc::new(host.clone()), options))
    }

    /// Connects to a server without a handshake.
    pub(crate) fn connect_to(server: &Server) -> Self {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let server = server.clone();
        let (input, output) = tokio::io::split(theirs);
        let served = tokio::spawn(async move {
            // The end of the session is visible to the client.
            let _ended = server.serve_streams(input, output, std::future::pending::<()>()).await;
        });
        let (reader, writer) = tokio::io::split(ours);
        Self { reader: BufReader::new(reader), writer: Some(writer), served, last: 0, news: Vec::new() }
    }

    /// Connects and completes the handshake.
    pub(crate) async fn open(host: &Host) -> Self {
        let mut raw = Self::connect(host, ServerOptions::default());
        raw.initialize("2025-11-25").await;
        raw
    }

    /// Completes the handshake, and returns the result of `initialize`.
    pub(crate) async fn initialize(&mut self, revision: &str) -> Value {
        self.initialize_with(revision, json!({})).await
    }

    /// Like [`Self::initialize`], as a client with these capabilities.
    pub(crate) async fn initialize_with(&mut self, revision: &str, capabilities: Value) -> Value {
        let client = json!({"name": "raw", "version": "0"});
        let parameters = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client});
        let answer = self.request("initialize", parameters).await;
        self.notify("notifications/initialized", json!({})).await;
        answer["result"].clone()
    }

    pub(crate) async fn line(&mut self, line: &str) {
        let writer = self.writer.as_mut().unwrap();
        writer.write_all(line.as_bytes()).await.unwrap();
        writer.write_all(b"\n").await.unwrap();
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()).await;
    }

    /// Sends a request without waiting for the answer. Returns its id.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params});
        self.line(&request.to_string()).await;
        self.last
    }

    /// Returns the next message of any kind.
    pub(crate) async fn next(&mut self) -> Value {
        let mut line = String::new();
        tokio::time::timeout(PATIENCE, self.reader.read_line(&mut line)).await.expect("nothing came").unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Returns the answer with this id. Messages before it are kept in `news`.
    pub(crate) async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.news.push(message);
        }
    }

    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    /// Calls a tool, and returns its result.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments})).await;
        assert_eq!(answer.get("error"), None, "{answer}");
        answer["result"].clone()
    }

    /// Closes the client's side, and waits until the server has ended.
    pub(crate) async fn leave(mut self) {
        self.writer.take().unwrap().shutdown().await.unwrap();
        let mut rest = String::new();
        let _broken = tokio::time::timeout(PATIENCE, self.reader.read_line(&mut rest)).await.expect("it goes on");
        tokio::time::timeout(PATIENCE, self.served).await.expect("it never ends").unwrap();
    }
}

/// Waits until the host runs this number of calls.
pub(crate) async fn running(host: &Host, calls: usize) {
    let started = std::time::Instant::now();
    while host.running() != calls {
        assert!(started.elapsed() < PATIENCE, "{} calls are running, not {calls}", host.running());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
