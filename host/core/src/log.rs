//! Events of `tracing` for the people who operate a host: the lines of its log.
//!
//! An embedder prints them with a subscriber. The command `fumehood` prints them on standard error, or sends them to journald. Names
//! and fields of all of them are in this file, because operators search for them. No event has arguments, results, secrets or tokens.
//! Reasons and names may come from outside, so a subscriber that prints to a terminal escapes them: see
//! [`printable`](crate::text::sanitize::printable).
//!
//! Targets begin with `fumehood::`, so that a filter such as `fumehood::mcp=debug` selects one part. Spans for telemetry have the target
//! [`TELEMETRY`] instead.
//!
//! | name | level | fields |
//! |---|---|---|
//! | `component.loaded`, `component.reloaded` | info | `component`, `digest`, `tools`, `isolation`, `code`, `duration_ms` |
//! | `component.compiled` | debug | `component`, `duration_ms` |
//! | `component.unloaded` | info | `component` |
//! | `approval.needed` | warn | `component`, `standing` |
//! | `approval.waiting` | info | `session`, `approval`, `tool` |
//! | `worker.started`, `worker.restarted` | info | `component`, `pid` |
//! | `worker.died` | warn | `component`, `pid`, `reason` |
//! | `worker.not_started` | error | `component`, `reason` |
//! | `mcp.connected`, `mcp.reconnected` | info | `server`, `tools` |
//! | `mcp.lost` | warn | `server`, `reason` |
//! | `mcp.unavailable` | warn | `server`, `reason`, `retry_in_ms` |
//! | `mcp.list_changed` | info | `server`, `change` |
//! | `mcp.login_failed` | warn | `server`, `reason` |
//! | `http.token_missing` | info | `status`, `reason`, `method`, `path` |
//! | `http.refused` | warn | `status`, `reason`, `client`, `method`, `path` |
//! | `http.rate_limited` | warn | `status`, `reason`, `client`, `method`, `path`, `retry_in_ms` |
//! | `http.unavailable`, `http.failed` | warn, error | `status`, `reason`, `client`, `method`, `path` |
//! | `oauth.issuer_unavailable` | error | `issuer`, `reason` |
//! | `oauth.issuer_available` | info | `issuer` |
//! | `storage.failing`, `storage.slow` | error, warn | `store`, `reason` or `duration_ms` |
//! | `storage.recovered` | info | `store` |
//! | `model.retry` | warn | `provider`, `model`, `failures`, `reason`, `retry_in_ms` |
//! | `registry.retry` | warn | `host`, `failures`, `reason`, `retry_in_ms` |
//! | `cell.joined`, `cell.left` | info, warn | `worker`, and `places` or `reason` |
//! | `cell.connection` | info, and warn if it is lost | `state` |

use std::fmt::Display;
use std::time::Duration;

use crate::digest::Digest;

/// Target of spans and events for telemetry, which are no lines of a log.
pub const TELEMETRY: &str = crate::telemetry::TARGET;
/// Target of a service's start, configuration and end.
pub const SERVE: &str = "fumehood::serve";
/// Target of components that are loaded and unloaded.
pub const COMPONENT: &str = "fumehood::component";
/// Target of approvals that an operator has to give.
pub const APPROVAL: &str = "fumehood::approval";
/// Target of worker processes of isolated components.
pub const WORKER: &str = "fumehood::worker";
/// Target of connections to MCP servers.
pub const MCP: &str = "fumehood::mcp";
/// Target of requests of HTTP clients.
pub const HTTP: &str = "fumehood::http";
/// Target of the issuer of access tokens.
pub const OAUTH: &str = "fumehood::oauth";
/// Target of the event log and other stored data.
pub const STORAGE: &str = "fumehood::storage";
/// Target of requests to models.
pub const MODEL: &str = "fumehood::model";
/// Target of requests to registries.
pub const REGISTRY: &str = "fumehood::registry";
/// Target of gateways and workers of a cell.
pub const CELL: &str = "fumehood::cell";

/// A component whose tools can be called now.
#[derive(Debug, Clone, Copy)]
pub struct LoadedComponent<'a> {
    /// Its name.
    pub component: &'a str,
    /// Its digest.
    pub digest: &'a Digest,
    /// The number of its tools.
    pub tools: usize,
    /// Where its calls run, such as `process`.
    pub isolation: &'static str,
    /// The source of its compiled code, such as `cached`.
    pub code: &'static str,
    /// The time that loading took.
    pub duration: Duration,
    /// True if it replaced another version of itself.
    pub is_reload: bool,
}

impl LoadedComponent<'_> {
    /// Emits the event.
    pub fn emit(self) {
        let Self { component, digest, tools, isolation, code, duration, is_reload } = self;
        let duration_ms = millis(duration);
        if is_reload {
            tracing::info!(
                name: "component.reloaded", target: COMPONENT,
                { component, %digest, tools, isolation, code, duration_ms }, "reloaded a component"
            );
        } else {
            tracing::info!(
                name: "component.loaded", target: COMPONENT,
                { component, %digest, tools, isolation, code, duration_ms }, "loaded a component"
            );
        }
    }
}

/// Emits the event of compiled code, which was not in the cache.
pub fn emit_compiled(component: &str, duration: Duration) {
    tracing::debug!(
        name: "component.compiled", target: COMPONENT,
        { component, duration_ms = millis(duration) }, "compiled a component"
    );
}

/// Emits the event of a component whose tools can no longer be called.
pub fn emit_unloaded(component: &str) {
    tracing::info!(name: "component.unloaded", target: COMPONENT, { component }, "unloaded a component");
}

/// Emits the event of a loaded component whose calls are refused until an operator approves it.
pub fn emit_approval_needed(component: &str, standing: impl Display) {
    tracing::warn!(
        name: "approval.needed", target: APPROVAL,
        { component, %standing }, "a component needs approval"
    );
}

/// Emits the event of a session that waits until a person answers: about a call of `tool`, or about going on.
pub fn emit_approval_waiting(session: &str, approval: &str, tool: Option<&str>) {
    tracing::info!(
        name: "approval.waiting", target: APPROVAL,
        { session, approval, tool }, "a session is waiting for approval"
    );
}

/// Emits the event of a new worker process.
pub fn emit_worker_started(component: &str, pid: Option<u32>, is_restart: bool) {
    if is_restart {
        tracing::info!(name: "worker.restarted", target: WORKER, { component, pid }, "restarted a worker process");
    } else {
        tracing::info!(name: "worker.started", target: WORKER, { component, pid }, "started a worker process");
    }
}

/// Emits the event of a worker process that died or was killed.
pub fn emit_worker_died(component: &str, pid: Option<u32>, reason: impl Display) {
    tracing::warn!(name: "worker.died", target: WORKER, { component, pid, %reason }, "a worker process died");
}

/// Emits the event of a worker process that cannot be started.
pub fn emit_worker_not_started(component: &str, reason: impl Display) {
    tracing::error!(
        name: "worker.not_started", target: WORKER,
        { component, %reason }, "cannot start a worker process"
    );
}

/// Emits the event of a connection to an MCP server.
pub fn emit_server_connected(server: &str, tools: usize, is_reconnect: bool) {
    if is_reconnect {
        tracing::info!(name: "mcp.reconnected", target: MCP, { server, tools }, "reconnected to an MCP server");
    } else {
        tracing::info!(name: "mcp.connected", target: MCP, { server, tools }, "connected to an MCP server");
    }
}

/// Emits the event of a connection to an MCP server that ended by itself.
pub fn emit_server_lost(server: &str, reason: impl Display) {
    tracing::warn!(name: "mcp.lost", target: MCP, { server, %reason }, "lost an MCP server");
}

/// Emits the event of an MCP server that cannot be connected to.
pub fn emit_server_unavailable(server: &str, reason: impl Display, retry_in: Option<Duration>) {
    tracing::warn!(
        name: "mcp.unavailable", target: MCP,
        { server, %reason, retry_in_ms = retry_in.map(millis) }, "cannot connect to an MCP server"
    );
}

/// Emits the event of a changed list of an MCP server's tools.
pub fn emit_list_changed(server: &str, change: impl Display) {
    tracing::info!(
        name: "mcp.list_changed", target: MCP,
        { server, %change }, "the tools of an MCP server changed"
    );
}

/// Emits the event of a login to an MCP server that no longer works. `reason` has no token.
pub fn emit_login_failed(server: &str, reason: impl Display) {
    tracing::warn!(
        name: "mcp.login_failed", target: MCP,
        { server, %reason }, "cannot use the login to an MCP server"
    );
}

/// A request of an HTTP client that failed, without its headers, query and body.
#[derive(Debug, Clone, Copy)]
pub struct FailedRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The path.
    pub path: &'a str,
    /// The name of the client; empty if it is not known.
    pub client: &'a str,
    /// True if the client sent a token, right or wrong.
    pub has_credential: bool,
}

impl FailedRequest<'_> {
    /// Emits the event of its response: refused, limited, or failed in the server.
    pub fn emit(self, status: u16, reason: Option<&str>, retry_in: Option<Duration>) {
        let Self { method, path, client, has_credential } = self;
        let client = Some(client).filter(|client| !client.is_empty());
        match status {
            // Clients ask without a token first, to learn where they get one.
            401 if !has_credential => tracing::info!(
                name: "http.token_missing", target: HTTP,
                { status, reason, method, path }, "a client sent no token"
            ),
            401 | 403 => tracing::warn!(
                name: "http.refused", target: HTTP,
                { status, reason, client, method, path }, "refused a request"
            ),
            429 => tracing::warn!(
                name: "http.rate_limited", target: HTTP,
                { status, reason, client, method, path, retry_in_ms = retry_in.map(millis) }, "limited a client"
            ),
            503 => tracing::warn!(
                name: "http.unavailable", target: HTTP,
                { status, reason, client, method, path }, "cannot serve a request now"
            ),
            _ => tracing::error!(
                name: "http.failed", target: HTTP,
                { status, reason, client, method, path }, "a request failed"
            ),
        }
    }
}

/// Emits the event of an issuer whose keys cannot be fetched, so that its access tokens cannot be verified.
pub fn emit_issuer_unavailable(issuer: &str, reason: impl Display) {
    tracing::error!(
        name: "oauth.issuer_unavailable", target: OAUTH,
        { issuer, %reason }, "cannot fetch the keys of the issuer of access tokens"
    );
}

/// Emits the event of an issuer whose keys can be fetched again.
pub fn emit_issuer_available(issuer: &str) {
    tracing::info!(
        name: "oauth.issuer_available", target: OAUTH,
        { issuer }, "the keys of the issuer of access tokens can be fetched again"
    );
}

/// Emits the event of a store that cannot write. What was to be written is retried.
pub fn emit_storage_failing(store: &str, reason: impl Display) {
    tracing::error!(name: "storage.failing", target: STORAGE, { store, %reason }, "cannot write to a store");
}

/// Emits the event of a store that writes again after it failed.
pub fn emit_storage_recovered(store: &str) {
    tracing::info!(name: "storage.recovered", target: STORAGE, { store }, "a store works again");
}

/// Emits the event of a store that took long to write.
pub fn emit_storage_slow(store: &str, duration: Duration) {
    tracing::warn!(
        name: "storage.slow", target: STORAGE,
        { store, duration_ms = millis(duration) }, "a store is slow"
    );
}

/// A request that is sent again because it failed.
#[derive(Debug)]
pub struct RetriedRequest<R> {
    /// The number of times that it failed.
    pub failures: u32,
    /// The reason of the last failure.
    pub reason: R,
    /// The time until it is sent again.
    pub retry_in: Duration,
}

impl<R: Display> RetriedRequest<R> {
    /// Emits the event of a request to a model.
    pub fn emit_model(self, provider: &str, model: &str) {
        let Self { failures, reason, retry_in } = self;
        tracing::warn!(
            name: "model.retry", target: MODEL,
            { provider, model, failures, %reason, retry_in_ms = millis(retry_in) }, "retrying a request to a model"
        );
    }

    /// Emits the event of a request to a registry.
    pub fn emit_registry(self, host: &str) {
        let Self { failures, reason, retry_in } = self;
        tracing::warn!(
            name: "registry.retry", target: REGISTRY,
            { host, failures, %reason, retry_in_ms = millis(retry_in) }, "retrying a request to a registry"
        );
    }
}

/// Emits the event of a worker of a cell that takes calls from now on.
pub fn emit_cell_joined(worker: &str, places: u32) {
    tracing::info!(name: "cell.joined", target: CELL, { worker, places }, "a worker joined the cell");
}

/// Emits the event of a worker of a cell that takes no more calls.
pub fn emit_cell_left(worker: &str, reason: &str) {
    tracing::warn!(name: "cell.left", target: CELL, { worker, reason }, "a worker left the cell");
}

/// Emits the event of a change of the connection to the servers of a cell.
pub fn emit_cell_connection(state: impl Display, is_fault: bool) {
    if is_fault {
        tracing::warn!(name: "cell.connection", target: CELL, { %state }, "the connection to NATS has a fault");
    } else {
        tracing::info!(name: "cell.connection", target: CELL, { %state }, "the connection to NATS changed");
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
