//! Streamable HTTP: authentication, limits, and the effects of a connection that ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::flow::{FlowLabel, FlowLabels, FlowPolicy};
use fumehood::mcp::{
    Access, Credentials, Endpoint, HttpError, HttpListener, HttpOptions, Remote, RemoteOptions, Server, ServerOptions,
    Tenant, Token,
};
use fumehood::{CancellationToken, FlowProvider, Host};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::raw::{PATIENCE, host, running};
use super::remote::call;

pub(crate) const TOKEN: &str = "a-token-for-one-test";
/// Maximum size of a message, in bytes.
const BODY: usize = 16 << 10;
pub(crate) const OTHER: &str = "a-token-for-another-one";

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl Served {
    pub(crate) async fn new(host: &Host, access: Access) -> Self {
        Self::with(host, HttpOptions::new("127.0.0.1:0".parse().unwrap(), access)).await
    }

    async fn with(host: &Host, http: HttpOptions) -> Self {
        let options = ServerOptions { message_bytes: BODY, ..ServerOptions::default() };
        let server = Server::new(Arc::new(host.clone()), options);
        Self::of(HttpListener::bind(&server, http).await.unwrap())
    }

    pub(crate) fn of(listener: HttpListener) -> Self {
        let (address, stop) = (listener.address(), CancellationToken::new());
        let stopped = stop.clone();
        let served = tokio::spawn(async move { listener.serve(stopped.cancelled()).await });
        Self { address, stop, served }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.served).await.expect("it never ends").unwrap();
    }

    /// Sends a request as it is. Returns the status and the rest of the response.
    pub(crate) async fn send(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _reset = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("no answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer)
    }

    pub(crate) fn post(&self, headers: &[(&str, &str)], body: &str) -> String {
        let mut request = format!("POST /mcp HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        let host = self.address.to_string();
        let usual = [
            ("Host", host.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let said = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        for (name, value) in usual.iter().filter(|(name, _)| !said(name)).chain(headers) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{request}\r\n{body}")
    }
}

pub(crate) fn tokens() -> Access {
    let of = |name: &str, token: &str| Tenant::new(name, &Token::parse(token).unwrap()).actor(name);
    Access::Tenants(vec![of("one", TOKEN), of("other", OTHER)])
}

/// Returns a request of the stateless revision.
pub(crate) fn stateless(method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

pub(crate) fn initialize() -> String {
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "0"}});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

#[tokio::test]
async fn anybody_hears_whether_the_server_is_up() {
    let host = host(&["calculator"], &[]).await;
    let served = Served::new(&host, tokens()).await;
    let ask = async |method: &str, path: &str| {
        served.send(&format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nHost: probe\r\n\r\n")).await
    };
    let (status, answer) = ask("GET", "/health").await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer.ends_with("{\"status\":\"ok\"}") && answer.contains("content-type: application/json"), "{answer}");
    assert!(!answer.to_lowercase().contains("access-control"), "pages of others cannot read it: {answer}");
    assert_eq!(ask("HEAD", "/health").await.0, 200);
    for (method, path) in [("POST", "/health"), ("GET", "/health/"), ("GET", "/")] {
        assert_eq!(ask(method, path).await.0, 403, "{method} {path}");
    }
    served.end().await;
}

#[tokio::test]
async fn only_those_who_belong_here_are_let_in() {
    let host = host(&["calculator"], &[]).await;
    let served = Served::new(&host, tokens()).await;
    let bearer = format!("Bearer {TOKEN}");
    let right = ("Authorization", bearer.as_str());
    let own = format!("http://{}", served.address);
    for (headers, expected) in [
        (vec![], 401),
        (vec![("Authorization", "Bearer a-token-for-nobody")], 401),
        (vec![right], 200),
        (vec![right, ("Origin", own.as_str())], 200),
        (vec![right, ("Origin", "https://evil.example")], 403),
        (vec![right, ("Origin", "null")], 403),
        (vec![right, ("Host", "evil.example")], 403),
        (vec![right, ("Host", "evil.example:80")], 403),
        (vec![right, ("Content-Type", "text/plain")], 415),
        (vec![right, ("Accept", "text/html")], 406),
        (vec![right, ("Mcp-Session-Id", "12345")], 404),
    ] {
        let (status, answer) = served.send(&served.post(&headers, &initialize())).await;
        assert_eq!(status, expected, "{headers:?}: {answer}");
        assert!(answer.contains("x-content-type-options: nosniff"), "{answer}");
        assert_eq!(answer.contains("www-authenticate: Bearer"), expected == 401, "{answer}");
    }
    served.end().await;
}

#[tokio::test]
async fn a_request_has_a_largest_body_and_head() {
    let host = host(&["calculator"], &[]).await;
    let served = Served::new(&host, Access::Anyone).await;
    let body = initialize();
    let padded = |size: usize| format!("{body}{}", " ".repeat(size - body.len()));
    assert_eq!(served.send(&served.post(&[], &padded(BODY))).await.0, 200);
    assert_eq!(served.send(&served.post(&[], &padded(BODY + 1))).await.0, 413);
    // The limit holds for a body of undeclared length too.
    let chunked = |size: usize| {
        let head = served.post(&[("Transfer-Encoding", "chunked")], "").replace("Content-Length: 0\r\n", "");
        format!("{head}{size:x}\r\n{}\r\n0\r\n\r\n", padded(size))
    };
    assert_eq!(served.send(&chunked(BODY)).await.0, 200);
    assert_eq!(served.send(&chunked(BODY + 1)).await.0, 413);
    let padded_to = |size: usize| {
        let empty = served.post(&[("X-Long", "")], &body);
        let head = empty.find("\r\n\r\n").unwrap() + 4;
        served.post(&[("X-Long", &"x".repeat(size - head))], &body)
    };
    assert_eq!(served.send(&padded_to(32 << 10)).await.0, 200);
    assert_eq!(served.send(&padded_to((32 << 10) + 1)).await.0, 431);
    assert_eq!(served.send(&padded_to(1 << 20)).await.0, 431);
    // Five headers are there already: Connection, Content-Length, Host, Content-Type and Accept.
    let many = |count: usize| vec![("X-Many", "x"); count];
    assert_eq!(served.send(&served.post(&many(59), &body)).await.0, 200);
    assert_eq!(served.send(&served.post(&many(60), &body)).await.0, 431);
    served.end().await;
}

#[tokio::test]
async fn requests_are_counted() {
    let host = host(&["calculator"], &["spin"]).await;
    let http = HttpOptions { requests: 2, ..HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Anyone) };
    let served = Served::with(&host, http).await;
    let call = |tool: &str, arguments: Value| {
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
        served.post(&headers, &stateless("tools/call", json!({"name": tool, "arguments": arguments})))
    };
    let (spin, add) = (call("spin__run", json!({})), call("calculator__add", json!({"a": 3, "b": 5})));
    let mut busy = Vec::new();
    for count in 1..=2 {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        stream.write_all(spin.as_bytes()).await.unwrap();
        running(&host, count).await;
        busy.push(stream);
    }
    let (status, answer) = served.send(&add).await;
    assert!(status == 429 && answer.contains("retry-after: 1") && answer.contains("at once"), "{answer}");
    drop(busy.pop());
    running(&host, 1).await;
    let (status, answer) = served.send(&add).await;
    assert!(status == 200, "{answer}");
    drop(busy);
    running(&host, 0).await;
    served.end().await;
}

#[tokio::test]
async fn a_busy_connection_makes_no_room_and_an_idle_one_does() {
    let host = host(&["calculator"], &["spin"]).await;
    let options = HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Anyone);
    let served = Served::with(&host, HttpOptions { connections: 1, ..options }).await;
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "spin__run")];
    let spin = served.post(&headers, &stateless("tools/call", json!({"name": "spin__run", "arguments": {}})));
    let mut busy = TcpStream::connect(served.address).await.unwrap();
    busy.write_all(spin.as_bytes()).await.unwrap();
    running(&host, 1).await;
    let (status, answer) = served.send(&served.post(&[], &initialize())).await;
    assert!(status == 503 && answer.contains("connection: close"), "{answer}");
    assert_eq!(host.running(), 1);
    drop(busy);
    running(&host, 0).await;
    // An idle connection, kept open after a response.
    let mut idle = TcpStream::connect(served.address).await.unwrap();
    let kept = served.post(&[], &initialize()).replace("Connection: close\r\n", "");
    idle.write_all(kept.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"0\r\n\r\n") {
        tokio::time::timeout(PATIENCE, idle.read_buf(&mut answer)).await.expect("no answer").unwrap();
    }
    let (status, answer) = served.send(&served.post(&[], &initialize())).await;
    assert_eq!(status, 200, "{answer}");
    served.end().await;
}

#[tokio::test]
async fn a_principal_has_a_largest_number_of_sessions() {
    let host = host(&[], &[]).await;
    let served = Served::new(&host, tokens()).await;
    let opened = async |token: &str| {
        let bearer = format!("Bearer {token}");
        served.send(&served.post(&[("Authorization", &bearer)], &initialize())).await.0
    };
    for at in 0..256 {
        assert_eq!(opened(TOKEN).await, 200, "{at}");
    }
    assert_eq!(opened(TOKEN).await, 503);
    assert_eq!(opened(OTHER).await, 200, "another has its own");
    served.end().await;
}

#[tokio::test]
async fn a_body_has_one_reading() {
    let host = host(&["calculator"], &[]).await;
    let served = Served::new(&host, Access::Anyone).await;
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "calculator__add")];
    let call = stateless("tools/call", json!({"name": "calculator__add", "arguments": {"a": 3, "b": 5}}));
    let twice = call.replace(r#"{"a":3,"b":5}"#, r#"{"a":3,"b":5,"a":4}"#);
    let (status, answer) = served.send(&served.post(&headers, &twice)).await;
    assert!(status == 200 && answer.contains(r#""kind":"invalid_arguments""#), "{answer}");
    let twice = call.replace(r#""name":"calculator__add""#, r#""name":"calculator__add","name":"calculator__divide""#);
    assert_ne!(twice, call);
    let (status, answer) = served.send(&served.post(&headers, &twice)).await;
    assert!(status == 400 && answer.contains("two ways"), "{answer}");
    // The same within a session.
    let (_, answer) = served.send(&served.post(&[], &initialize())).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned();
    let headers = [("Mcp-Session-Id", id.as_str()), ("MCP-Protocol-Version", "2025-11-25")];
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"calculator__add","arguments":{"a":3,"b":5,"b":6}}}"#;
    let (_, answer) = served.send(&served.post(&headers, call)).await;
    assert!(answer.contains(r#""kind":"invalid_arguments""#), "{answer}");
    served.end().await;
}

#[tokio::test]
async fn what_others_could_reach_is_never_open() {
    let host = host(&[], &[]).await;
    let server = Server::new(Arc::new(host), ServerOptions::default());
    let open = |address: &str| HttpOptions::new(address.parse().unwrap(), Access::Anyone);
    for address in ["0.0.0.0:0", "[::]:0"] {
        assert!(matches!(HttpListener::bind(&server, open(address)).await, Err(HttpError::OpenToAll(_))), "{address}");
    }
    let nobody = HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Tenants(Vec::new()));
    assert!(matches!(HttpListener::bind(&server, nobody).await, Err(HttpError::Nobody)));
}

#[tokio::test]
async fn a_session_is_known_to_its_principal_only() {
    let host = host(&["calculator"], &[]).await;
    let served = Served::new(&host, tokens()).await;
    let (own, other) = (format!("Bearer {TOKEN}"), format!("Bearer {OTHER}"));
    let (_, answer) = served.send(&served.post(&[("Authorization", &own)], &initialize())).await;
    let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned();
    assert!(id.len() >= 32, "{id}");
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let asked = async |bearer: &str| {
        let headers = [("Authorization", bearer), ("Mcp-Session-Id", &id), ("MCP-Protocol-Version", "2025-11-25")];
        served.send(&served.post(&headers, &list)).await
    };
    assert_eq!(asked(&other).await.0, 404);
    let (status, answer) = asked(&own).await;
    assert!(status == 200 && answer.contains("calculator__add"), "{answer}");
    served.end().await;
}

#[tokio::test]
async fn the_stateless_revision_works_without_a_session() {
    let host = host(&["calculator"], &[]).await;
    let served = Served::new(&host, Access::Anyone).await;
    let call = stateless("tools/call", json!({"name": "calculator__add", "arguments": {"a": 3, "b": 5}}));
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "calculator__add")];
    let (status, answer) = served.send(&served.post(&headers, &call)).await;
    assert!(status == 200 && answer.contains(r#""structuredContent":{"result":8}"#), "{answer}");
    served.end().await;
}

#[tokio::test]
async fn a_stateless_client_that_leaves_stops_its_guest() {
    let host = host(&[], &["spin"]).await;
    let served = Served::new(&host, Access::Anyone).await;
    let call = stateless("tools/call", json!({"name": "spin__run", "arguments": {}}));
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "spin__run")];
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    stream.write_all(served.post(&headers, &call).as_bytes()).await.unwrap();
    running(&host, 1).await;
    let left = Instant::now();
    drop(stream);
    running(&host, 0).await;
    assert!(left.elapsed() < Duration::from_secs(2), "{:?}", left.elapsed());
    served.end().await;
}

#[tokio::test]
async fn stopping_takes_bounded_time_whatever_runs() {
    let host = host(&[], &["spin"]).await;
    let served = Served::new(&host, Access::Anyone).await;
    let remote = Remote::new(
        fumehood::Namespace::parse("other").unwrap(),
        Endpoint::Http { url: served.url(), credentials: Credentials::None },
        RemoteOptions::default(),
    );
    let calling = tokio::spawn(async move { call(&remote, "spin__run").await });
    running(&host, 1).await;
    let stopped = Instant::now();
    served.end().await;
    running(&host, 0).await;
    assert!(stopped.elapsed() < Duration::from_secs(3), "{:?}", stopped.elapsed());
    assert!(calling.await.unwrap().is_err());
}

#[tokio::test]
async fn sessions_have_separate_histories_of_flows() {
    let host = host(&["calculator"], &[]).await;
    let policy = FlowPolicy::new()
        .label_tool("calculator__add", FlowLabels::default().source(FlowLabel::Private))
        .label_tool("calculator__divide", FlowLabels::default().sink(FlowLabel::Public));
    let server = Server::new(Arc::new(FlowProvider::new(Arc::new(host), policy)), ServerOptions::default());
    let http = HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Anyone);
    let served = Served::of(HttpListener::bind(&server, http).await.unwrap());
    let open = async || {
        let (_, answer) = served.send(&served.post(&[], &initialize())).await;
        answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().trim().to_owned()
    };
    let call = async |session: &str, tool: &str| {
        let headers = [("Mcp-Session-Id", session), ("MCP-Protocol-Version", "2025-11-25")];
        let params = json!({"name": tool, "arguments": {"a": 6, "b": 3}});
        let body = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}).to_string();
        served.send(&served.post(&headers, &body)).await.1
    };
    let is_refused = |answer: &str| {
        let is_refused = answer.contains(r#""kind":"needs_approval""#);
        assert_ne!(is_refused, answer.contains(r#""result":"#) && !answer.contains(r#""isError":true"#), "{answer}");
        is_refused
    };
    let (first, second) = (open().await, open().await);
    assert!(!is_refused(&call(&first, "calculator__add").await));
    assert!(is_refused(&call(&first, "calculator__divide").await), "this client has read private data");
    assert!(!is_refused(&call(&second, "calculator__divide").await), "the other one has not");
    assert!(!is_refused(&call(&second, "calculator__add").await));
    assert!(is_refused(&call(&second, "calculator__divide").await), "now it has");
    served.end().await;
}
