//! The HTTP API as a service of the listener.

use std::fmt;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::tool::ToolProvider;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use tower_service::Service as _;

use crate::body::{GuardedBody, ResponseBody};
use crate::bounds::{self, BoundsError, CHEAP_BYTES};
use crate::http_api::idempotency::Answers;
use crate::http_api::negotiation::{Form, is_json, negotiate};
use crate::http_api::routes;
use crate::http_api::sessions::approvals::Approvals;
use crate::http_api::sessions::store::Sessions;
use crate::http_api::state::{ApiOptions, ApiState, Caller};
use crate::parse_queue::ParseQueue;
use crate::{
    AdmittedRequest, HttpService, Listener, MemoryPermit, Phase, Rejection, ResponseGuard, TenantTools,
    message_memory_bytes,
};

const RESERVED_NAME: &str = "the name of a member starts with `$serde_json::private::`, which is reserved; rename it";

/// The API at `/v1`, and its document at `/openapi.json`.
pub struct Api {
    shared: Arc<ApiState>,
    router: Router,
    parsers: ParseQueue,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    /// Creates the API of a set of tools, for the tenants of this listener.
    ///
    /// # Errors
    /// If the system has no random bytes for the ids of calls.
    pub fn new(
        tools: Arc<dyn ToolProvider>,
        options: ApiOptions,
        listener: &Listener,
    ) -> Result<Self, getrandom::Error> {
        Self::with_tools(TenantTools::new(tools), options, listener)
    }

    /// Creates the API of these tools, for the tenants of this listener.
    ///
    /// # Errors
    /// If the system has no random bytes for the ids of calls.
    pub fn with_tools(tools: TenantTools, options: ApiOptions, listener: &Listener) -> Result<Self, getrandom::Error> {
        let shared = ApiState {
            tools,
            options,
            sessions: Sessions::new(getrandom::u64()?),
            approvals: Approvals::new(getrandom::u64()?),
            answers: Answers::default(),
            documents: Mutex::default(),
            stopped: listener.stopped(),
        };
        let shared = Arc::new(shared);
        let router = routes::router(Arc::clone(&shared));
        Ok(Self { shared, router, parsers: ParseQueue::new() })
    }

    async fn answer(&self, mut request: AdmittedRequest<'_>) -> Result<Response<ResponseBody>, Rejection> {
        let context = request.context();
        // From here on the connection waits for this server, not for its client.
        context.enter(Phase::Response);
        let body = request.body.clone();
        let size = if body.len() <= CHEAP_BYTES {
            bounds::measure(&body)
        } else {
            let measuring = self.parsers.run(context.parse_turn(), move || bounds::measure(&body));
            measuring.await.ok_or(Rejection::overloaded())?
        };
        let size = size.map_err(|error| out_of_bounds(&error))?;
        request.reserve(message_memory_bytes(size)).await?;
        let guard = context.acquire_slot().await?;
        let memory = request.take_memory();
        let permits = RequestPermits { _guard: guard, _memory: memory.clone() };
        let tools = self.shared.tools.of(&request.tenant);
        let queue = (self.parsers.clone(), context.parse_turn());
        let parses_in_queue = !size.is_cheap();
        let caller = Caller { tenant: Arc::clone(&request.tenant), tools, memory, queue, parses_in_queue };
        let mut routed = Request::from_parts(request.head, Body::from(request.body));
        routed.extensions_mut().insert(caller);
        // A router is always ready.
        let responding = self.router.clone().call(routed);
        let Ok(response) = if size.is_cheap() {
            responding.await
        } else {
            // Arguments are parsed and checked, and the call begins, on another thread.
            self.parsers.start(context.parse_turn(), responding).await.ok_or(Rejection::overloaded())?
        };
        Ok(response.map(|body| GuardedBody::new(body, permits).boxed_unsync()))
    }
}

impl HttpService for Api {
    fn has_path(&self, path: &str) -> bool {
        path == "/v1" || path.starts_with("/v1/") || path == "/openapi.json"
    }

    fn check(&self, head: &Parts) -> Result<(), Rejection> {
        let path = head.uri.path();
        let has_body = ["/calls", "/messages", "/sessions"].iter().any(|end| path.ends_with(end))
            || path.starts_with("/v1/approvals/");
        if head.method == Method::POST && has_body && !is_json(&head.headers) {
            let why = "expected the Content-Type application/json";
            return Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        }
        let has_json = matches!(head.method, Method::GET | Method::HEAD);
        if has_json && negotiate(&head.headers, &[Form::Json]).is_none() {
            return Err(Rejection::new(StatusCode::NOT_ACCEPTABLE, "the response is application/json; accept it"));
        }
        Ok(())
    }

    fn handle<'a>(&'a self, request: AdmittedRequest<'a>) -> BoxFuture<'a, Result<Response<ResponseBody>, Rejection>> {
        Box::pin(self.answer(request))
    }
}

fn out_of_bounds(error: &BoundsError) -> Rejection {
    let (status, why) = match error {
        BoundsError::Values => {
            (StatusCode::PAYLOAD_TOO_LARGE, "the arguments have more than 100000 values and names; send fewer")
        }
        BoundsError::Depth => {
            (StatusCode::BAD_REQUEST, "the arguments are nested deeper than 127 levels; send flatter ones")
        }
        BoundsError::ReservedName => (StatusCode::UNPROCESSABLE_ENTITY, RESERVED_NAME),
        BoundsError::Batch => (StatusCode::UNPROCESSABLE_ENTITY, "expected an object `{…}` as arguments"),
    };
    Rejection::new(status, why)
}

/// The place and the memory of a request.
struct RequestPermits {
    _guard: ResponseGuard,
    _memory: MemoryPermit,
}
