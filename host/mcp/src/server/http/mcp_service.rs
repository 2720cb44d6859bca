//! MCP as a service of the listener: messages, the limits of their tenant, and the session that answers them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_server::body::{GuardedBody, ResponseBody};
use fumehood_server::bounds::{self, BoundsError, CHEAP_BYTES, Size};
use fumehood_server::parse_queue::ParseQueue;
use fumehood_server::{
    AdmittedRequest, HttpService, Listener, MemoryPermit, Phase, Rejection, Tenant, TenantTools, Tenants,
    message_memory_bytes,
};
use http::header::{CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use rmcp::transport::streamable_http_server::session::SessionManager as _;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio_util::bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::session_table::{SessionTable, SessionUse};
use crate::server::held_calls::{HeldCalls, MAX_ALL_HELD_CALLS};
use crate::server::mcp_server::{Server, ServerOptions};
use crate::server::session::{Principal, Session};
use crate::transport::raw_arguments::{self, DuplicateMember, RawArguments};

/// The path of the MCP endpoint.
pub(crate) const PATH: &str = "/mcp";
/// Maximum number of sessions of one tenant.
const MAX_SESSIONS: usize = 256;
const TOO_MANY_SESSIONS: &str = "this client has too many sessions, and all are in use; end one of them";
/// Time after which a session may have ended.
const BUSY_RETRY: Duration = Duration::from_secs(1);
const DUPLICATE_MEMBER: &str = "the message is ambiguous; send each member once";
const RESERVED_NAME: &str = "the name of a member starts with `$serde_json::private::`, which is reserved; rename it";
const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

type SessionService = StreamableHttpService<Session, LocalSessionManager>;

/// The sessions of one tenant.
struct TenantService {
    tenant: Arc<Tenant>,
    service: SessionService,
    sessions: Arc<LocalSessionManager>,
    usage: Arc<SessionTable>,
    /// Ends the sessions when it is cancelled.
    stop: CancellationToken,
}

impl TenantService {
    /// Makes room for another session, in place of one that was abandoned.
    ///
    /// # Errors
    /// If all sessions are in use.
    async fn make_room(&self) -> Result<(), Rejection> {
        while self.sessions.sessions.read().await.len() >= MAX_SESSIONS {
            let abandoned = self.usage.take_abandoned().ok_or(Rejection::too_many(TOO_MANY_SESSIONS, BUSY_RETRY))?;
            // It may have ended by itself.
            let _ended = self.sessions.close_session(&abandoned).await;
        }
        Ok(())
    }

    /// Notes the session that a response opened.
    async fn add_session(&self, response: &HeaderMap) {
        if let Some(id) = session_id(response) {
            let sessions = self.sessions.sessions.read().await;
            self.usage.add(id, |id| sessions.contains_key(id));
        }
    }

    /// Notes a request of the session that it names, if it does.
    fn begin(&self, headers: &HeaderMap) -> Option<SessionUse> {
        session_id(headers).map(|id| self.usage.begin(id))
    }
}

type TenantServices = RwLock<HashMap<Arc<str>, Arc<TenantService>>>;

/// MCP at `/mcp`, with sessions for each tenant.
pub struct McpService {
    tools: TenantTools,
    options: ServerOptions,
    tenants: Tenants,
    /// The services of tenants that have sent something, by name.
    services: Arc<TenantServices>,
    hosts: Vec<String>,
    origins: Vec<String>,
    body_bytes: usize,
    stop: CancellationToken,
    parsers: ParseQueue,
    /// The places of calls that wait for answers of clients, of all tenants.
    held_places: Arc<Semaphore>,
}

impl fmt::Debug for McpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpService").finish_non_exhaustive()
    }
}

/// A body, and the properties that are read before it is parsed as a whole.
struct Message {
    body: Bytes,
    size: Size,
    raw_arguments: Option<RawArguments>,
    method: String,
}

impl McpService {
    /// Creates the service of a server, for the tenants of this listener.
    #[must_use]
    pub fn new(server: &Server, listener: &Listener) -> Self {
        Self::with_tools(TenantTools::new(server.shared_tools()), server.options().clone(), listener)
    }

    /// Creates the service of these tools, for the tenants of this listener.
    #[must_use]
    pub fn with_tools(tools: TenantTools, options: ServerOptions, listener: &Listener) -> Self {
        let tenants = listener.tenants();
        let services = Arc::<TenantServices>::default();
        let watched = Arc::downgrade(&services);
        tenants.on_replaced(move |tenants| {
            if let Some(services) = watched.upgrade() {
                end_sessions_of_others(&services, &tenants.all());
            }
        });
        Self {
            tools,
            options,
            tenants,
            services,
            hosts: listener.hosts().to_vec(),
            origins: listener.origins().to_vec(),
            body_bytes: listener.body_bytes(),
            stop: listener.stopped(),
            parsers: ParseQueue::new(),
            held_places: Arc::new(Semaphore::new(MAX_ALL_HELD_CALLS)),
        }
    }

    /// Returns the service of a tenant. One that has changed begins without sessions.
    fn service_of(&self, tenant: &Arc<Tenant>) -> Arc<TenantService> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(service) = services.get(&tenant.name).filter(|service| Arc::ptr_eq(&service.tenant, tenant)) {
            return Arc::clone(service);
        }
        drop(services);
        let current = self.tenants.all();
        let mut services = self.services.write().unwrap_or_else(PoisonError::into_inner);
        // Another request may have been faster; and those of tenants that are gone are not kept.
        services.retain(|_, service| current.iter().any(|tenant| Arc::ptr_eq(tenant, &service.tenant)));
        let service = services.entry(Arc::clone(&tenant.name)).or_insert_with(|| Arc::new(self.make_service(tenant)));
        Arc::clone(service)
    }

    fn make_service(&self, tenant: &Arc<Tenant>) -> TenantService {
        let stop = self.stop.child_token();
        let config = StreamableHttpServerConfig::default()
            .with_allowed_hosts(self.hosts.iter())
            .with_allowed_origins(self.origins.iter())
            .enforce_origin_validation()
            .with_cancellation_token(stop.child_token())
            .with_max_request_body_bytes(self.body_bytes);
        let sessions = Arc::new(LocalSessionManager::default());
        let actor = tenant.actor.clone().or_else(|| self.options.actor.clone());
        let places = Arc::clone(&self.held_places);
        let server = Server::with_held_places(self.tools.of(tenant), self.options.clone(), places);
        let held = HeldCalls::new(server.held_places(), &stop);
        let ended = stop.clone();
        let owner = Arc::clone(&tenant.name);
        let decides_sampling = tenant.decides_sampling;
        let make = move || {
            let principal = Principal { actor: actor.clone(), owner: Arc::clone(&owner), decides_sampling };
            Ok(Session::new(server.clone(), principal, ended.child_token(), Arc::clone(&held)))
        };
        let service = SessionService::new(make, Arc::clone(&sessions), config);
        TenantService { tenant: Arc::clone(tenant), service, sessions, usage: Arc::default(), stop }
    }

    async fn answer(&self, request: AdmittedRequest<'_>) -> Result<Response<ResponseBody>, Rejection> {
        let tenant = self.service_of(&request.tenant);
        match request.head.method {
            Method::POST => self.handle_message(&tenant, request).await,
            // Open for hours, and limited as connections.
            _ => {
                let guard = (request.context().stream_guard(), tenant.begin(&request.head.headers));
                let is_end = request.head.method == Method::DELETE;
                let request = Request::from_parts(request.head, Full::new(request.body));
                let mut response = tenant.service.handle(request).await;
                // The session has ended. Clients take 202 for a failure, such as the Python SDK.
                if is_end && response.status() == StatusCode::ACCEPTED {
                    *response.status_mut() = StatusCode::NO_CONTENT;
                }
                Ok(response.map(|body| GuardedBody::new(body, guard).boxed_unsync()))
            }
        }
    }

    /// Passes a message to the session that it is for.
    async fn handle_message(
        &self,
        tenant: &TenantService,
        mut request: AdmittedRequest<'_>,
    ) -> Result<Response<ResponseBody>, Rejection> {
        let context = request.context();
        // From here on the connection waits for this server, not for its client.
        context.enter(Phase::Response);
        let body = std::mem::take(&mut request.body);
        let message = if body.len() <= CHEAP_BYTES {
            inspect(body)?
        } else {
            self.parsers.run(context.parse_turn(), move || inspect(body)).await.ok_or(Rejection::overloaded())??
        };
        request.reserve(message_memory_bytes(message.size)).await?;
        let guard = if message.method == "subscriptions/listen" {
            context.stream_guard()
        } else {
            context.acquire_slot().await?
        };
        let memory = request.take_memory();
        let mut head = request.head;
        let opens_session = message.method == "initialize" && !head.headers.contains_key(SESSION_ID);
        if opens_session {
            tenant.make_room().await?;
        }
        let guard = (guard, tenant.begin(&head.headers));
        // Stays with the request until its call has ended, which may be after its connection.
        head.extensions.insert::<MemoryPermit>(memory);
        if let Some(raw_arguments) = message.raw_arguments {
            head.extensions.insert(raw_arguments);
        }
        let request = Request::from_parts(head, Full::new(message.body));
        let response = if message.size.is_cheap() {
            tenant.service.handle(request).await
        } else {
            let service = tenant.service.clone();
            let handling = async move { service.handle(request).await };
            self.parsers.start(context.parse_turn(), handling).await.ok_or(Rejection::overloaded())?
        };
        if opens_session {
            tenant.add_session(response.headers()).await;
        }
        Ok(response.map(|body| GuardedBody::new(body, guard).boxed_unsync()))
    }
}

impl HttpService for McpService {
    fn has_path(&self, path: &str) -> bool {
        path == PATH
    }

    fn check(&self, head: &Parts) -> Result<(), Rejection> {
        if head.method == Method::POST && !is_json(&head.headers) {
            let why = "expected the Content-Type application/json";
            return Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        Ok(())
    }

    fn handle<'a>(&'a self, request: AdmittedRequest<'a>) -> BoxFuture<'a, Result<Response<ResponseBody>, Rejection>> {
        Box::pin(self.answer(request))
    }
}

/// Ends the sessions of those that are no tenants any more. Sessions of a tenant that has changed end by themselves.
fn end_sessions_of_others(services: &TenantServices, tenants: &[Arc<Tenant>]) {
    let mut services = services.write().unwrap_or_else(PoisonError::into_inner);
    services.retain(|name, service| {
        let is_tenant = tenants.iter().any(|tenant| tenant.name == *name);
        if !is_tenant {
            service.stop.cancel();
        }
        is_tenant
    });
}

/// Returns the session that a head names.
fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let essence = value.to_str().ok().and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// Measures a message and reads what has to be known before it is parsed.
fn inspect(body: Bytes) -> Result<Message, Rejection> {
    let size = bounds::measure(&body).map_err(|error| out_of_bounds(&error))?;
    let raw_arguments = raw_arguments::extract(&body)
        .map_err(|DuplicateMember(_)| Rejection::new(StatusCode::BAD_REQUEST, DUPLICATE_MEMBER))?;
    let method = parse_method(&body).unwrap_or_default();
    Ok(Message { body, size, raw_arguments, method })
}

fn out_of_bounds(error: &BoundsError) -> Rejection {
    let (status, why) = match error {
        BoundsError::Values => {
            (StatusCode::PAYLOAD_TOO_LARGE, "the message has more than 100000 values and names; send fewer")
        }
        BoundsError::Depth => {
            (StatusCode::BAD_REQUEST, "the message is nested deeper than 127 levels; send a flatter one")
        }
        BoundsError::ReservedName => (StatusCode::BAD_REQUEST, RESERVED_NAME),
        BoundsError::Batch => {
            (StatusCode::BAD_REQUEST, "batches are not supported; send one message at a time, as an object")
        }
    };
    Rejection::new(status, why)
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

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check_json(values: &[&'static str], expected: bool) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_TYPE, HeaderValue::from_static(value));
        }
        assert_eq!(is_json(&headers), expected, "{values:?}");
    }

    #[test]
    fn a_message_has_one_content_type_and_it_is_json() {
        check_json(&["application/json"], true);
        check_json(&["Application/JSON; charset=utf-8"], true);
        check_json(&["text/plain"], false);
        check_json(&[], false);
        check_json(&["application/json", "application/json"], false);
    }
}
