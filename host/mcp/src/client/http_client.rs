//! The HTTP client of rmcp's transport, which bounds what a message of a server takes to parse before it is parsed.
//!
//! rmcp's own client for `reqwest` parses any message of up to 16 MiB. This one returns the same results otherwise.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fumehood_transport::{
    Body, EventLimits, EventPieces, Framing, Request, Response, ResponseLimits, Roots, Transport, TransportError, Url,
};
use futures_util::stream::{self, BoxStream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, Method, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage};
use rmcp::transport::auth::WWWAuthenticateParams;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio_util::bytes::Bytes;

use super::http_message::{events_of, has_events, parse, to_event};
use super::lenient;
use super::oauth::TokenSource;
use super::redirect;

/// Time after which a response without a sign of life is given up. Calls have deadlines of their own, and the stream of a
/// session may be silent for long.
const MAX_SILENCE: Duration = Duration::from_secs(24 * 60 * 60);
/// Maximum size of a stream, as a multiple of that of a message. A session opens another one after that.
const MAX_MESSAGES_OF_FULL_SIZE: u64 = 64;
/// Maximum number of events of a stream.
const MAX_EVENTS: u64 = 1 << 20;
/// Maximum number of redirects of one request.
const MAX_REDIRECTS: usize = 3;
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const ACCEPTED: &str = "text/event-stream, application/json";

type Headers = HashMap<HeaderName, HeaderValue>;
type ClientError = StreamableHttpError<TransportError>;
pub(super) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Builds a client without redirects and without a proxy, and with the system's root certificates if they are needed.
pub(crate) fn build(encrypted: bool) -> Result<Transport, TransportError> {
    Transport::builder().roots(Roots::if_encrypted(encrypted)).build()
}

/// An HTTP client with a limit on messages.
#[derive(Clone)]
pub(crate) struct BoundedClient {
    http: Transport,
    max_message_bytes: usize,
    tokens: Option<Arc<TokenSource>>,
}

impl BoundedClient {
    /// Creates a client for messages of at most `max_message_bytes` that are within the bounds of [`bounds::measure`].
    /// Requests without a token get one of `tokens`.
    pub(crate) fn new(http: Transport, max_message_bytes: usize, tokens: Option<Arc<TokenSource>>) -> Self {
        Self { http, max_message_bytes, tokens }
    }

    /// Returns the token of a request.
    async fn token(&self, configured: Option<String>) -> Option<String> {
        match &self.tokens {
            Some(tokens) if configured.is_none() => tokens.token().await,
            _ => configured,
        }
    }

    /// Creates a request with the token and headers of a connection.
    async fn request(
        &self,
        method: Method,
        uri: &str,
        session: Option<&str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Request, ClientError> {
        let url = Url::parse(uri).map_err(|error| client_error(TransportError::Unreachable(error.to_string())))?;
        let mut request = Request::new(method, url);
        if let Some(token) = self.token(token).await {
            request = request.bearer(&token);
        }
        request.headers.extend(headers);
        if let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) {
            request.headers.insert(SESSION_ID, session);
        }
        Ok(request)
    }

    /// Sends a request, and follows redirects within the origin.
    async fn send(&self, mut request: Request) -> Result<Response, ClientError> {
        for _ in 0..MAX_REDIRECTS {
            let mut again = Request::new(request.method.clone(), request.url.clone());
            again.headers = request.headers.clone();
            again.body = request.body.as_ref().and_then(Body::as_bytes).map(|bytes| bytes.to_vec().into());
            let response = self.send_once(request).await?;
            let target = redirect::target(&response, &again.url);
            let Some(target) = target.map_err(|why| StreamableHttpError::UnexpectedServerResponse(why.into()))? else {
                return Ok(response);
            };
            again.url = target;
            request = again;
        }
        self.send_once(request).await
    }

    async fn send_once(&self, request: Request) -> Result<Response, ClientError> {
        let limits = ResponseLimits {
            head: MAX_SILENCE,
            idle: MAX_SILENCE,
            total: None,
            max_bytes: (self.max_message_bytes as u64).saturating_mul(MAX_MESSAGES_OF_FULL_SIZE),
            ..ResponseLimits::default()
        };
        self.http.send(request, limits).await.map_err(client_error)
    }

    /// Returns the events of a stream.
    fn events(&self, response: Response) -> Events {
        let limits = EventLimits {
            framing: Framing::ServerSent,
            max_event_bytes: self.max_message_bytes,
            max_events: MAX_EVENTS,
            // They are measured, with those of other messages.
            max_values: usize::MAX,
        };
        events_of(EventPieces::new(response, limits).into_stream().map(|piece| piece.map(to_event)))
    }

    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, ClientError> {
        let has_session = session.is_some();
        let mut request = self.request(Method::POST, &uri, session.as_deref(), token, headers).await?;
        request.headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
        let response = self.send(request.body(serde_json::to_vec(&message)?)).await?;
        if let Some(error) = auth_error(&response) {
            if let Some(tokens) = &self.tokens {
                tokens.forget().await;
            }
            return Err(error);
        }
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && has_session {
            return Err(StreamableHttpError::SessionExpired);
        }
        if !status.is_success() {
            return read_refusal(&message, has_session, response).await;
        }
        self.read_answer(&message, has_session, response).await
    }

    async fn read_answer(
        &self,
        message: &ClientJsonRpcMessage,
        has_session: bool,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, ClientError> {
        let wants_answer = matches!(message, JsonRpcMessage::Request(_));
        if response.content_length() == Some(0) && !wants_answer {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = header_text(&response, &SESSION_ID);
        let kind = media_type(&response);
        let status = response.status();
        let is_type = |wanted: &str| kind.as_deref().is_some_and(|kind| kind.starts_with(wanted));
        if is_type(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(response), session));
        }
        let is_json = is_type(JSON);
        let body = response.at_most(self.max_message_bytes as u64).bytes().await.map_err(client_error)?;
        // Some servers name no type, or another one.
        if has_events(&body) {
            let events = events_of(stream::iter([Ok(Bytes::from(body))]));
            return Ok(StreamableHttpPostResponse::Sse(events, session));
        }
        match parse(body, Some(message)).await {
            Ok(answer @ JsonRpcMessage::Error(_))
                if has_session && lenient::has_lost_session(message, Some(&answer), status, "") =>
            {
                Err(StreamableHttpError::SessionExpired)
            }
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(lenient::answer_to(message, answer), session)),
            Err(_) if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
            Err(why) if is_json => Err(StreamableHttpError::UnexpectedServerResponse(why.into())),
            Err(_) => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }
}

fn client_error(error: TransportError) -> ClientError {
    match error {
        TransportError::TooLarge(max) => {
            StreamableHttpError::ResponseBodyTooLarge { max_size: usize::try_from(max).unwrap_or(usize::MAX) }
        }
        error => StreamableHttpError::Client(error),
    }
}

/// Returns the media type of a response, in lower case, with its parameters.
fn media_type(response: &Response) -> Option<String> {
    header_text(response, &CONTENT_TYPE).map(|kind| kind.trim().to_ascii_lowercase())
}

fn header_text(response: &Response, name: &HeaderName) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn auth_error(response: &Response) -> Option<ClientError> {
    let challenge = header_text(response, &WWW_AUTHENTICATE)?;
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge))),
        StatusCode::FORBIDDEN => {
            let scope = WWWAuthenticateParams::parse(&challenge, response.url()).scope;
            Some(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, scope)))
        }
        _ => None,
    }
}

/// Reads a response without success into an error or an error response.
async fn read_refusal(
    message: &ClientJsonRpcMessage,
    has_session: bool,
    response: Response,
) -> Result<StreamableHttpPostResponse, ClientError> {
    let status = response.status();
    if !matches!(message, JsonRpcMessage::Request(_)) && status.is_server_error() {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    let session = header_text(&response, &SESSION_ID);
    let is_json = media_type(&response).is_some_and(|kind| kind.starts_with(JSON));
    let by_status = (status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error())
        .then(|| HttpStatusError::new(status.as_u16(), header_text(&response, &RETRY_AFTER)));
    let by_status = match by_status {
        Some(error) if !is_json || status == StatusCode::TOO_MANY_REQUESTS => return Err(error.into()),
        by_status => by_status,
    };
    let body = match response.bytes().await.map_err(client_error) {
        Ok(body) => body,
        Err(error @ StreamableHttpError::ResponseBodyTooLarge { .. }) => {
            return Err(by_status.map_or(error, Into::into));
        }
        Err(_) => Vec::new(),
    };
    let text = String::from_utf8_lossy(&body).into_owned();
    let answer = parse(body, None).await.ok();
    // Servers that were restarted say so in statuses of their own.
    if has_session && lenient::has_lost_session(message, answer.as_ref(), status, &text) {
        return Err(StreamableHttpError::SessionExpired);
    }
    if !matches!(message, JsonRpcMessage::Request(_)) {
        // Nobody waits for an answer to a notification.
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    let error = match answer {
        Some(JsonRpcMessage::Error(error)) => Some(error),
        Some(answer @ JsonRpcMessage::Response(_)) => {
            return Ok(StreamableHttpPostResponse::Json(lenient::answer_to(message, answer), session));
        }
        _ => None,
    };
    let is_unauthorized = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    // The answer to `server/discover` from a server that does not support it, whatever its id is.
    if let JsonRpcMessage::Request(request) = message
        && matches!(request.request, ClientRequest::DiscoverRequest(_))
        && !has_session
        && status.is_client_error()
        && !is_unauthorized
    {
        let why =
            || ErrorData::invalid_request(format!("server/discover was refused with HTTP {status}: {text}"), None);
        let error = error.map_or_else(why, |error| error.error);
        return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::error(error, Some(request.id.clone())), None));
    }
    match (error, by_status) {
        (Some(error), _) if is_json && !is_unauthorized => {
            Ok(StreamableHttpPostResponse::Json(lenient::answer_to(message, JsonRpcMessage::Error(error)), session))
        }
        (_, Some(by_status)) => Err(by_status.into()),
        _ => Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {text}").into())),
    }
}

impl StreamableHttpClient for BoundedClient {
    type Error = TransportError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, ClientError> {
        self.post(uri, message, session_id, auth_header, custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), ClientError> {
        let request = self.request(Method::DELETE, &uri, Some(&session_id), auth_header, custom_headers).await?;
        let response = self.http.send(request, ResponseLimits::default()).await.map_err(client_error)?;
        // A server need not let clients end sessions.
        match response.status() {
            status if status.is_success() || status == StatusCode::METHOD_NOT_ALLOWED => Ok(()),
            status => Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}").into())),
        }
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, ClientError> {
        let mut request = self.request(Method::GET, &uri, session_id.as_deref(), auth_header, custom_headers).await?;
        request.headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(&id).ok()) {
            request.headers.insert(LAST_EVENT_ID, id);
        }
        let response = self.send(request).await?;
        if let Some(error) = auth_error(&response) {
            return Err(error);
        }
        let status = response.status();
        let kind = media_type(&response);
        match status {
            StatusCode::METHOD_NOT_ALLOWED => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() => {
                Err(HttpStatusError::new(status.as_u16(), header_text(&response, &RETRY_AFTER)).into())
            }
            status if !status.is_success() => {
                Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}").into()))
            }
            _ if kind.as_deref().is_some_and(|kind| kind.starts_with(EVENTS)) => Ok(self.events(response)),
            _ => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }
}
