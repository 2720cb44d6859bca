//! Spans and events of `tracing` at the seams of the host: loading, calls, host calls, requests and approvals.
//!
//! The target of all of them is `fumehood`. Without a subscriber they cost a comparison each. Names are those of
//! OpenTelemetry's semantic conventions for generative AI and for HTTP, which may still change; that is why they are all in
//! this file. No header is part of a span, arguments and results only if an operator asks for them, and names have been
//! validated or made printable.
//!
//! | span or event | fields |
//! |---|---|
//! | `POST /v1/tools/{name}/calls` | `http.request.method`, `http.route`, `http.response.status_code`, `error.type` |
//! | `tools/call` (server and client) | `mcp.method.name`, `mcp.protocol.version`, `jsonrpc.request.id`, `gen_ai.tool.name`, `error.type` |
//! | `invoke_agent` | `gen_ai.operation.name`, `gen_ai.conversation.id` |
//! | `chat` | `gen_ai.operation.name`, `gen_ai.provider.name`, `gen_ai.request.model`, `gen_ai.usage.*_tokens`, `error.type` |
//! | `load_component` | `fumehood.component`, `fumehood.component.digest`, `error.type` |
//! | `execute_tool` | `gen_ai.operation.name`, `gen_ai.tool.name`, `gen_ai.tool.call.id`, `error.type`, `fumehood.fuel_used`, `fumehood.peak_memory_bytes`, `fumehood.worker`, and if asked for `gen_ai.tool.call.arguments`, `gen_ai.tool.call.result` |
//! | `host_call` | `fumehood.host_call`, `error.type` |
//! | `http_request` | `http.request.method`, `server.address`, `http.response.status_code`, `error.type` |
//! | `approval` (event) | `fumehood.component`, or `gen_ai.tool.name` and `gen_ai.tool.call.id`, or `gen_ai.conversation.id`; `fumehood.approval` |
//! | `arguments_repaired` (event) | `gen_ai.tool.name`, `fumehood.repair` |
//! | `tool_call_refused` (event) | `gen_ai.tool.name`, `gen_ai.tool.call.id`, `error.type` |

use std::fmt::Display;

use serde_json::Value;
use tracing::Span;
use tracing::field::Empty;

use crate::call::result::CallResult;
use crate::digest::Digest;
use crate::persistence::Persistence;
use crate::text::sanitize::{printable, truncate_str};
use crate::tool::ValidatedCall;
use crate::trace_context::{self, TraceContext};

/// Target of all spans and events, to filter by.
pub const TARGET: &str = "fumehood";
/// Maximum size of a name that nobody validated, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Maximum size of arguments, and of a result, in a span, in bytes.
const MAX_CONTENT_BYTES: usize = 8192;

/// Name of the span of a call.
pub const EXECUTE_TOOL: &str = "execute_tool";
/// Name of the span of a host function.
pub const HOST_CALL: &str = "host_call";
/// Name of the span of a request to a model.
pub const CHAT: &str = "chat";
/// Name of the span of a tool's HTTP request.
pub const HTTP_REQUEST: &str = "http_request";
/// Field with the kind of a repair, from a closed set.
pub const REPAIR_FIELD: &str = "fumehood.repair";
/// Field with the name of a host function, from a closed set.
pub const HOST_CALL_FIELD: &str = "fumehood.host_call";
/// Field with the kind of a model's provider, from a closed set.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// Metric of the duration of calls, in seconds.
pub const CALL_DURATION_METRIC: &str = "gen_ai.execute_tool.duration";
/// Metric of the wait of calls for a place, in seconds.
pub const CALL_QUEUE_METRIC: &str = "fumehood.execute_tool.queue_duration";
/// Metric of the fuel of calls.
pub const FUEL_METRIC: &str = "fumehood.fuel";
/// Metric of the peak memory of calls, in bytes.
pub const PEAK_MEMORY_METRIC: &str = "fumehood.memory.peak";
/// Metric of the duration of host functions that wait for something, in seconds.
pub const HOST_CALL_METRIC: &str = "fumehood.host_call.duration";
/// Metric of the duration of HTTP requests of tools, in seconds. That of the conventions requires the host as an attribute, and
/// tools may name any number of hosts.
pub const HTTP_REQUEST_METRIC: &str = "fumehood.http_request.duration";
/// Metric of the duration of requests to models, in seconds.
pub const MODEL_REQUEST_METRIC: &str = "gen_ai.client.operation.duration";
/// Attribute with the operation of a model or a tool.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// Attribute with the full name of a tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// Attribute with the kind of a failure.
pub const ERROR_TYPE: &str = "error.type";

/// Creates the span of a request to a server, as a child of the client's span.
#[must_use]
pub fn server_span(method: &str, route: &str, parent: Option<&TraceContext>) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "server_request",
        otel.name = %format_args!("{method} {route}"),
        otel.kind = "server",
        otel.status_code = Empty,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
        error.type = Empty,
    );
    trace_context::set_parent(&span, parent);
    span
}

/// Creates the span of a `tools/call` that an MCP client requested, as a child of its span. The tool is a known one.
#[must_use]
pub fn mcp_server_span(tool: &str, request: &str, version: &str, parent: Option<&TraceContext>) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "mcp_server",
        otel.name = %format_args!("tools/call {tool}"),
        otel.kind = "server",
        otel.status_code = Empty,
        mcp.method.name = "tools/call",
        mcp.protocol.version = version,
        jsonrpc.request.id = request,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        error.type = Empty,
    );
    trace_context::set_parent(&span, parent);
    span
}

/// Creates the span of a `tools/call` to an MCP server of the operator.
#[must_use]
pub fn mcp_client_span(tool: &str, id: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "mcp_client",
        otel.name = %format_args!("tools/call {tool}"),
        otel.kind = "client",
        otel.status_code = Empty,
        mcp.method.name = "tools/call",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        gen_ai.tool.call.id = id,
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        error.type = Empty,
    )
}

/// Creates the span of a call at a worker of a cell, below the span of its gateway.
#[must_use]
pub fn cell_span(tool: &str, id: &str, parent: &TraceContext) -> Span {
    let span = tracing::info_span!(
        target: TARGET,
        "cell_call",
        otel.name = %format_args!("cell_call {tool}"),
        otel.kind = "server",
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = tool,
        gen_ai.tool.call.id = id,
    );
    trace_context::set_parent(&span, Some(parent));
    span
}

/// Creates the span of a run of an agent. Neither its task nor its answer are part of it.
#[must_use]
pub fn agent_span(session: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "invoke_agent",
        gen_ai.operation.name = "invoke_agent",
        gen_ai.conversation.id = session,
    )
}

/// Creates the span of a request to a model. Neither messages nor answers are part of it.
#[must_use]
pub fn chat_span(provider: &str, model: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "chat",
        otel.name = %format_args!("chat {model}"),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = provider,
        gen_ai.request.model = model,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        error.type = Empty,
    )
}

/// Records the tokens of an answer of a model.
pub fn record_tokens(span: &Span, input: u64, output: u64) {
    record_number(span, "gen_ai.usage.input_tokens", input);
    record_number(span, "gen_ai.usage.output_tokens", output);
}

/// Creates the span of loading a component.
#[must_use]
pub fn load_span(component: &str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "load_component",
        fumehood.component = component,
        fumehood.component.digest = Empty,
        otel.status_code = Empty,
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
        gen_ai.tool.call.arguments = Empty,
        gen_ai.tool.call.result = Empty,
        otel.status_code = Empty,
        error.type = Empty,
        fumehood.fuel_used = Empty,
        fumehood.peak_memory_bytes = Empty,
        fumehood.worker = Empty,
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
    record_number(span, "fumehood.fuel_used", result.metadata.fuel_used);
    record_number(span, "fumehood.peak_memory_bytes", result.metadata.peak_memory);
    if let Some(worker) = &result.metadata.worker {
        span.record("fumehood.worker", &**worker);
    }
}

/// The arguments and the result of a call in its span, as far as the operator wants them there.
#[derive(Debug)]
pub struct CallContent {
    persistence: Persistence,
    call: ValidatedCall,
}

impl CallContent {
    /// Records the arguments of a call. Returns `None` if spans have nothing of the tool's calls.
    #[must_use]
    pub fn record_arguments(span: &Span, call: &ValidatedCall) -> Option<Self> {
        if span.is_disabled() {
            return None;
        }
        let persistence = trace_context::persistence(call.tool().full_name());
        let arguments = persistence.arguments(call.arguments())?;
        span.record("gen_ai.tool.call.arguments", to_content(&arguments));
        Some(Self { persistence, call: call.clone() })
    }

    /// Records the result.
    pub fn record_result(&self, span: &Span, result: &CallResult) {
        if let Some(recorded) = self.persistence.result(self.call.arguments(), result, result) {
            span.record("gen_ai.tool.call.result", to_content(&recorded));
        }
    }
}

/// Returns JSON text as a span has it.
fn to_content(value: &Value) -> String {
    let text = value.to_string();
    truncate_str(&printable(&text), MAX_CONTENT_BYTES).to_owned()
}

/// Records the error that ended the work of a span: a kind of a few words, not a message.
pub fn record_error(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

/// Emits the event of a call that did not run.
pub fn emit_refused_call(tool: &str, id: &str, kind: &str) {
    // The name need not be one of a tool.
    tracing::info!(
        target: TARGET,
        {
            gen_ai.tool.name = truncate_str(&printable(tool), MAX_NAME_BYTES).to_owned(),
            gen_ai.tool.call.id = id,
            error.type = kind
        },
        "tool_call_refused"
    );
}

/// Emits an event for each repair of the arguments of a call.
pub fn emit_repairs(call: &ValidatedCall) {
    for repair in call.repairs() {
        let tool = call.tool().full_name();
        let kind = repair.kind.as_str();
        tracing::info!(target: TARGET, { gen_ai.tool.name = tool, fumehood.repair = kind }, "arguments_repaired");
    }
}

/// Creates the span of a host function that waits for something outside, such as `key-value.get`.
#[must_use]
pub fn host_call_span(function: &'static str) -> Span {
    tracing::debug_span!(target: TARGET, "host_call", fumehood.host_call = function, otel.status_code = Empty, error.type = Empty)
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
        otel.status_code = Empty,
        http.response.status_code = Empty,
        error.type = Empty,
    )
}

/// Records the status of a response.
pub fn record_status(span: &Span, status: u16) {
    record_number(span, "http.response.status_code", status);
}

/// Records a number as the signed one that attributes of OpenTelemetry are: unsigned ones are exported as text.
fn record_number(span: &Span, field: &str, number: impl TryInto<i64>) {
    span.record(field, number.try_into().unwrap_or(i64::MAX));
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
