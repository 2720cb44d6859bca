//! The HTTP listener: accepts connections, and enforces a deadline for each phase of one.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::StreamableHttpServerConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connections::{Capacity, Connection, Connections};
use super::guard::{Access, Guard};
use super::principal_limits::{PrincipalLimits, message_memory_bytes};
use super::request_handler::{MAX_HEAD_BYTES, McpService, PrincipalService, RequestHandler};
use super::write_deadline::WriteDeadline;
use crate::server::mcp_server::Server;
use crate::server::session::Session;
use crate::transport::bounds::{MAX_VALUES, Size};
use crate::transport::parse_queue::ParseQueue;

/// The path of the MCP endpoint.
const PATH: &str = "/mcp";
/// Deadline for the head of a request, from the moment that the connection waits for it.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time in which a client takes nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Size of the kernel's send buffer of a connection, in bytes; the kernel doubles it. The default is megabytes for each
/// client that takes nothing.
const SEND_BUFFER_BYTES: usize = 128 << 10;
/// Maximum number of headers of a request.
const MAX_HEADERS: usize = 64;
/// Time for open requests to end when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause after the system refused to accept a connection.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(20);
/// Pause after the system refused to accept a connection and another one was dropped to make room.
const SHED_BACKOFF: Duration = Duration::from_millis(1);

/// The address, access rules and limits of a listener.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The address to listen at. Port 0 selects any free one.
    pub address: SocketAddr,
    /// The clients that may call.
    pub access: Access,
    /// Accepted `Host` headers besides the address: `name:port`, or `name` for the default port.
    pub hosts: Vec<String>,
    /// Accepted `Origin` headers besides the address: `https://app.example`.
    pub origins: Vec<String>,
    /// Maximum number of connections with an admitted request. For one more, the one that has stalled the longest is
    /// dropped: idle, in the middle of a body, or not taking a response. If none has stalled, the new request is
    /// rejected.
    pub connections: usize,
    /// Maximum number of connections without an admitted request. For one more, the oldest is dropped. None ever waits
    /// to be accepted.
    pub unauthenticated_connections: usize,
    /// Maximum number of concurrent requests of one principal; more are rejected.
    pub requests: usize,
    /// Maximum memory of the messages of one principal while they are handled, with what they are parsed into, in
    /// bytes. More wait, for ten seconds at most. Messages of up to 64 KiB are not counted. At least two of the largest
    /// messages fit.
    pub in_flight_bytes: usize,
}

impl HttpOptions {
    /// Returns options for this address and these clients:
    ///
    /// - 256 connections with an admitted request, and 128 without
    /// - 256 requests of one principal
    /// - 64 MiB of messages of one principal
    #[must_use]
    pub fn new(address: SocketAddr, access: Access) -> Self {
        Self {
            address,
            access,
            hosts: Vec::new(),
            origins: Vec::new(),
            connections: 256,
            unauthenticated_connections: 128,
            requests: 256,
            in_flight_bytes: 64 << 20,
        }
    }
}

/// Errors returned by [`HttpListener::bind`].
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// An address that other machines can reach, without tokens.
    #[error("{0} can be reached from other machines, so calls need a token; give one, or listen on 127.0.0.1")]
    OpenToAll(SocketAddr),
    /// An empty list of principals.
    #[error("nobody may call: there is no token")]
    Nobody,
    /// The address is in use, or not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
}

/// A server that is bound to an address and does not accept yet.
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
    handler: Arc<RequestHandler>,
    connections: Connections,
    stop: CancellationToken,
}

impl fmt::Debug for HttpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpListener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl HttpListener {
    /// Binds to the address. Nothing is served before [`HttpListener::serve`].
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn bind(server: &Server, options: HttpOptions) -> Result<Self, HttpError> {
        let principals = match &options.access {
            Access::Anyone if !options.address.ip().is_loopback() => {
                return Err(HttpError::OpenToAll(options.address));
            }
            Access::Anyone => vec![server.options().actor.clone()],
            Access::Tokens(principals) if principals.is_empty() => return Err(HttpError::Nobody),
            Access::Tokens(principals) => principals.iter().map(|principal| principal.actor.clone()).collect(),
        };
        let failed = |source| HttpError::Listen { address: options.address, source };
        let listener = TcpListener::bind(options.address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let guard = Guard::new(options.access, address, &options.hosts, &options.origins, PATH);
        let stop = CancellationToken::new();
        let body_bytes = server.options().message_bytes;
        let largest = message_memory_bytes(Size { bytes: body_bytes, values: MAX_VALUES });
        let in_flight = options.in_flight_bytes.max(largest.saturating_mul(2));
        let principal_service = |(principal, actor)| {
            let (service, sessions) = mcp_service(server, actor, &guard, &stop);
            PrincipalService { service, sessions, limits: PrincipalLimits::new(principal, options.requests, in_flight) }
        };
        let principals = principals.into_iter().enumerate().map(principal_service).collect();
        let handler = RequestHandler { guard, principals, body_bytes, parsers: ParseQueue::new() };
        let capacity = Capacity { pending: options.unauthenticated_connections, authenticated: options.connections };
        Ok(Self { listener, address, handler: Arc::new(handler), connections: Connections::new(capacity), stop })
    }

    /// Returns the address that it is bound to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until `stop` completes; then open requests have a second to end, and their calls are stopped.
    pub async fn serve(self, stop: impl Future) {
        let mut stop = pin!(stop);
        let tasks = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                _ = &mut stop => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let connection = Arc::new(self.connections.add());
                    tasks.spawn(serve_connection(stream, connection, Arc::clone(&self.handler), self.stop.clone()));
                    // Otherwise many connections at once would keep those before them from sending their heads.
                    tokio::task::yield_now().await;
                }
                Err(error) if is_peer_error(&error) => {}
                // For example too many open files: one connection fewer makes room for the next.
                Err(_) => {
                    let backoff = if self.connections.shed() { SHED_BACKOFF } else { ACCEPT_BACKOFF };
                    tokio::select! {
                        _ = &mut stop => break,
                        () = tokio::time::sleep(backoff) => {}
                    }
                }
            }
        }
        self.stop.cancel();
        tasks.close();
        let _in_time = tokio::time::timeout(SHUTDOWN_TIMEOUT, tasks.wait()).await;
    }
}

/// Returns whether the error means that the connection was gone before it was accepted.
fn is_peer_error(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn mcp_service(
    server: &Server,
    actor: Option<Arc<str>>,
    guard: &Guard,
    stop: &CancellationToken,
) -> (McpService, Arc<LocalSessionManager>) {
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(guard.hosts())
        .with_allowed_origins(guard.origins())
        .enforce_origin_validation()
        .with_cancellation_token(stop.child_token())
        .with_max_request_body_bytes(server.options().message_bytes);
    let sessions = Arc::new(LocalSessionManager::default());
    let (server, closed) = (server.clone(), stop.clone());
    let make = move || Ok(Session::new(server.clone(), actor.clone(), closed.child_token()));
    (McpService::new(make, Arc::clone(&sessions), config), sessions)
}

/// Serves a connection until it ends, has to make room for another one, or `stop` is cancelled.
async fn serve_connection(
    stream: TcpStream,
    connection: Arc<Connection>,
    handler: Arc<RequestHandler>,
    stop: CancellationToken,
) {
    // Without it, Nagle's algorithm holds small responses back for 40 ms.
    let _slower = stream.set_nodelay(true);
    let _larger = fumehood_platform::sockets::set_send_buffer(&stream, SEND_BUFFER_BYTES);
    let stream = WriteDeadline::new(stream, WRITE_TIMEOUT, Arc::clone(&connection));
    let request_connection = Arc::clone(&connection);
    let service = service_fn(move |request| {
        let (handler, connection) = (Arc::clone(&handler), Arc::clone(&request_connection));
        async move { Ok::<_, Infallible>(handler.handle(request, connection).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS);
    let mut serving = pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ended = serving.as_mut() => return,
        () = connection.dropped() => return,
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    tokio::select! {
        _ended = serving => {}
        () = connection.dropped() => {}
    }
}
