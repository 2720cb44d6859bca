//! The routes of the API. The attribute of each handler has its method, its path and its documentation.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request};
use axum::middleware::{self, Next};
use axum::routing;
use fumehood_core::telemetry;
use fumehood_core::trace_context::{self, TraceContext};
use http::header::HeaderValue;
use http::{Method, StatusCode};
use tracing::{Instrument as _, Span};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http_api::problem::{Problem, problem};
use crate::http_api::response::{self, Response};
use crate::http_api::state::{ApiState, Caller};
use crate::http_api::trace_headers::{TRACEPARENT, parse_context};
use crate::http_api::{approval_resource, calls, job_resource, openapi, session_resource, tools};

/// The schema that no route has of its own: any of them may be rejected.
#[derive(OpenApi)]
#[openapi(components(schemas(Problem<'static>)))]
struct Problems;

/// Returns the documented routes. They do not depend on the tools.
pub(crate) fn documented() -> OpenApiRouter<Arc<ApiState>> {
    OpenApiRouter::with_openapi(Problems::openapi())
        .routes(routes!(tools::list))
        .routes(routes!(tools::get))
        .routes(routes!(calls::create))
        .routes(routes!(calls::list))
        .routes(routes!(calls::get, calls::cancel))
        .routes(routes!(job_resource::list))
        .routes(routes!(job_resource::get, job_resource::remove))
        .routes(routes!(session_resource::list, session_resource::create))
        .routes(routes!(session_resource::get, session_resource::remove))
        .routes(routes!(session_resource::send))
        .routes(routes!(session_resource::resume))
        .routes(routes!(approval_resource::list_approvals))
        .routes(routes!(approval_resource::get_approval, approval_resource::answer_approval))
}

/// Creates the router of the API. Its requests were admitted, and have a [`Caller`] among their extensions.
pub(crate) fn router(shared: Arc<ApiState>) -> Router {
    let router: Router<_> = documented().into();
    router
        .route("/openapi.json", routing::get(openapi::get))
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(middleware::from_fn(trace))
        // The listener has read the body, within its own limit.
        .layer(DefaultBodyLimit::disable())
        .with_state(shared)
}

/// Returns the response to a request of a path that does not exist.
pub(crate) async fn unknown_path() -> Response {
    let detail = "unknown path; tools are at /v1/tools, calls at /v1/calls, and /openapi.json lists all paths";
    problem(StatusCode::NOT_FOUND, detail)
}

/// Returns the response to a method that a path does not have. The router adds `Allow`.
async fn unknown_method(method: Method) -> Response {
    if method == Method::OPTIONS {
        return response::empty(StatusCode::NO_CONTENT);
    }
    let detail = "this path does not support this method; `Allow` lists the supported methods";
    problem(StatusCode::METHOD_NOT_ALLOWED, detail)
}

/// Answers a request in a span of its own, which continues the trace of its client.
async fn trace(path: Option<MatchedPath>, caller: Caller, request: Request, next: Next) -> Response {
    let context = parse_context(request.headers());
    let context = context.map(|context| context.with_sampling_decision(caller.tenant.decides_sampling));
    let route = path.as_ref().map_or("other", MatchedPath::as_str);
    let span = telemetry::server_span(request.method().as_str(), route, context.as_ref());
    let mut response = next.run(request).instrument(span.clone()).await;
    telemetry::record_status(&span, response.status().as_u16());
    if let Some(parent) = context.and_then(|context| response_context(&span, context)) {
        response.headers_mut().insert(TRACEPARENT, parent);
    }
    response
}

/// Returns the `traceparent` of a response: the span of the request, or the client's own context if no spans are collected.
fn response_context(span: &Span, received: TraceContext) -> Option<HeaderValue> {
    let context = trace_context::context_of(span).unwrap_or(received);
    HeaderValue::from_str(context.traceparent()).ok()
}
