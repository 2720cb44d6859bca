//! The dashboard as a service of the listener: headers of every response, and what requests have to be.

use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::tool::ToolProvider;
use http::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::request::Parts;
use http::{HeaderMap, Method, Response, StatusCode, Uri};
use http_body_util::BodyExt as _;
use tokio_util::sync::CancellationToken;

use super::containment::Runs;
use super::login::Logins;
use super::options::DashboardOptions;
use super::routes;
use super::statistics::ServerStatistics;
use crate::body::{GuardedBody, ResponseBody};
use crate::{AdmittedRequest, CallSink, HttpService, Listener, Phase, Rejection, ResponseGuard, Tenant, TenantTools};

/// Name of the tenant of calls of the pages.
const TENANT: &str = "dashboard";

/// Nothing but our own files, and nobody may frame a page.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
     frame-ancestors 'none'; base-uri 'none'",
);
/// Headers of every response besides the policy. A referrer never leaves for another origin; without any, browsers would
/// send the Origin `null` with forms.
const HEADERS: [(HeaderName, &str); 5] = [
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "same-origin"),
    (X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The pages of an operator, at `/dashboard`.
///
/// It is meant for a listener of its own, at a loopback address without tokens: browsers cannot send any, so it has its
/// own login, and pages for programs without it are the login and the files that it needs.
pub struct Dashboard {
    shared: Arc<DashboardState>,
}

/// The state of all pages.
pub(crate) struct DashboardState {
    /// The tools of all tenants.
    pub(crate) served: TenantTools,
    /// The tools as the pages call them.
    pub(crate) tools: Arc<dyn ToolProvider>,
    pub(crate) statistics: Arc<ServerStatistics>,
    pub(crate) options: DashboardOptions,
    pub(crate) logins: Logins,
    pub(crate) runs: Arc<Runs>,
    /// Cancelled when open requests have to end.
    pub(crate) stopped: CancellationToken,
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard").field("options", &self.shared.options).finish_non_exhaustive()
    }
}

impl Dashboard {
    /// Creates the dashboard of these tools, for this listener. Calls of its pages are those of a tenant `dashboard`.
    #[must_use]
    pub fn new(served: TenantTools, options: DashboardOptions, listener: &Listener) -> Self {
        let statistics = Arc::new(ServerStatistics::default());
        served.running().subscribe(Arc::clone(&statistics) as Arc<dyn CallSink>);
        let tools = served.of(&Arc::new(Tenant::anyone(TENANT)));
        let logins = Logins::new(options.token.clone(), options.session_lifetime);
        let runs = Arc::new(Runs::new(options.containment.clone()));
        let stopped = listener.stopped();
        Self { shared: Arc::new(DashboardState { served, tools, statistics, options, logins, runs, stopped }) }
    }

    async fn answer(&self, request: AdmittedRequest<'_>) -> Result<Response<ResponseBody>, Rejection> {
        let context = request.context();
        context.enter(Phase::Response);
        let guard: ResponseGuard =
            if routes::is_stream(&request.head) { context.stream_guard() } else { context.acquire_slot().await? };
        let response = routes::respond(&self.shared, &request.head, &request.body).await;
        Ok(with_headers(response).map(|body| GuardedBody::new(body, guard).boxed_unsync()))
    }
}

impl HttpService for Dashboard {
    fn has_path(&self, path: &str) -> bool {
        path == "/" || path == "/dashboard" || path.starts_with("/dashboard/")
    }

    fn check(&self, head: &Parts) -> Result<(), Rejection> {
        match head.method {
            Method::GET | Method::HEAD => Ok(()),
            Method::POST => check_form(&head.headers),
            _ => Err(method_not_allowed(&head.uri)),
        }
    }

    fn handle<'a>(&'a self, request: AdmittedRequest<'a>) -> BoxFuture<'a, Result<Response<ResponseBody>, Rejection>> {
        Box::pin(self.answer(request))
    }
}

/// Creates the rejection of a method that no page and no form has.
fn method_not_allowed(uri: &Uri) -> Rejection {
    let why = "expected GET for pages and POST for forms";
    Rejection::method_not_allowed(routes::allow(uri.path()), why)
}

/// Checks that a form was sent by a page of the dashboard itself. The listener has checked the `Host`.
fn check_form(headers: &HeaderMap) -> Result<(), Rejection> {
    let origin = single_text(headers, &ORIGIN)
        .and_then(|origin| origin.strip_prefix("http://").or(origin.strip_prefix("https://")));
    let is_own =
        origin.zip(single_text(headers, &HOST)).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host));
    let site = headers.get("sec-fetch-site").is_none_or(|site| site == "same-origin");
    if !is_own || !site {
        let why = "forms are accepted only from pages of the dashboard; this request has another Origin";
        return Err(Rejection::new(StatusCode::FORBIDDEN, why));
    }
    let essence = single_text(headers, &CONTENT_TYPE).and_then(|value| value.split(';').next()).map(str::trim);
    if essence.is_none_or(|essence| !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")) {
        let why = "expected the Content-Type application/x-www-form-urlencoded";
        return Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Ok(())
}

/// Returns the text of a header that is sent once.
fn single_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok()
}

fn with_headers<B>(mut response: Response<B>) -> Response<B> {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
