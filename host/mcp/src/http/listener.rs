//! The listener: connections, their limits, and the way of a request to a session.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CACHE_CONTROL, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::guard::{Access, Guard, Turned};
use super::held::{Answer, Held};
use crate::server::{Server, Session};
use crate::written::{self, Twice};

/// Where MCP is.
const PATH: &str = "/mcp";
/// How long the head of a request may take, and then its body.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of the head of a request.
const HEAD_BYTES: usize = 32 << 10;
/// Headers of a request.
const HEADERS: usize = 64;
/// Sessions of one principal.
const SESSIONS: usize = 256;
/// How long open requests have when the server stops.
const GRACE: Duration = Duration::from_secs(1);
/// After how many seconds a full server is worth another try.
const RETRY: HeaderValue = HeaderValue::from_static("1");
const TWICE: &str = "the message can be read in two ways; send each member once";
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// How a listener lets clients in.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Where it listens. Port 0: any free one.
    pub address: SocketAddr,
    /// Who may call.
    pub access: Access,
    /// More `Host` headers that are right, besides the address: `name:port`, or `name` for the usual port.
    pub hosts: Vec<String>,
    /// More `Origin` headers that are right: `https://app.example`.
    pub origins: Vec<String>,
    /// Connections at once; more wait to be accepted.
    pub connections: usize,
    /// Requests at once; more are refused.
    pub requests: usize,
}

impl HttpOptions {
    /// At this address, for these: 256 connections, 256 requests.
    #[must_use]
    pub fn new(address: SocketAddr, access: Access) -> Self {
        Self { address, access, hosts: Vec::new(), origins: Vec::new(), connections: 256, requests: 256 }
    }
}

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Anyone could call from anywhere.
    #[error("{0} can be reached from other machines, so calls need a token; give one, or listen on 127.0.0.1")]
    OpenToAll(SocketAddr),
    /// There is nobody who may call.
    #[error("nobody may call: there is no token")]
    Nobody,
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
}

/// A server that listens and has not yet begun to accept.
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
    doors: Arc<Doors>,
    connections: Arc<Semaphore>,
    stop: CancellationToken,
}

type Service = StreamableHttpService<Session, LocalSessionManager>;

/// The way in: the guard, and behind it a service for each principal.
struct Doors {
    guard: Guard,
    services: Vec<(Service, Arc<LocalSessionManager>)>,
    requests: Arc<Semaphore>,
    body_bytes: usize,
}

impl HttpListener {
    /// Takes the address. Nothing is served before [`HttpListener::serve`].
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
        let services = principals.into_iter().map(|actor| service(server, actor, &guard, &stop)).collect();
        let requests = Arc::new(Semaphore::new(options.requests));
        let doors = Doors { guard, services, requests, body_bytes: server.options().message_bytes };
        let connections = Arc::new(Semaphore::new(options.connections));
        Ok(Self { listener, address, doors: Arc::new(doors), connections, stop })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address that clients are given.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Serves until `stop`; then open requests have a second to end, and their calls are stopped.
    pub async fn serve(self, stop: CancellationToken) {
        let connections = TaskTracker::new();
        loop {
            let Ok(place) = Arc::clone(&self.connections).acquire_owned().await else { break };
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => {
                    let served = connection(stream, Arc::clone(&self.doors), self.stop.clone());
                    connections.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                // Such as too many open files: what there is goes on, and some of it ends.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
        self.stop.cancel();
        connections.close();
        let _in_time = tokio::time::timeout(GRACE, connections.wait()).await;
    }
}

fn service(
    server: &Server,
    actor: Option<Arc<str>>,
    guard: &Guard,
    stop: &CancellationToken,
) -> (Service, Arc<LocalSessionManager>) {
    let config = StreamableHttpServerConfig::default()
        .with_allowed_hosts(guard.hosts())
        .with_allowed_origins(guard.origins())
        .enforce_origin_validation()
        .with_cancellation_token(stop.child_token())
        .with_max_request_body_bytes(server.options().message_bytes);
    let sessions = Arc::new(LocalSessionManager::default());
    let (server, closed) = (server.clone(), stop.clone());
    let make = move || Ok(Session::new(server.clone(), actor.clone(), closed.child_token()));
    (StreamableHttpService::new(make, Arc::clone(&sessions), config), sessions)
}

async fn connection(stream: TcpStream, doors: Arc<Doors>, stop: CancellationToken) {
    // Small answers go out at once: waiting for more costs 40 ms.
    let _slower = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let doors = Arc::clone(&doors);
        async move { Ok::<_, Infallible>(doors.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEAD_BYTES).max_headers(HEADERS);
    let mut serving = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ended = serving.as_mut() => return,
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    let _ended = serving.await;
}

impl Doors {
    async fn answer(&self, request: Request<Incoming>) -> Response<Answer> {
        let mut response = match self.admitted(request).await {
            Ok(response) => response,
            Err(turned) => refusal(&turned),
        };
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }

    async fn admitted(&self, request: Request<Incoming>) -> Result<Response<Answer>, Turned> {
        // The connection reads in large pieces, and may have taken up to twice as much.
        if head_bytes(&request) > HEAD_BYTES {
            let why = "the head of the request is too large; send fewer or shorter headers";
            return Err(Turned { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why });
        }
        let principal = self.guard.admit(request.method(), request.uri(), request.headers())?;
        let unknown = Turned { status: StatusCode::UNAUTHORIZED, why: "there is nobody of that token" };
        let (service, sessions) = self.services.get(principal).ok_or(unknown)?;
        // Streams of events stay open for hours; they are limited as connections.
        let place = match *request.method() {
            Method::POST => Some(Arc::clone(&self.requests).try_acquire_owned().map_err(|_| full())?),
            _ => None,
        };
        let (mut head, body) = request.into_parts();
        let body = self.read(body).await?;
        match written::arguments(&body) {
            Ok(None) => {}
            Ok(Some(arguments)) => drop(head.extensions.insert(arguments)),
            Err(Twice(_)) => return Err(Turned { status: StatusCode::BAD_REQUEST, why: TWICE }),
        }
        if !head.headers.contains_key(SESSION_ID) && opens(&body) && sessions.sessions.read().await.len() >= SESSIONS {
            return Err(full());
        }
        let response = service.handle(Request::from_parts(head, Full::new(body))).await;
        Ok(response.map(|body| Held::new(body, place).boxed()))
    }

    async fn read(&self, body: Incoming) -> Result<Bytes, Turned> {
        let read = tokio::time::timeout(PATIENCE, Limited::new(body, self.body_bytes).collect()).await;
        match read {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Turned {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                why: "the message is too large; send less at once",
            }),
            Ok(Err(_)) => Err(Turned { status: StatusCode::BAD_REQUEST, why: "the message broke off" }),
            Err(_) => Err(Turned { status: StatusCode::REQUEST_TIMEOUT, why: "the message came too slowly" }),
        }
    }
}

/// Bytes of the head as HTTP/1.1 usually has it, with the empty line at its end.
fn head_bytes<T>(request: &Request<T>) -> usize {
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    request.method().as_str().len() + uri + " HTTP/1.1 \r\n\r\n".len() + headers.sum::<usize>()
}

/// Whether a message would open a session.
fn opens(body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct WithMethod<'a> {
        #[serde(borrow)]
        method: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<WithMethod<'_>>(body).is_ok_and(|message| message.method == "initialize")
}

fn full() -> Turned {
    Turned { status: StatusCode::SERVICE_UNAVAILABLE, why: "this server is full; try again in a second" }
}

fn refusal(turned: &Turned) -> Response<Answer> {
    let mut response = Response::new(Full::new(Bytes::from_static(turned.why.as_bytes())).boxed());
    *response.status_mut() = turned.status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    match turned.status {
        StatusCode::UNAUTHORIZED => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        StatusCode::SERVICE_UNAVAILABLE => drop(headers.insert(RETRY_AFTER, RETRY)),
        _ => {}
    }
    response
}
