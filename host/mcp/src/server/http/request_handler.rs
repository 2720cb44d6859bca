//! The stages of a request: the guard, its body, the limits of its principal, and the session that answers it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::header::{
    CACHE_CONTROL, CONNECTION, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::bytes::{Bytes, BytesMut};

use super::connections::{Connection, Phase};
use super::guard::{Guard, Rejection};
use super::principal_limits::{MemoryPermit, MemoryReservation, PrincipalLimits, message_memory_bytes};
use crate::server::session::Session;
use crate::transport::bounds::{self, BoundsError, CHEAP_BYTES, Size};
use crate::transport::parse_queue::ParseQueue;
use crate::transport::raw_arguments::{self, DuplicateMember, RawArguments};

/// Maximum size of the head of a request, in bytes.
pub(crate) const MAX_HEAD_BYTES: usize = 32 << 10;
/// Deadline for the body of a request, with the wait for memory to hold it.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of sessions of one principal.
const MAX_SESSIONS: usize = 256;
/// The path of the health check.
const HEALTH_PATH: &str = "/health";
/// `Retry-After` of a response of an overloaded server, in seconds.
const RETRY_AFTER_SECONDS: HeaderValue = HeaderValue::from_static("1");
const DUPLICATE_MEMBER: &str = "the message can be read in two ways; send each member once";
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

pub(crate) type McpService = StreamableHttpService<Session, LocalSessionManager>;

/// The MCP service, sessions and limits of one principal.
pub(crate) struct PrincipalService {
    pub(crate) service: McpService,
    pub(crate) sessions: Arc<LocalSessionManager>,
    pub(crate) limits: PrincipalLimits,
}

/// Handler of all requests of a listener: the guard, and a service for each principal.
pub(crate) struct RequestHandler {
    pub(crate) guard: Guard,
    pub(crate) principals: Vec<PrincipalService>,
    pub(crate) body_bytes: usize,
    pub(crate) parsers: ParseQueue,
}

/// A body, and the properties that are read before it is parsed as a whole.
struct Message {
    body: Bytes,
    size: Size,
    raw_arguments: Option<RawArguments>,
    method: String,
}

/// Guard that is held until a response was sent or dropped. Then the connection waits for the next request.
struct ResponseGuard {
    connection: Arc<Connection>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        self.connection.enter(Phase::Head);
    }
}

impl RequestHandler {
    pub(crate) async fn handle(
        &self,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Response<ResponseBody> {
        let mut response = match self.admit(request, &connection).await {
            Ok(response) => response,
            Err(rejection) => {
                connection.enter(Phase::Head);
                rejection_response(&rejection)
            }
        };
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }

    async fn admit(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        // The connection reads in large pieces, and may have accepted up to twice as much.
        if head_bytes(&request) > MAX_HEAD_BYTES {
            let why = "the head of the request is too large; send fewer or shorter headers";
            return Err(Rejection { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why });
        }
        if is_health_check(&request) {
            connection.enter(Phase::Head);
            return Ok(health_response());
        }
        let number = self.guard.admit(request.method(), request.uri(), request.headers())?;
        let unknown = Rejection { status: StatusCode::UNAUTHORIZED, why: "there is nobody of that token" };
        let principal = self.principals.get(number).ok_or(unknown)?;
        if !connection.authenticate(number) {
            return Err(overloaded());
        }
        let (head, body) = request.into_parts();
        let mut reserved = MemoryReservation::default();
        let reading = self.read_body(body, &principal.limits, &mut reserved, connection);
        let body = tokio::time::timeout(BODY_TIMEOUT, reading).await.unwrap_or_else(|_| Err(timed_out()))?;
        match head.method {
            Method::POST => self.handle_message(principal, head, body, reserved, connection).await,
            // Open for hours, and limited as connections.
            _ => {
                connection.enter(Phase::Stream);
                let guard = ResponseGuard { connection: Arc::clone(connection), _slot: None };
                let response = principal.service.handle(Request::from_parts(head, Full::new(body))).await;
                Ok(response.map(|body| GuardedBody::new(body, guard).boxed()))
            }
        }
    }

    /// Passes a message to the session that it is for.
    async fn handle_message(
        &self,
        principal: &PrincipalService,
        mut head: http::request::Parts,
        body: Bytes,
        mut reserved: MemoryReservation,
        connection: &Arc<Connection>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        // From here on the connection waits for this server, not for its client.
        connection.enter(Phase::Response);
        let message = match body.len() <= CHEAP_BYTES {
            true => inspect(body)?,
            false => self
                .parsers
                .run(principal.limits.parse_turn(), move || inspect(body))
                .await
                .ok_or_else(overloaded)??,
        };
        let reserving = principal.limits.reserve(&mut reserved, message_memory_bytes(message.size), connection);
        tokio::time::timeout(BODY_TIMEOUT, reserving).await.map_err(|_| overloaded())?;
        let is_stream = message.method == "subscriptions/listen";
        let slot = match is_stream {
            true => None,
            false => Some(principal.limits.acquire_slot(connection).await.ok_or_else(overloaded)?),
        };
        if is_stream {
            connection.enter(Phase::Stream);
        }
        let opens_session = message.method == "initialize" && !head.headers.contains_key(SESSION_ID);
        if opens_session && principal.sessions.sessions.read().await.len() >= MAX_SESSIONS {
            return Err(overloaded());
        }
        // Stays with the request until its call has ended, which may be after its connection.
        head.extensions.insert::<MemoryPermit>(reserved.into_permit());
        if let Some(raw_arguments) = message.raw_arguments {
            head.extensions.insert(raw_arguments);
        }
        let guard = ResponseGuard { connection: Arc::clone(connection), _slot: slot };
        let request = Request::from_parts(head, Full::new(message.body));
        let response = match message.size.is_cheap() {
            true => principal.service.handle(request).await,
            false => {
                let service = principal.service.clone();
                let handling = async move { service.handle(request).await };
                self.parsers.start(principal.limits.parse_turn(), handling).await.ok_or_else(overloaded)?
            }
        };
        Ok(response.map(|body| GuardedBody::new(body, guard).boxed()))
    }

    async fn read_body(
        &self,
        body: Incoming,
        limits: &PrincipalLimits,
        reserved: &mut MemoryReservation,
        connection: &Connection,
    ) -> Result<Bytes, Rejection> {
        let mut body = Limited::new(body, self.body_bytes);
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => {
                    let why = "the message is too large; send less at once";
                    Rejection { status: StatusCode::PAYLOAD_TOO_LARGE, why }
                }
                false => Rejection { status: StatusCode::BAD_REQUEST, why: "the message broke off" },
            })?;
            if let Ok(data) = frame.into_data() {
                limits.reserve(reserved, read.len().saturating_add(data.len()), connection).await;
                read.extend_from_slice(&data);
            }
        }
        Ok(read.freeze())
    }
}

/// Returns whether the request is a health check of a load balancer or supervisor, which has neither the host name nor
/// a token.
fn is_health_check<T>(request: &Request<T>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && request.uri().path() == HEALTH_PATH
}

/// Returns the response of the health check. It states only that connections are accepted.
fn health_response() -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(br#"{"status":"ok"}"#)).boxed());
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Measures a message and reads what has to be known before it is parsed.
fn inspect(body: Bytes) -> Result<Message, Rejection> {
    let size = bounds::measure(&body).map_err(|error| out_of_bounds(&error))?;
    let raw_arguments = raw_arguments::extract(&body)
        .map_err(|DuplicateMember(_)| Rejection { status: StatusCode::BAD_REQUEST, why: DUPLICATE_MEMBER })?;
    let method = parse_method(&body).unwrap_or_default();
    Ok(Message { body, size, raw_arguments, method })
}

fn out_of_bounds(error: &BoundsError) -> Rejection {
    match error {
        BoundsError::Values => Rejection {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            why: "the message has more than 100000 values and names; send less at once",
        },
        BoundsError::Depth => Rejection {
            status: StatusCode::BAD_REQUEST,
            why: "the message is nested deeper than 127 levels; send a flatter one",
        },
        BoundsError::Batch => Rejection {
            status: StatusCode::BAD_REQUEST,
            why: "batches are not supported; send one message at a time, as an object",
        },
    }
}

/// Returns the size of the head in the usual form of HTTP/1.1, with the empty line at its end, in bytes.
fn head_bytes<T>(request: &Request<T>) -> usize {
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    request.method().as_str().len() + uri + " HTTP/1.1 \r\n\r\n".len() + headers.sum::<usize>()
}

/// Returns the `method` of a message.
fn parse_method(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct WithMethod<'a> {
        #[serde(borrow)]
        method: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<WithMethod<'_>>(body).ok().map(|message| message.method.into_owned())
}

fn overloaded() -> Rejection {
    Rejection { status: StatusCode::SERVICE_UNAVAILABLE, why: "this server is full; try again in a second" }
}

fn timed_out() -> Rejection {
    Rejection { status: StatusCode::REQUEST_TIMEOUT, why: "the message came too slowly" }
}

fn rejection_response(rejection: &Rejection) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from_static(rejection.why.as_bytes())).boxed());
    *response.status_mut() = rejection.status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    match rejection.status {
        StatusCode::UNAUTHORIZED => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, RETRY_AFTER_SECONDS);
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}

/// The body of a response.
pub(crate) type ResponseBody = BoxBody<Bytes, Infallible>;

/// A body that holds a value until it has been sent or dropped.
pub(crate) struct GuardedBody<T> {
    body: ResponseBody,
    _held: T,
}

impl<T> GuardedBody<T> {
    pub(crate) fn new(body: ResponseBody, held: T) -> Self {
        Self { body, _held: held }
    }
}

impl<T: Unpin> Body for GuardedBody<T> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
