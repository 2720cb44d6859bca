//! The metrics and the running calls over HTTP, behind the listener's admission.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_server::body::{GuardedBody, ResponseBody, response};
use fumehood_server::{AdmittedRequest, HttpService, Listener, Rejection, RunningCalls, Tenant, Tenants};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;

use crate::live::{LiveCall, LiveSnapshot, MAX_LISTED_CALLS};
use crate::metrics::Metrics;

/// Path of the metrics, in the text format of OpenMetrics.
pub const METRICS_PATH: &str = "/metrics";
/// Path of the running calls, in JSON: a [`LiveSnapshot`](crate::LiveSnapshot).
pub const LIVE_PATH: &str = "/v1/live";
/// Media type of OpenMetrics 1.0.
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A service with the metrics and the running calls.
pub struct MetricsService {
    metrics: Arc<Metrics>,
    running: RunningCalls,
    /// The actors that may read what is about all tenants.
    readers: BTreeSet<String>,
    /// The actor of tenants without one.
    actor: Option<Arc<str>>,
    tenants: Tenants,
}

impl fmt::Debug for MetricsService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsService").field("readers", &self.readers).finish_non_exhaustive()
    }
}

impl MetricsService {
    /// Creates the service for the tenants of this listener.
    ///
    /// Metrics and calls of all tenants are for the actors in `readers`. If it is empty, they are for the only tenant; of
    /// several, each sees its own calls, and none the metrics.
    #[must_use]
    pub fn new(
        metrics: Arc<Metrics>,
        running: RunningCalls,
        readers: BTreeSet<String>,
        actor: Option<Arc<str>>,
        listener: &Listener,
    ) -> Self {
        Self { metrics, running, readers, actor, tenants: listener.tenants() }
    }

    /// Returns the state of the calls of a tenant, or of all.
    fn snapshot(&self, only: Option<&str>) -> LiveSnapshot {
        let is_listed = |tenant: Option<&str>, _: Option<&str>| only.is_none() || only == tenant;
        let calls = self.running.list(MAX_LISTED_CALLS, is_listed);
        let (running, waiting) = match only {
            None => self.running.counts(),
            Some(tenant) => self.running.counts_of(tenant),
        };
        let outcomes = self.metrics.recent_outcomes(only);
        LiveSnapshot { calls: calls.into_iter().map(LiveCall::from).collect(), running, waiting, outcomes }
    }

    fn actor<'a>(&'a self, tenant: &'a Tenant) -> Option<&'a str> {
        tenant.actor.as_deref().or(self.actor.as_deref())
    }

    fn is_reader(&self, tenant: &Tenant) -> bool {
        if self.readers.is_empty() {
            // Tenants come and go while the server runs.
            self.tenants.all().len() <= 1
        } else {
            self.actor(tenant).is_some_and(|actor| self.readers.contains(actor))
        }
    }

    fn answer(&self, request: &AdmittedRequest<'_>) -> Result<Response<ResponseBody>, Rejection> {
        let is_reader = self.is_reader(&request.tenant);
        let found = match request.head.uri.path() {
            LIVE_PATH => {
                let snapshot = self.snapshot((!is_reader).then_some(&request.tenant.name));
                let body = serde_json::to_vec(&snapshot).unwrap_or_default();
                response(StatusCode::OK, "application/json", body)
            }
            _ if is_reader => response(StatusCode::OK, OPENMETRICS, self.metrics.to_text(&self.running)),
            _ => {
                let why =
                    "this token may not read the metrics; [telemetry] `metrics_readers` names the actors that may";
                return Err(Rejection::new(StatusCode::FORBIDDEN, why));
            }
        };
        // Without a place: a server whose places are all taken is what its operator wants to see.
        let guard = request.context().stream_guard();
        Ok(found.map(|body| GuardedBody::new(body, guard).boxed_unsync()))
    }
}

impl HttpService for MetricsService {
    fn has_path(&self, path: &str) -> bool {
        path == METRICS_PATH || path == LIVE_PATH
    }

    fn check(&self, head: &Parts) -> Result<(), Rejection> {
        match head.method {
            Method::GET | Method::HEAD => Ok(()),
            _ => Err(Rejection::method_not_allowed("GET, HEAD", "this resource is read-only; use GET")),
        }
    }

    fn handle<'a>(&'a self, request: AdmittedRequest<'a>) -> BoxFuture<'a, Result<Response<ResponseBody>, Rejection>> {
        Box::pin(std::future::ready(self.answer(&request)))
    }
}
