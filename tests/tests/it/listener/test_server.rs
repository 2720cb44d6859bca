//! A listener with one protocol, and a client that writes its requests by hand.

use std::net::SocketAddr;
use std::sync::Arc;

use fumehood::http_api::{Api, ApiOptions};
use fumehood::listener::{HttpService, Listener, TenantTools};
use fumehood::mcp::{Access, HttpListener, HttpOptions, McpService, Server, ServerOptions, Tenant, Token};
use fumehood::{CancellationToken, Host};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::mcp::raw::PATIENCE;

pub(crate) const TOKEN: &str = "a-token-for-one-test";
pub(crate) const OTHER: &str = "a-token-for-another-one";

/// The protocol of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Face {
    Mcp,
    Http,
}

impl Face {
    pub(crate) const ALL: [Self; 2] = [Self::Mcp, Self::Http];

    /// Creates the service of these tools.
    fn service(self, host: &Host, options: ServerOptions, listener: &Listener) -> Arc<dyn HttpService> {
        let tools = Arc::new(host.clone());
        match self {
            Self::Mcp => Arc::new(McpService::new(&Server::new(tools, options), listener)),
            Self::Http => Arc::new(Api::new(tools, ApiOptions::default(), listener).unwrap()),
        }
    }
}

/// A listener that serves the tools of a host.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) face: Face,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

/// A response: its status, and all of it as text.
pub(crate) type Answer = (u16, String);

pub(crate) fn http_options(access: Access) -> HttpOptions {
    HttpOptions::new("127.0.0.1:0".parse().unwrap(), access)
}

impl TestServer {
    pub(crate) async fn new(face: Face, host: &Host, access: Access) -> Self {
        Self::with(face, host, http_options(access), ServerOptions::default()).await
    }

    /// Serves with these options; those of the server are for MCP.
    pub(crate) async fn with(face: Face, host: &Host, http: HttpOptions, options: ServerOptions) -> Self {
        let listener = Listener::bind(http).await.unwrap();
        listener.services().open(vec![face.service(host, options, &listener)]);
        let address = listener.address();
        Self::start(face, address, async move |stop| listener.serve(stop.cancelled()).await)
    }

    /// Serves these tools with both protocols. Requests are written for this one.
    pub(crate) async fn both(face: Face, tools: TenantTools, access: Access) -> Self {
        let listener = Listener::bind(http_options(access)).await.unwrap();
        let mcp = McpService::with_tools(tools.clone(), ServerOptions::default(), &listener);
        let http = Api::with_tools(tools, ApiOptions::default(), &listener).unwrap();
        listener.services().open(vec![Arc::new(mcp), Arc::new(http)]);
        let address = listener.address();
        Self::start(face, address, async move |stop| listener.serve(stop.cancelled()).await)
    }

    /// Serves MCP with a listener of its own.
    pub(crate) fn of(listener: HttpListener) -> Self {
        let address = listener.address();
        Self::start(Face::Mcp, address, async move |stop| listener.serve(stop.cancelled()).await)
    }

    fn start<F>(face: Face, address: SocketAddr, serve: impl FnOnce(CancellationToken) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let served = tokio::spawn(serve(stop.clone()));
        Self { address, face, stop, served }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.served).await.expect("it never ends").unwrap();
    }

    /// Opens a connection and sends a request as it is.
    pub(crate) async fn open(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        // A server may close the connection before it has read everything.
        let _refused = stream.write_all(request.as_bytes()).await;
        stream
    }

    /// Sends a request as it is.
    pub(crate) async fn send(&self, request: &str) -> Answer {
        let mut stream = self.open(request).await;
        let mut answer = Vec::new();
        let _reset = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("no answer");
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer)
    }

    /// Writes a request with the usual headers, unless these headers replace them.
    pub(crate) fn request(&self, line: &str, headers: &[(&str, &str)], body: &str) -> String {
        let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        let host = self.address.to_string();
        let usual = [
            ("Host", host.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let usual = match self.face {
            Face::Mcp => &usual[..],
            Face::Http => &usual[..2],
        };
        let is_replaced = |name: &str| headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        for (name, value) in usual.iter().filter(|(name, _)| !is_replaced(name)).chain(headers) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        format!("{request}\r\n{body}")
    }

    /// Writes a message of MCP.
    pub(crate) fn post(&self, headers: &[(&str, &str)], body: &str) -> String {
        self.request("POST /mcp", headers, body)
    }

    /// Writes a request that any client begins with, and which calls nothing.
    pub(crate) fn greeting(&self, headers: &[(&str, &str)]) -> String {
        match self.face {
            Face::Mcp => self.post(headers, &initialize()),
            Face::Http => self.request("GET /v1/calls", headers, ""),
        }
    }

    /// Writes a call of a tool.
    pub(crate) fn call(&self, headers: &[(&str, &str)], tool: &str, arguments: &Value) -> String {
        match self.face {
            Face::Mcp => {
                let named = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
                let body = stateless("tools/call", json!({"name": tool, "arguments": arguments}));
                self.post(&[headers, &named].concat(), &body)
            }
            Face::Http => self.request(&format!("POST /v1/tools/{tool}/calls"), headers, &arguments.to_string()),
        }
    }
}

pub(crate) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
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
