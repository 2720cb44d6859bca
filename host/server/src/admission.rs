//! The stages of a request: health checks, the guard, its body, and the service that answers it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fumehood_core::dependency::Dependency;
use fumehood_core::log::FailedRequest;
use fumehood_core::text::sanitize::truncate_str;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue,
    TRANSFER_ENCODING, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use tokio_util::bytes::{Bytes, BytesMut};
use tokio_util::task::TaskTracker;

use crate::body::{ResponseBody, add_required_headers, response};
use crate::connections::{Connection, Phase};
use crate::guard::Guard;
use crate::limits::{MemoryReservation, RequestLimits};
use crate::rejection::Rejection;
use crate::service::{AdmittedRequest, BODY_TIMEOUT, HttpService, RequestContext, Services};
use crate::tenants::{Client, Tenants, bearer_token};
use crate::token_verifier::{Credential, Identity, METADATA_PREFIX, TokenRefusal, TokenVerifier};

/// Maximum time for the verification of an access token.
const VERIFICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a path in the log, in bytes.
const MAX_LOGGED_PATH_BYTES: usize = 200;
/// Maximum size of the head of a request, in bytes.
pub(crate) const MAX_HEAD_BYTES: usize = 32 << 10;

/// Admission of all requests of a listener: the guard, the tenants, and the services.
pub(crate) struct Admission {
    pub(crate) guard: Guard,
    pub(crate) tenants: Tenants,
    pub(crate) verifier: Option<Arc<dyn TokenVerifier>>,
    pub(crate) body_bytes: usize,
    pub(crate) services: Services,
    /// The parts without which calls fail.
    pub(crate) dependencies: RwLock<Vec<Arc<dyn Dependency>>>,
    /// The requests that are being answered; closed once no more are taken.
    pub(crate) running: TaskTracker,
}

impl Admission {
    pub(crate) async fn handle(
        &self,
        request: Request<Incoming>,
        connection: Arc<Connection>,
    ) -> Response<ResponseBody> {
        let service = self.services.find(request.uri().path());
        let is_chunked = request.headers().contains_key(TRANSFER_ENCODING);
        let method = request.method().clone();
        let uri = request.uri().clone();
        let has_credential = request.headers().contains_key(AUTHORIZATION);
        let (mut response, rejection) = match self.admit(request, service, &connection).await {
            Ok(response) => (response, None),
            Err(rejection) => {
                connection.enter(Phase::Head);
                (self.to_response(rejection), Some(rejection))
            }
        };
        if is_for_operator(response.status(), rejection.is_some()) {
            let client = &*connection.tenant();
            let path = truncate_str(uri.path(), MAX_LOGGED_PATH_BYTES);
            let failed = FailedRequest { method: method.as_str(), path, client, has_credential };
            let reason = rejection.map(|rejection| rejection.why);
            failed.emit(response.status().as_u16(), reason, rejection.and_then(|rejection| rejection.retry_after));
        }
        if is_event_stream(&response) {
            connection.stream_until(|identity| self.tenants.accepts(identity));
        }
        add_required_headers(&mut response);
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if is_chunked {
            // See `request_framing`: only one parser looks for the end of such a body.
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }

    async fn admit(
        &self,
        request: Request<Incoming>,
        service: Option<&Arc<dyn HttpService>>,
        connection: &Arc<Connection>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        // The connection reads in large pieces, and may have accepted up to twice as much.
        if head_bytes(&request) > MAX_HEAD_BYTES {
            let why = "the head of the request is too large; send fewer or shorter headers";
            return Err(Rejection::new(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, why));
        }
        if let Some(response) = self.health_response(&request)? {
            connection.enter(Phase::Head);
            return Ok(response);
        }
        self.guard.check_origin(request.headers())?;
        if let Some(response) = self.metadata_response(&request) {
            connection.enter(Phase::Head);
            return Ok(response);
        }
        if !self.services.is_open() {
            return Err(Rejection::loading());
        }
        let why = "unknown path; MCP is at /mcp, the HTTP API at /v1, and the health check at /health";
        let service = service.ok_or(Rejection::new(StatusCode::NOT_FOUND, why))?;
        let (client, credential) = self.authenticate(request.headers()).await?;
        connection.set_tenant(&client.tenant.name);
        self.tenants.count_request(&client).await?;
        let limits = &client.limits;
        let (head, body) = request.into_parts();
        check_encoding(&head.headers)?;
        service.check(&head)?;
        if self.running.is_closed() {
            return Err(Rejection::draining());
        }
        let identity = Identity { tenant: Arc::clone(&client.tenant.name), credential };
        if !connection.authenticate(identity) {
            return Err(Rejection::overloaded());
        }
        let mut reservation = MemoryReservation::default();
        let reading = self.read_body(body, limits, &mut reservation, connection);
        let timed_out = Rejection::new(StatusCode::REQUEST_TIMEOUT, "the request arrived too slowly");
        let body = tokio::time::timeout(BODY_TIMEOUT, reading).await.unwrap_or(Err(timed_out))?;
        let context = RequestContext { limits, connection, running: &self.running };
        service.handle(AdmittedRequest { tenant: Arc::clone(&client.tenant), head, body, reservation, context }).await
    }

    /// Returns the tenant that sent the request, and its credential: a token of its own, or an access token.
    async fn authenticate(&self, headers: &HeaderMap) -> Result<(Arc<Client>, Credential), Rejection> {
        let rejection = match self.tenants.authenticate(headers) {
            Ok(found) => return Ok(found),
            Err(rejection) => rejection,
        };
        let (Some(verifier), Some(token)) = (&self.verifier, bearer_token(headers)) else { return Err(rejection) };
        let verified = tokio::time::timeout(VERIFICATION_TIMEOUT, verifier.verify(token)).await;
        let verified = verified.unwrap_or(Err(TokenRefusal::Unavailable)).map_err(Rejection::from_token)?;
        Ok((self.tenants.of_token(&verified)?, Credential::Access(verified)))
    }

    /// Creates the response of a rejection. Where a token is missing or refused, it names the way to another one.
    fn to_response(&self, rejection: Rejection) -> Response<ResponseBody> {
        let mut response = rejection.to_response();
        if rejection.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
            // RFC 9110, section 15.5.16.
            response.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let is_challenge = rejection.status == StatusCode::UNAUTHORIZED || rejection.refusal.is_some();
        if let Some(verifier) = self.verifier.as_ref().filter(|_| is_challenge) {
            response.headers_mut().insert(WWW_AUTHENTICATE, verifier.challenge(rejection.refusal));
        }
        response
    }

    /// Returns the response to a request for the metadata of this resource, for which clients have no token yet; `None` for
    /// other requests.
    fn metadata_response<T>(&self, request: &Request<T>) -> Option<Response<ResponseBody>> {
        let path = request.uri().path();
        if !path.starts_with(METADATA_PREFIX) || !matches!(*request.method(), Method::GET | Method::HEAD) {
            return None;
        }
        let document = self.verifier.as_ref()?.metadata(path)?;
        Some(response(StatusCode::OK, "application/json", document.to_owned()))
    }

    async fn read_body(
        &self,
        body: Incoming,
        limits: &RequestLimits,
        reserved: &mut MemoryReservation,
        connection: &Connection,
    ) -> Result<Bytes, Rejection> {
        let mut body = Limited::new(body, self.body_bytes);
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    let why = "the request is too large; send less";
                    Rejection::new(StatusCode::PAYLOAD_TOO_LARGE, why)
                } else {
                    Rejection::new(StatusCode::BAD_REQUEST, "the request is incomplete")
                }
            })?;
            if let Ok(data) = frame.into_data() {
                limits.reserve(reserved, read.len().saturating_add(data.len()), connection).await;
                read.extend_from_slice(&data);
            }
        }
        Ok(read.freeze())
    }

    /// Returns the response to a health check of a load balancer or supervisor, which has neither the host name nor a
    /// token; `None` for other requests. It states only whether connections and requests are accepted, and what is lost.
    fn health_response<T>(&self, request: &Request<T>) -> Result<Option<Response<ResponseBody>>, Rejection> {
        let (status, body) = match request.uri().path() {
            "/health" | "/healthz" => (StatusCode::OK, r#"{"status":"ok"}"#.to_owned()),
            "/readyz" => self.readiness(),
            _ => return Ok(None),
        };
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Rejection::method_not_allowed("GET, HEAD", "the health check is read-only; use GET"));
        }
        Ok(Some(response(status, "application/json", body)))
    }

    fn readiness(&self) -> (StatusCode, String) {
        if self.running.is_closed() {
            return (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"draining"}"#.to_owned());
        }
        if !self.services.is_open() {
            return (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"loading"}"#.to_owned());
        }
        let dependencies = self.dependencies.read().unwrap_or_else(PoisonError::into_inner);
        let lost: Vec<&str> = dependencies.iter().filter_map(|dependency| dependency.outage()).collect();
        if lost.is_empty() {
            return (StatusCode::OK, r#"{"status":"ready"}"#.to_owned());
        }
        let body = format!(r#"{{"status":"unavailable","lost":["{}"]}}"#, lost.join(r#"",""#));
        (StatusCode::SERVICE_UNAVAILABLE, body)
    }
}

/// Returns whether an operator has to know of a response. Responses about a call are in the event log.
fn is_for_operator(status: StatusCode, is_rejected: bool) -> bool {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => is_rejected,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::INTERNAL_SERVER_ERROR => true,
        other => is_rejected && other.is_server_error(),
    }
}

/// Returns whether the body is one of events, which may be open for hours.
fn is_event_stream(response: &Response<ResponseBody>) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    content_type.starts_with(b"text/event-stream")
}

/// Checks that the body is sent as it is. One that was compressed would have to be unpacked before it is measured.
fn check_encoding(headers: &HeaderMap) -> Result<(), Rejection> {
    let is_identity = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().all(is_identity) {
        return Ok(());
    }
    let why = "bodies with a Content-Encoding are not accepted; send the body as it is";
    Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why))
}

/// Returns the size of the head in the usual form of HTTP/1.1, with the empty line at its end, in bytes.
fn head_bytes<T>(request: &Request<T>) -> usize {
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let headers = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len());
    request.method().as_str().len() + uri + " HTTP/1.1 \r\n\r\n".len() + headers.sum::<usize>()
}
