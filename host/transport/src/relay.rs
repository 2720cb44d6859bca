//! A relay for a library that insists on an HTTP client of its own: the library sends its request to the relay, which sends it
//! through a [`Transport`] and returns a response that has its bounds.
//!
//! A relay serves one request. It listens on a port of the loopback interface until that request has come. The path of the
//! request begins with a random token, so that no other program of the machine can use it.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt as _, TryStreamExt as _};
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING, UPGRADE};
use http::{StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::client::Transport;
use crate::error::TransportError;
use crate::events::{EventLimits, EventPieces};
use crate::request::Request;
use crate::response::ResponseLimits;

/// Time in which a program that connects sends the head of its request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of connections at a time; all but one are of programs that have no token.
const MAX_CONNECTIONS: usize = 16;

type RelayBody = UnsyncBoxBody<Bytes, io::Error>;

/// The HTTP client for a library, which reaches relays alone.
pub type RelayClient = reqwest::Client;

/// A translation of the body of a successful response, for a library that does not read all that a server sends.
pub trait Translation: Send {
    /// Translates a piece of the body: the end of an event and perhaps further events, as [`EventPieces`] returns them. An
    /// empty translation is not passed on.
    fn translate(&mut self, piece: &[u8]) -> Vec<u8>;

    /// Returns what the library needs after the last piece, if the body is complete without it; else nothing. Also called
    /// where the connection broke off, which is then no error.
    fn finish(&mut self) -> Vec<u8>;
}

/// A relay of one request.
pub struct Relay {
    listener: TcpListener,
    /// The beginning of the path that authorizes a request.
    token: String,
    base_url: String,
    translation: Option<Box<dyn Translation>>,
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").finish_non_exhaustive()
    }
}

fn cannot_open(error: impl std::error::Error) -> TransportError {
    TransportError::Setup(format!("cannot open a relay: {error}"))
}

impl Relay {
    /// Creates the client for the library. It has no certificates, no proxy and no cache of connections.
    ///
    /// # Errors
    /// If the client cannot be set up.
    pub fn client() -> Result<RelayClient, TransportError> {
        let tls = crate::tls::Roots::None.config().map_err(|error| TransportError::Setup(error.to_string()))?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .no_proxy()
            .no_gzip()
            .http1_only()
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .pool_max_idle_per_host(0);
        client.build().map_err(|error| TransportError::Setup(error.to_string()))
    }

    /// Opens a relay.
    ///
    /// # Errors
    /// If no port of the loopback interface can be had.
    pub async fn open() -> Result<Self, TransportError> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(cannot_open)?;
        let address = listener.local_addr().map_err(cannot_open)?;
        let mut random = [0_u8; 32];
        getrandom::fill(&mut random).map_err(cannot_open)?;
        let token: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let base_url = format!("http://{address}/{token}/");
        Ok(Self { listener, token: format!("/{token}/"), base_url, translation: None })
    }

    /// Sets a translation of the response. There is none by default.
    #[must_use]
    pub fn translation(mut self, translation: Box<dyn Translation>) -> Self {
        self.translation = Some(translation);
        self
    }

    /// Returns the URL that stands for the base URL of the server.
    #[must_use]
    pub fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Relays one request to the server at `base`, whose path ends in a slash, and returns once its response was passed on.
    ///
    /// # Errors
    /// If the request fails, or its response exceeds a limit.
    pub async fn serve(
        self,
        transport: &Transport,
        base: &Url,
        limits: ResponseLimits,
        events: EventLimits,
    ) -> Result<(), TransportError> {
        let outcome = Outcome::default();
        let translation = Mutex::new(self.translation);
        let exchange = Exchange { token: self.token, transport, base, limits, events, outcome, translation };
        let mut connections = FuturesUnordered::new();
        loop {
            let has_room = connections.len() < MAX_CONNECTIONS;
            tokio::select! {
                accepted = self.listener.accept(), if has_room => match accepted {
                    Ok((stream, _)) => connections.push(exchange.serve_connection(stream)),
                    Err(error) => return Err(TransportError::Setup(error.to_string())),
                },
                Some(was_authorized) = connections.next() => {
                    if was_authorized {
                        return exchange.outcome.take().map_or(Ok(()), Err);
                    }
                }
            }
        }
    }
}

/// The error of an exchange, if it failed.
#[derive(Debug, Clone, Default)]
struct Outcome(Arc<Mutex<Option<TransportError>>>);

impl Outcome {
    /// Keeps an error, and returns one that ends a connection.
    fn fail(&self, error: TransportError) -> io::Error {
        let text = error.to_string();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        io::Error::other(text)
    }

    fn take(&self) -> Option<TransportError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The handling of the request that comes to a relay.
struct Exchange<'a> {
    token: String,
    transport: &'a Transport,
    base: &'a Url,
    limits: ResponseLimits,
    events: EventLimits,
    outcome: Outcome,
    /// Taken by the request.
    translation: Mutex<Option<Box<dyn Translation>>>,
}

impl Exchange<'_> {
    /// Serves one connection with one request. Returns whether the request was authorized.
    async fn serve_connection(&self, stream: TcpStream) -> bool {
        let was_authorized = AtomicBool::new(false);
        let service = service_fn(async |request: http::Request<Incoming>| {
            if self.path(request.uri()).is_none() {
                return Ok::<_, io::Error>(refusal());
            }
            was_authorized.store(true, Ordering::Relaxed);
            self.forward(request).await
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).keep_alive(false);
        // How a connection ends is in the outcome.
        let _ended = server.serve_connection(TokioIo::new(stream), service).await;
        was_authorized.load(Ordering::Relaxed)
    }

    /// Returns the path and query of an authorized request, without the token.
    fn path<'u>(&self, uri: &'u Uri) -> Option<&'u str> {
        uri.path_and_query()?.as_str().strip_prefix(self.token.as_str())
    }

    async fn forward(&self, request: http::Request<Incoming>) -> Result<http::Response<RelayBody>, io::Error> {
        let path = self.path(request.uri()).unwrap_or_default();
        let invalid = |_| self.outcome.fail(TransportError::Unreachable("the URL is not valid".to_owned()));
        // Joined as text: a path such as `models/a:b` would be a URL of its own.
        let url = Url::parse(&format!("{}{path}", self.base)).map_err(invalid)?;
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(|error| io::Error::other(error.to_string()))?.to_bytes();
        let mut forwarded = Request::new(head.method, url).body(body);
        forwarded.headers = end_to_end(head.headers);
        let response = self.transport.send(forwarded, self.limits).await;
        let mut response = response.map_err(|error| self.outcome.fail(error))?;
        let status = response.status();
        let headers = end_to_end(response.take_headers());
        let body = if status.is_success() {
            let outcome = self.outcome.clone();
            let pieces = EventPieces::new(response, self.events);
            let translation = self.translation.lock().unwrap_or_else(PoisonError::into_inner).take();
            let pieces = match translation {
                Some(translation) => translated(pieces, translation).left_stream(),
                None => pieces.into_stream().right_stream(),
            };
            let frames = pieces.map_ok(Frame::data).map_err(move |error| outcome.fail(error));
            StreamBody::new(frames).boxed_unsync()
        } else {
            whole(response.message().await)
        };
        let mut answer = http::Response::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }
}

/// Returns the translated pieces as a stream, which ends at the first error.
fn translated(
    pieces: EventPieces,
    translation: Box<dyn Translation>,
) -> impl Stream<Item = Result<Bytes, TransportError>> + Send {
    futures_util::stream::unfold(Some((pieces, translation)), |state| async move {
        let (mut pieces, mut translation) = state?;
        loop {
            let error = match pieces.next_piece().await {
                Ok(Some(piece)) => {
                    let piece = translation.translate(&piece);
                    if piece.is_empty() {
                        continue;
                    }
                    return Some((Ok(piece.into()), Some((pieces, translation))));
                }
                Ok(None) => None,
                Err(error) => Some(error),
            };
            let is_ended = matches!(error, None | Some(TransportError::Broken));
            let rest = if is_ended { translation.finish() } else { Vec::new() };
            return match error {
                _ if !rest.is_empty() => Some((Ok(rest.into()), None)),
                Some(error) => Some((Err(error), None)),
                None => None,
            };
        }
    })
}

fn refusal() -> http::Response<RelayBody> {
    let mut answer = http::Response::new(whole(Vec::new()));
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer
}

fn whole(bytes: Vec<u8>) -> RelayBody {
    Full::new(Bytes::from(bytes)).map_err(|never: Infallible| match never {}).boxed_unsync()
}

/// Returns the headers without those of one connection (RFC 9110, section 7.6.1).
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    for name in [ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
    headers
}
