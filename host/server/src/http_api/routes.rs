//! The routes of the API: paths, each with its methods.

use std::sync::Arc;

use http::header::{ALLOW, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;
use tokio_util::bytes::Bytes;

use crate::http_api::problem::problem;
use crate::http_api::response::{self, Response};
use crate::http_api::state::{ApiState, Caller};
use crate::http_api::{approval_resource, calls, job_resource, openapi, session_resource, tools};

/// A path of the API, with the name or id in it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Route {
    Tools,
    Tool(String),
    CallsOf(String),
    Calls,
    Call(String),
    Jobs,
    Job(String),
    Sessions,
    Session(String),
    Messages(String),
    Resume(String),
    Approvals,
    Approval(String),
    Document,
}

impl Route {
    fn parse(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix('/')?.split('/');
        let found = match (parts.next()?, parts.next(), parts.next(), parts.next()) {
            ("openapi.json", None, None, None) => Self::Document,
            ("v1", Some("tools"), None, None) => Self::Tools,
            ("v1", Some("tools"), Some(name), None) => Self::Tool(decode(name)?),
            ("v1", Some("tools"), Some(name), Some("calls")) => Self::CallsOf(decode(name)?),
            ("v1", Some("calls"), None, None) => Self::Calls,
            ("v1", Some("calls"), Some(id), None) => Self::Call(decode(id)?),
            ("v1", Some("jobs"), None, None) => Self::Jobs,
            ("v1", Some("jobs"), Some(id), None) => Self::Job(decode(id)?),
            ("v1", Some("sessions"), None, None) => Self::Sessions,
            ("v1", Some("sessions"), Some(id), None) => Self::Session(decode(id)?),
            ("v1", Some("sessions"), Some(id), Some("messages")) => Self::Messages(decode(id)?),
            ("v1", Some("sessions"), Some(id), Some("resume")) => Self::Resume(decode(id)?),
            ("v1", Some("approvals"), None, None) => Self::Approvals,
            ("v1", Some("approvals"), Some(id), None) => Self::Approval(decode(id)?),
            _ => return None,
        };
        parts.next().is_none().then_some(found)
    }

    /// Returns the methods of the path (RFC 9110, section 10.2.1).
    fn allow(&self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::CallsOf(_) | Self::Messages(_) | Self::Resume(_) => "POST",
            Self::Call(_) | Self::Job(_) | Self::Session(_) => "GET,HEAD,DELETE",
            Self::Sessions | Self::Approval(_) => "GET,HEAD,POST",
            Self::Tools | Self::Tool(_) | Self::Calls | Self::Jobs | Self::Approvals | Self::Document => "GET,HEAD",
        })
    }
}

/// Returns the path of the OpenAPI document that a path belongs to, without the names and ids in it.
pub(crate) fn route(path: &str) -> &'static str {
    match Route::parse(path) {
        Some(Route::Tools) => "/v1/tools",
        Some(Route::Tool(_)) => "/v1/tools/{name}",
        Some(Route::CallsOf(_)) => "/v1/tools/{name}/calls",
        Some(Route::Calls) => "/v1/calls",
        Some(Route::Call(_)) => "/v1/calls/{id}",
        Some(Route::Jobs) => "/v1/jobs",
        Some(Route::Job(_)) => "/v1/jobs/{id}",
        Some(Route::Sessions) => "/v1/sessions",
        Some(Route::Session(_)) => "/v1/sessions/{id}",
        Some(Route::Messages(_)) => "/v1/sessions/{id}/messages",
        Some(Route::Resume(_)) => "/v1/sessions/{id}/resume",
        Some(Route::Approvals) => "/v1/approvals",
        Some(Route::Approval(_)) => "/v1/approvals/{id}",
        Some(Route::Document) => "/openapi.json",
        None => "other",
    }
}

/// Decodes a part of a path; `None` if it is empty or not UTF-8.
fn decode(part: &str) -> Option<String> {
    let decoded = percent_decode_str(part).decode_utf8().ok()?;
    (!decoded.is_empty()).then(|| decoded.into_owned())
}

/// Answers a request of a tenant. The body of the response to `HEAD` is left out by whoever sends it.
pub(crate) async fn respond(shared: &Arc<ApiState>, caller: &Caller, head: &Parts, body: Bytes) -> Response {
    let Some(route) = Route::parse(head.uri.path()) else {
        let detail = "unknown path; tools are at /v1/tools, calls at /v1/calls, and /openapi.json lists all paths";
        return problem(StatusCode::NOT_FOUND, detail);
    };
    let allow = route.allow();
    let is_post = head.method == Method::POST;
    let is_delete = head.method == Method::DELETE;
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    match route {
        Route::Tools if is_read => tools::list(caller),
        Route::Tool(name) if is_read => tools::get(caller, &name),
        Route::CallsOf(name) if is_post => {
            calls::create(Arc::clone(shared), caller.clone(), name, &head.headers, body).await
        }
        Route::Calls if is_read => calls::list(shared, caller, head.uri.query()).await,
        Route::Call(id) if is_read => calls::get(shared, caller, &id).await,
        Route::Call(id) if is_delete => calls::cancel(shared, caller, &id, head.uri.query()),
        Route::Jobs if is_read => job_resource::list(shared, caller, head.uri.query()).await,
        Route::Job(id) if is_read => job_resource::get(shared, caller, &id, &head.headers).await,
        Route::Job(id) if is_delete => job_resource::remove(shared, caller, &id).await,
        Route::Sessions if is_read => session_resource::list(shared, caller).await,
        Route::Sessions if is_post => session_resource::create(shared, caller, &head.headers, &body).await,
        Route::Session(id) if is_read => session_resource::get(shared, caller, &id).await,
        Route::Session(id) if is_delete => session_resource::remove(shared, caller, &id).await,
        Route::Messages(id) if is_post => session_resource::send(shared, caller, &id, &head.headers, &body).await,
        Route::Resume(id) if is_post => session_resource::resume(shared, caller, &id, &head.headers).await,
        Route::Approvals if is_read => approval_resource::list_approvals(shared, caller).await,
        Route::Approval(id) if is_read => approval_resource::get_approval(shared, caller, &id).await,
        Route::Approval(id) if is_post => {
            approval_resource::answer_approval(shared, caller, &id, &head.headers, &body).await
        }
        Route::Document if is_read => openapi::get(shared, caller),
        _ => {
            let detail = "this path does not support this method; `Allow` lists the supported methods";
            let mut response = if head.method == Method::OPTIONS {
                response::empty(StatusCode::NO_CONTENT)
            } else {
                problem(StatusCode::METHOD_NOT_ALLOWED, detail)
            };
            response.headers_mut().insert(ALLOW, allow);
            response
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_route(path: &str, expected: Option<Route>) {
        assert_eq!(Route::parse(path), expected, "{path}")
    }

    #[test]
    fn paths_are_matched_as_a_whole() {
        check_route("/v1/tools", Some(Route::Tools));
        check_route("/v1/tools/a__b", Some(Route::Tool("a__b".to_owned())));
        check_route("/v1/tools/a%5F_b/calls", Some(Route::CallsOf("a__b".to_owned())));
        check_route("/v1/calls/h-1", Some(Route::Call("h-1".to_owned())));
        check_route("/v1/jobs", Some(Route::Jobs));
        check_route("/v1/jobs/7", Some(Route::Job("7".to_owned())));
        check_route("/openapi.json", Some(Route::Document));
        for path in
            ["/", "", "v1/tools", "/v1", "/v1/tools/", "/v1/tools//calls", "/v1/tools/a/calls/", "/v1/tools/a/b"]
        {
            check_route(path, None);
        }
        check_route("/v1/tools/a/calls/b", None);
        check_route("/v1/jobs/7/result", None);
        check_route("/v1/tools/%ff", None);
    }
}
