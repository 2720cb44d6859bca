//! The way of a request: the guard, its body, the limits of its principal, and the session that answers it.

use std::sync::Arc;
use std::time::Duration;

use http::header::{
    CACHE_CONTROL, CONNECTION, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use rmcp::transport::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::bytes::{Bytes, BytesMut};

use super::connections::{Connection, Phase};
use super::guard::{Guard, Rejection};
use super::guarded_body::{Answer, GuardedBody};
use super::share::{InFlight, Reservation, Share, memory_of};
use crate::bounds::{self, BoundsError, CHEAP_BYTES, Size};
use crate::parsing::ParseQueue;
use crate::server::Session;
use crate::written::{self, Twice, Written};

/// Maximum size of the head of a request, in bytes.
pub(crate) const HEAD_BYTES: usize = 32 << 10;
/// How long the body of a request may take, with the wait for memory to hold it.
const BODY_PATIENCE: Duration = Duration::from_secs(10);
/// Sessions of one principal.
const SESSIONS: usize = 256;
/// Where the server says that it is up.
const HEALTH_PATH: &str = "/health";
/// After how many seconds a full server is worth another try.
const RETRY: HeaderValue = HeaderValue::from_static("1");
const TWICE: &str = "the message can be read in two ways; send each member once";
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

pub(crate) type Service = StreamableHttpService<Session, LocalSessionManager>;

/// What serves one principal.
pub(crate) struct Door {
    pub(crate) service: Service,
    pub(crate) sessions: Arc<LocalSessionManager>,
    pub(crate) share: Share,
}

/// The way in: the guard, and behind it a door for each principal.
pub(crate) struct Doors {
    pub(crate) guard: Guard,
    pub(crate) doors: Vec<Door>,
    pub(crate) body_bytes: usize,
    pub(crate) parsers: ParseQueue,
}

/// A body, and what can be said of it without parsing it as a whole.
struct Message {
    body: Bytes,
    size: Size,
    written: Option<Written>,
    method: String,
}

/// Held until a response was sent or given up. Then the connection waits for the next request.
struct InResponse {
    connection: Arc<Connection>,
    _place: Option<OwnedSemaphorePermit>,
}

impl Drop for InResponse {
    fn drop(&mut self) {
        self.connection.enter(Phase::Head);
    }
}

impl Doors {
    pub(crate) async fn answer(&self, request: Request<Incoming>, connection: Arc<Connection>) -> Response<Answer> {
        let mut response = match self.admitted(request, &connection).await {
            Ok(response) => response,
            Err(turned) => {
                connection.enter(Phase::Head);
                refusal(&turned)
            }
        };
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }

    async fn admitted(
        &self,
        request: Request<Incoming>,
        connection: &Arc<Connection>,
    ) -> Result<Response<Answer>, Rejection> {
        // The connection reads in large pieces, and may have taken up to twice as much.
        if head_bytes(&request) > HEAD_BYTES {
            let why = "the head of the request is too large; send fewer or shorter headers";
            return Err(Rejection { status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why });
        }
        if is_health_check(&request) {
            connection.enter(Phase::Head);
            return Ok(health_response());
        }
        let principal = self.guard.admit(request.method(), request.uri(), request.headers())?;
        let unknown = Rejection { status: StatusCode::UNAUTHORIZED, why: "there is nobody of that token" };
        let door = self.doors.get(principal).ok_or(unknown)?;
        if !connection.authenticate(principal) {
            return Err(full());
        }
        let (head, body) = request.into_parts();
        let mut reserved = Reservation::default();
        let reading = self.read(body, &door.share, &mut reserved, connection);
        let body = tokio::time::timeout(BODY_PATIENCE, reading).await.unwrap_or_else(|_| Err(slow()))?;
        match head.method {
            Method::POST => self.message(door, head, body, reserved, connection).await,
            // Open for hours, and limited as connections.
            _ => {
                connection.enter(Phase::Stream);
                let held = InResponse { connection: Arc::clone(connection), _place: None };
                let response = door.service.handle(Request::from_parts(head, Full::new(body))).await;
                Ok(response.map(|body| GuardedBody::new(body, held).boxed()))
            }
        }
    }

    /// Hands a message to the session that it is for.
    async fn message(
        &self,
        door: &Door,
        mut head: http::request::Parts,
        body: Bytes,
        mut reserved: Reservation,
        connection: &Arc<Connection>,
    ) -> Result<Response<Answer>, Rejection> {
        // From here on it waits for this server, not for its client.
        connection.enter(Phase::Response);
        let message = match body.len() <= CHEAP_BYTES {
            true => inspect(body)?,
            false => self.parsers.run(door.share.parsing(), move || inspect(body)).await.ok_or_else(full)??,
        };
        let reserving = door.share.reserve(&mut reserved, memory_of(message.size), connection);
        tokio::time::timeout(BODY_PATIENCE, reserving).await.map_err(|_| full())?;
        let is_stream = message.method == "subscriptions/listen";
        let place = match is_stream {
            true => None,
            false => Some(door.share.place(connection).await.ok_or_else(full)?),
        };
        if is_stream {
            connection.enter(Phase::Stream);
        }
        let opens = message.method == "initialize" && !head.headers.contains_key(SESSION_ID);
        if opens && door.sessions.sessions.read().await.len() >= SESSIONS {
            return Err(full());
        }
        // With the request until its call has ended, which may be after its connection.
        head.extensions.insert::<InFlight>(reserved.share());
        if let Some(written) = message.written {
            head.extensions.insert(written);
        }
        let held = InResponse { connection: Arc::clone(connection), _place: place };
        let request = Request::from_parts(head, Full::new(message.body));
        let response = match message.size.is_cheap() {
            true => door.service.handle(request).await,
            false => {
                let service = door.service.clone();
                let handling = async move { service.handle(request).await };
                self.parsers.begin(door.share.parsing(), handling).await.ok_or_else(full)?
            }
        };
        Ok(response.map(|body| GuardedBody::new(body, held).boxed()))
    }

    async fn read(
        &self,
        body: Incoming,
        share: &Share,
        reserved: &mut Reservation,
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
                share.reserve(reserved, read.len().saturating_add(data.len()), connection).await;
                read.extend_from_slice(&data);
            }
        }
        Ok(read.freeze())
    }
}

/// Whether somebody asks if this server is up: a load balancer or a supervisor, which knows neither name nor token.
fn is_health_check<T>(request: &Request<T>) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) && request.uri().path() == HEALTH_PATH
}

/// Says that connections are accepted, and nothing else.
fn health_response() -> Response<Answer> {
    let mut response = Response::new(Full::new(Bytes::from_static(br#"{"status":"ok"}"#)).boxed());
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Bounds a message and reads what has to be known before it is parsed.
fn inspect(body: Bytes) -> Result<Message, Rejection> {
    let size = bounds::measure(&body).map_err(|error| over(&error))?;
    let written =
        written::arguments(&body).map_err(|Twice(_)| Rejection { status: StatusCode::BAD_REQUEST, why: TWICE })?;
    let method = method(&body).unwrap_or_default();
    Ok(Message { body, size, written, method })
}

fn over(error: &BoundsError) -> Rejection {
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

/// Bytes of the head as HTTP/1.1 usually has it, with the empty line at its end.
fn head_bytes<T>(request: &Request<T>) -> usize {
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    request.method().as_str().len() + uri + " HTTP/1.1 \r\n\r\n".len() + headers.sum::<usize>()
}

/// The method of a message.
fn method(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct WithMethod<'a> {
        #[serde(borrow)]
        method: std::borrow::Cow<'a, str>,
    }
    serde_json::from_slice::<WithMethod<'_>>(body).ok().map(|message| message.method.into_owned())
}

fn full() -> Rejection {
    Rejection { status: StatusCode::SERVICE_UNAVAILABLE, why: "this server is full; try again in a second" }
}

fn slow() -> Rejection {
    Rejection { status: StatusCode::REQUEST_TIMEOUT, why: "the message came too slowly" }
}

fn refusal(turned: &Rejection) -> Response<Answer> {
    let mut response = Response::new(Full::new(Bytes::from_static(turned.why.as_bytes())).boxed());
    *response.status_mut() = turned.status;
    let headers = response.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    match turned.status {
        StatusCode::UNAUTHORIZED => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, RETRY);
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        _ => {}
    }
    response
}
