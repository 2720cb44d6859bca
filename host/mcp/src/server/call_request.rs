//! The requests that become calls: their arguments, the answers in them, their client and their span.

use fumehood_core::call::Arguments;
use fumehood_core::telemetry;
use fumehood_core::text::line::PrintableLine;
use fumehood_core::text::sanitize::{printable, truncate_str};
use fumehood_core::trace_context::TraceContext;
use fumehood_server::Jobs;
use rmcp::RoleServer;
use rmcp::model::{Extensions, Implementation, InputRequiredResult, InputResponses, JsonObject};
use rmcp::service::RequestContext;
use serde_json::Value;
use tracing::Span;

use super::running_call::RepeatedRequest;
use super::tools::catalogue::AnswerForm;
use crate::client::LibraryMethod;
use crate::transport::raw_arguments::RawArguments;

/// Maximum length of a client's name and version in records, in bytes.
const MAX_CLIENT_NAME_BYTES: usize = 128;

/// A call that is to be started.
pub(super) struct NewCall<'a> {
    /// The full name of its tool.
    pub(super) tool: &'a str,
    pub(super) arguments: Arguments,
    pub(super) form: AnswerForm,
    /// True if it stands for a request that is no call of a tool.
    pub(super) is_library_request: bool,
    /// The request that the client may send again with answers; `None` if it cannot.
    pub(super) repeated: Option<RepeatedRequest>,
    pub(super) jobs: Option<&'a Jobs>,
}

/// A request to the library of a server.
pub(super) struct LibraryCall {
    pub(super) method: LibraryMethod,
    pub(super) arguments: Value,
    /// The prompt or resource as the client wrote it; `None` if it cannot be asked for input.
    pub(super) name: Option<String>,
    pub(super) answers: Option<Answers>,
}

/// The answers of a client with which it sends a request again.
pub(super) struct Answers {
    pub(super) state: String,
    pub(super) responses: InputResponses,
}

impl Answers {
    /// Returns the answers in a request, if it has some. Without the state of a call, a request is a new one.
    pub(super) fn of(
        state: Option<String>,
        responses: Option<InputResponses>,
        context: &RequestContext<RoleServer>,
    ) -> Option<Self> {
        let state = state.filter(|_| is_stateless(context))?;
        Some(Self { state, responses: responses.unwrap_or_default() })
    }
}

/// The answer to a request that may ask its client for input.
pub(super) enum Answer<T> {
    Result(T),
    InputRequired(InputRequiredResult),
}

/// Returns whether the request is of a revision without a handshake.
pub(super) fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| !version.has_initialize())
}

/// Returns whether the client of a request can come back for the result of a call.
pub(super) fn has_tasks(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

/// Returns whether the client of a request answers questions of some kind.
pub(super) fn answers_questions(context: &RequestContext<RoleServer>) -> bool {
    let capabilities = context.client_capabilities();
    capabilities.is_some_and(|declared| declared.elicitation.is_some() || declared.sampling.is_some())
}

/// Creates the span of a call, as a child of the span that the client names in `_meta`. Its flags count if the client
/// `decides_sampling`.
pub(super) fn request_span(tool: &str, context: &RequestContext<RoleServer>, decides_sampling: bool) -> Span {
    let parent = context.meta.get_traceparent();
    let parent = parent.and_then(|parent| TraceContext::parse(parent, context.meta.get_tracestate()));
    let parent = parent.map(|parent| parent.with_sampling_decision(decides_sampling));
    let version = context.protocol_version();
    // The id is the client's own text, if it is no number.
    let id = printable(&context.id.to_string()).into_owned();
    let id = truncate_str(&id, MAX_CLIENT_NAME_BYTES);
    telemetry::mcp_server_span(tool, id, version.as_ref().map_or("", |version| version.as_str()), parent.as_ref())
}

/// Returns the name and version that a client claims, as `name/version`.
pub(super) fn client_name(client: &Implementation) -> String {
    let name = PrintableLine::from(&format!("{}/{}", client.name, client.version));
    truncate_str(&name, MAX_CLIENT_NAME_BYTES).to_owned()
}

/// Returns the arguments as the client wrote them, if the transport attached that text, and else as rmcp parsed them.
pub(super) fn call_arguments(extensions: &Extensions, read: Option<JsonObject>) -> Arguments {
    let over_http = || extensions.get::<http::request::Parts>()?.extensions.get::<RawArguments>();
    match extensions.get::<RawArguments>().or_else(over_http) {
        Some(RawArguments(text)) => Arguments::Text(text.clone()),
        None => Arguments::Value(Value::Object(read.unwrap_or_default())),
    }
}
