//! The HTTP client of rmcp's transport, which bounds what a message of a server takes to parse before it is parsed.
//!
//! rmcp's own client for `reqwest` parses any message of up to 16 MiB. This one returns the same results otherwise.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use fumehood_listener::bounds::{self, BoundsError};
use futures_util::stream::{BoxStream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use reqwest::{Client, Response};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::auth::WWWAuthenticateParams;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::event_limit::EventLimit;
use super::oauth::TokenSource;
use crate::transport::line_transport::parse_id;

/// Maximum size of the body of an error response, in bytes.
const MAX_REFUSAL_BYTES: usize = 64 << 10;
const SESSION_ID: &str = "mcp-session-id";
const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";

type Headers = HashMap<HeaderName, HeaderValue>;
type ClientError = StreamableHttpError<reqwest::Error>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// Builds a client without redirects and without a proxy, and with the system's root certificates if they are needed.
pub(crate) fn build(encrypted: bool) -> Result<Client, AnyError> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = match encrypted {
        true => tls.with_platform_verifier()?.with_no_client_auth(),
        false => tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth(),
    };
    let client = Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .pool_max_idle_per_host(0);
    Ok(client.build()?)
}

/// An HTTP client with a limit on messages.
#[derive(Clone)]
pub(crate) struct BoundedClient {
    http: Client,
    max_message_bytes: usize,
    tokens: Option<Arc<TokenSource>>,
}

impl BoundedClient {
    /// Creates a client for messages of at most `max_message_bytes` that are within the bounds of [`bounds::measure`].
    /// Requests without a token get one of `tokens`.
    pub(crate) fn new(http: Client, max_message_bytes: usize, tokens: Option<Arc<TokenSource>>) -> Self {
        Self { http, max_message_bytes, tokens }
    }

    /// Returns the token of a request.
    async fn token(&self, configured: Option<String>) -> Option<String> {
        match &self.tokens {
            Some(tokens) if configured.is_none() => tokens.token().await,
            _ => configured,
        }
    }

    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, ClientError> {
        let mut request = self.http.post(uri.as_ref()).header(ACCEPT, format!("{EVENTS}, {JSON}"));
        if let Some(token) = self.token(token).await {
            request = request.bearer_auth(token);
        }
        request = headers.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        let has_session = session.is_some();
        if let Some(session) = session {
            request = request.header(SESSION_ID, session.as_ref());
        }
        let response = request.json(&message).send().await?;
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
        self.read_answer(&message, response).await
    }

    async fn read_answer(
        &self,
        message: &ClientJsonRpcMessage,
        response: Response,
    ) -> Result<StreamableHttpPostResponse, ClientError> {
        let wants_answer = matches!(message, JsonRpcMessage::Request(_));
        if response.content_length() == Some(0) && !wants_answer {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let session = header_text(&response, SESSION_ID);
        let kind = header_text(&response, CONTENT_TYPE.as_str());
        match kind.as_deref() {
            Some(kind) if kind.starts_with(EVENTS) => {
                let limit = EventLimit::new(response.bytes_stream(), self.max_message_bytes);
                Ok(StreamableHttpPostResponse::Sse(bound_events(SseStream::from_bytes_stream(limit).boxed()), session))
            }
            Some(kind) if kind.starts_with(JSON) => {
                let body = read_body(response, self.max_message_bytes).await?;
                match parse(body).await {
                    Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
                    Err(_) if !wants_answer => Ok(StreamableHttpPostResponse::Accepted),
                    Err(why) => Err(StreamableHttpError::UnexpectedServerResponse(why.into())),
                }
            }
            _ => Err(StreamableHttpError::UnexpectedContentType(kind)),
        }
    }
}

/// Parses a message, on another thread if that takes long. A message over the bounds is replaced with an error response
/// to the same request.
async fn parse(body: Vec<u8>) -> Result<ServerJsonRpcMessage, String> {
    let size = match bounds::measure(&body) {
        Ok(size) => size,
        Err(error) => return error_in_place_of(&body, error).ok_or_else(|| error.to_string()),
    };
    let parse = move || serde_json::from_slice(&body).map_err(|error| format!("no JSON-RPC message of MCP: {error}"));
    match size.is_cheap() {
        true => parse(),
        false => tokio::task::spawn_blocking(parse).await.map_err(|error| error.to_string())?,
    }
}

/// Returns an error response to the request that this message answers, if it answers one.
fn error_in_place_of(message: &[u8], error: BoundsError) -> Option<ServerJsonRpcMessage> {
    let why = ErrorData::internal_error(format!("the server answered with too much at once: {error}"), None);
    parse_id(message).map(|id| JsonRpcMessage::error(why, Some(id)))
}

/// Replaces each event that would take too much to parse with an error response, or fails the stream there.
fn bound_events(events: Events) -> Events {
    let check = |event: Result<Sse, SseError>| {
        let mut event = event?;
        let data = event.data.as_deref().unwrap_or_default().as_bytes();
        // rmcp itself rejects events that are nested too deep, or contain several messages.
        if let Err(error @ BoundsError::Values) = bounds::measure(data) {
            let refusal = error_in_place_of(data, error).and_then(|refusal| serde_json::to_string(&refusal).ok());
            let refusal = refusal.ok_or_else(|| SseError::Body(Box::new(io::Error::other(error))))?;
            event.data = Some(refusal);
        }
        Ok(event)
    };
    events.map(check).boxed()
}

async fn read_body(mut response: Response, max_bytes: usize) -> Result<Vec<u8>, ClientError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if chunk.len() > max_bytes.saturating_sub(body.len()) {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size: max_bytes });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn header_text(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn auth_error(response: &Response) -> Option<ClientError> {
    let challenge = header_text(response, WWW_AUTHENTICATE.as_str())?;
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
    let (status, session) = (response.status(), header_text(&response, SESSION_ID));
    let is_json = header_text(&response, CONTENT_TYPE.as_str()).is_some_and(|kind| kind.starts_with(JSON));
    let by_status = (status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error())
        .then(|| HttpStatusError::new(status.as_u16(), header_text(&response, RETRY_AFTER.as_str())));
    let by_status = match by_status {
        Some(error) if !is_json || status == StatusCode::TOO_MANY_REQUESTS => return Err(error.into()),
        by_status => by_status,
    };
    let body = match read_body(response, MAX_REFUSAL_BYTES).await {
        Ok(body) => body,
        Err(error @ StreamableHttpError::ResponseBodyTooLarge { .. }) => {
            return Err(by_status.map_or(error, Into::into));
        }
        Err(_) => Vec::new(),
    };
    let text = String::from_utf8_lossy(&body).into_owned();
    let error = match parse(body).await {
        Ok(JsonRpcMessage::Error(error)) => Some(error),
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
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session))
        }
        (_, Some(by_status)) => Err(by_status.into()),
        _ => Err(StreamableHttpError::UnexpectedServerResponse(format!("HTTP {status}: {text}").into())),
    }
}

impl StreamableHttpClient for BoundedClient {
    type Error = reqwest::Error;

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
        let token = self.token(auth_header).await;
        self.http.delete_session(uri, session_id, token, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<Events, ClientError> {
        let token = self.token(auth_header).await;
        let opened = self.http.get_stream_with_max_sse_event_size(
            uri,
            session_id,
            last_event_id,
            token,
            custom_headers,
            self.max_message_bytes,
        );
        opened.await.map(bound_events)
    }
}
