//! Spans and events of `tracing` at the seams of the host: loading, calls, host calls, requests and approvals.
//!
//! The target of all of them is `fumehood`. Without a subscriber they cost a comparison each. Names are those of
//! OpenTelemetry's semantic conventions for generative AI and for HTTP, which may still change; that is why they are all in
//! this file. No argument, result or header is part of a span, and names have been validated or made printable.
//!
//! | span or event | fields |
//! |---|---|
//! | `load_component` | `fumehood.component`, `fumehood.component.digest`, `error.type` |
//! | `execute_tool` | `gen_ai.operation.name`, `gen_ai.tool.name`, `gen_ai.tool.call.id`, `error.type`, `fumehood.fuel_used`, `fumehood.peak_memory_bytes` |
//! | `host_call` | `fumehood.host_call`, `error.type` |
//! | `http_request` | `http.request.method`, `server.address`, `http.response.status_code`, `error.type` |
//! | `approval` (event) | `fumehood.component`, or `gen_ai.tool.name` and `gen_ai.tool.call.id`, or `gen_ai.conversation.id`; `fumehood.approval` |
//! | `tool_call_refused` (event) | `gen_ai.tool.name`, `gen_ai.tool.call.id`, `error.type` |

use std::fmt::Display;

use tracing::Span;
use tracing::field::Empty;

use crate::call::result::CallResult;
use crate::digest::Digest;
use crate::text::sanitize::{printable, truncate_str};

/// Target of all spans and events, to filter by.
pub const TARGET: &str = "fumehood";
/// Maximum size of a name that nobody validated, in bytes.
const MAX_NAME_BYTES: usize = 160;

/// Creates the span of loading a component.
#[must_use]
pub fn load_span(component: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "load_component",
        fumehood.component = component,
        fumehood.component.digest = Empty,
        error.type = Empty,
    )
}

/// Records the digest of a component that was loaded.
pub fn record_digest(span: &Span, digest: &Digest) {
    if !span.is_disabled() {
        span.record("fumehood.component.digest", digest.to_string());
    }
}

/// Creates the span of a call that passed the gate.
#[must_use]
pub fn call_span(tool: &str, id: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "execute_tool",
        otel.name = %format_args!("execute_tool {tool}"),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        gen_ai.tool.call.id = id,
        error.type = Empty,
        fumehood.fuel_used = Empty,
        fumehood.peak_memory_bytes = Empty,
    )
}

/// Records the outcome and the cost of a call.
pub fn record_result(span: &Span, result: &CallResult) {
    if span.is_disabled() {
        return;
    }
    if let Err(error) = &result.outcome {
        record_error(span, error.kind.as_str());
    }
    span.record("fumehood.fuel_used", result.metadata.fuel_used);
    span.record("fumehood.peak_memory_bytes", result.metadata.peak_memory);
}

/// Records the error that ended the work of a span: a kind of a few words, not a message.
pub fn record_error(span: &Span, kind: &str) {
    span.record("error.type", kind);
}

/// Emits the event of a call that did not run.
pub fn emit_refused_call(tool: &str, id: &str, kind: &str) {
    // The name need not be one of a tool.
    let name = || truncate_str(&printable(tool), MAX_NAME_BYTES).to_owned();
    tracing::info!(
        target: TARGET,
        { gen_ai.tool.name = name(), gen_ai.tool.call.id = id, error.type = kind },
        "tool_call_refused"
    );
}

/// Creates the span of a host function that waits for something outside, such as `key-value.get`.
#[must_use]
pub fn host_call_span(function: &'static str) -> Span {
    tracing::debug_span!(target: TARGET, "host_call", fumehood.host_call = function, error.type = Empty)
}

/// Creates the span of a request of a tool. Secrets must have been redacted.
#[must_use]
pub fn request_span(method: &str, host: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "http_request",
        otel.name = method,
        otel.kind = "client",
        http.request.method = method,
        server.address = host,
        http.response.status_code = Empty,
        error.type = Empty,
    )
}

/// Records the status of a response.
pub fn record_status(span: &Span, status: u16) {
    span.record("http.response.status_code", status);
}

/// Emits the event of a comparison of a component with what an operator approved.
pub fn emit_approval(subject: &str, standing: impl Display) {
    tracing::info!(target: TARGET, { fumehood.component = subject, fumehood.approval = %standing }, "approval");
}

/// Emits the event of an approver's answer about one call.
pub fn emit_call_approval(tool: &str, id: &str, is_allowed: bool) {
    let answer = to_answer(is_allowed);
    tracing::info!(
        target: TARGET,
        { gen_ai.tool.name = tool, gen_ai.tool.call.id = id, fumehood.approval = answer },
        "approval"
    );
}

/// Emits the event of an approver's answer about more turns of a session.
pub fn emit_session_approval(session: &str, is_allowed: bool) {
    let answer = to_answer(is_allowed);
    tracing::info!(target: TARGET, { gen_ai.conversation.id = session, fumehood.approval = answer }, "approval");
}

fn to_answer(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "denied" }
}
