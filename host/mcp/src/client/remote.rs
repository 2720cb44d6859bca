//! A server as a set of tools, which are connected to on demand, listed, pinned and called.

use std::fmt;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{CallContext, Observer};
use fumehood_core::telemetry::{self, CallContent};
use fumehood_core::tool::ValidatedCall;
use fumehood_core::tool::name::Namespace;
use fumehood_core::trace_context;
use rmcp::model::{CallToolRequestParams, CallToolResponse, RequestMetaObject, ServerResult};
use rmcp::service::ServiceError;
use serde_json::Value;
use tokio::sync::Mutex;
use tracing::Instrument as _;

use super::backoff::Backoff;
use super::call_client::CallClient;
use super::call_clock::{CallClock, Exceeded};
use super::call_error::{self, MAX_QUOTED_CHARS};
use super::call_tool_result;
use super::connect_error::{ConnectError, challenge_of};
use super::connection::{ConnectOptions, Connection};
use super::endpoint::{Credentials, Endpoint};
use super::lenient;
use super::library::{self, LibraryMethod, LibraryState, RemoteLibrary};
use super::progress::RedactingObserver;
use super::remote_options::RemoteOptions;
use super::remote_tool::{RemoteTool, SchemaLimits};
use super::server_requests::ServerRequests;
use super::tool_notice::ToolNotice;
use super::tool_pins::{ToolList, ToolPins};

/// Maximum number of times that a call goes on after the server got answers of its client.
const MAX_INPUT_ROUNDS: usize = 10;
/// Size of a message besides the result, in bytes.
const MAX_ENVELOPE_BYTES: usize = 64 << 10;

/// A server and its tools. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    name: Namespace,
    endpoint: Endpoint,
    options: RemoteOptions,
    state: Mutex<ConnectionState>,
    pins: Lock<ToolPins>,
    library: LibraryState,
    requests: Arc<ServerRequests>,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<Connection>>,
    backoff: Backoff,
}

/// Returns `_meta` with the context of the current span, if there is one to pass on.
fn outgoing_meta() -> Option<RequestMetaObject> {
    let context = trace_context::outgoing()?;
    let mut meta = RequestMetaObject::new();
    meta.set_traceparent(context.traceparent());
    context.tracestate().into_iter().for_each(|state| meta.set_tracestate(state));
    Some(meta)
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("name", &self.0.name).finish_non_exhaustive()
    }
}

impl Remote {
    /// Creates a server with this name. Nothing is started or connected to yet.
    #[must_use]
    pub fn new(name: Namespace, endpoint: Endpoint, options: RemoteOptions) -> Self {
        let pins = options.pins.iter().map(|(name, digest)| (Arc::from(name.as_str()), *digest)).collect();
        let pins = Lock::new(ToolPins::new(pins));
        let requests = ServerRequests::new(name.clone(), options.client_requests, options.redactor.clone());
        let state = Mutex::default();
        let library = LibraryState::default();
        Self(Arc::new(Inner { name, endpoint, options, state, pins, library, requests }))
    }

    /// Returns its resources and prompts.
    #[must_use]
    pub fn library(&self) -> RemoteLibrary {
        RemoteLibrary(self.clone())
    }

    pub(super) fn library_state(&self) -> &LibraryState {
        &self.0.library
    }

    pub(super) fn options(&self) -> &RemoteOptions {
        &self.0.options
    }

    /// Returns the name of the server in this host.
    #[must_use]
    pub fn name(&self) -> &Namespace {
        &self.0.name
    }

    /// Returns its tools, sorted by their names, and connects if necessary. Quarantined tools are left out.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn tools(&self) -> Result<Vec<RemoteTool>, ConnectError> {
        self.connection().await?;
        Ok(self.pins().tools())
    }

    /// Returns the tools of the server that cannot be used, each with the reason: an unacceptable name or description,
    /// or a difference from what was pinned.
    #[must_use]
    pub fn rejected_tools(&self) -> Vec<ToolNotice> {
        self.pins().rejected()
    }

    /// Returns the parts of its tools' schemas that are not checked here, such as patterns with look-around. The server
    /// checks its arguments itself.
    #[must_use]
    pub fn unchecked_schemas(&self) -> Vec<ToolNotice> {
        self.pins().unchecked()
    }

    /// Returns the deadline of its calls.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.0.options.deadline
    }

    /// Runs a call of one of its tools within its time, and within the deadline of the context if it has one. Every failure
    /// of the call or of the server fails this call only.
    pub async fn call(&self, call: ValidatedCall, context: CallContext) -> CallResult {
        let started = Instant::now();
        let CallContext { id, limits, observer, cancelled, client_requests, .. } = context;
        let (tool, options) = (Arc::clone(call.tool()), &self.0.options);
        let at_most = |time: Duration| limits.map_or(time, |limits| limits.deadline.min(time));
        let deadline = at_most(options.deadline);
        observer.iter().for_each(|observer| observer.admitted(deadline));
        let clock = CallClock::start(deadline, at_most(options.max_time));
        let observer = observer.map(|observer| self.redact_progress(observer));
        let client = CallClient::new(&clock, observer, client_requests);
        let span = telemetry::mcp_client_span(tool.full_name(), &id);
        let content = CallContent::record_arguments(&span, &call);
        let attempt = clock.limit(self.attempt(call, client).instrument(span.clone()));
        let ended = match cancelled {
            Some(cancelled) => cancelled.run_until_cancelled(attempt).await,
            None => Some(attempt.await),
        };
        let mut outcome = match ended {
            Some(Ok(outcome)) => outcome,
            Some(Err(exceeded)) => Err(self.deadline_error(&clock, exceeded)),
            None => Err(CallError::cancelled()),
        };
        if let Some(redactor) = &options.redactor {
            match &mut outcome {
                Ok(parts) => parts.iter_mut().for_each(|part| redactor.redact_content(part)),
                Err(error) => redactor.redact_error(error),
            }
        }
        if let Err(error) = &outcome {
            telemetry::record_error(&span, error.kind.as_str());
        }
        let cost = Metadata { duration: started.elapsed(), deadline, ..Metadata::default() };
        let metadata = cost.with_outcome(&outcome);
        let result = CallResult { id, tool: tool.full_name().to_owned(), outcome, metadata };
        if let Some(content) = content {
            content.record_result(&span, &result);
        }
        result
    }

    /// Wraps an observer so that secrets are redacted from messages.
    fn redact_progress(&self, observer: Arc<dyn Observer>) -> Arc<dyn Observer> {
        match self.0.options.redactor.clone() {
            Some(redactor) => Arc::new(RedactingObserver { redactor, observer }),
            None => observer,
        }
    }

    async fn attempt(&self, call: ValidatedCall, client: CallClient) -> Result<Vec<Content>, CallError> {
        let connection =
            self.connection().await.map_err(|error| call_error::from_connect_error(&self.0.name, &error))?;
        if let Some(method) = LibraryMethod::of(call.tool()) {
            return self.attempt_library(&connection, method, call.into_arguments(), client).await;
        }
        let RemoteTool { foreign, tool, .. } = self.pins().callable(&self.0.name, call.tool())?;
        let mut request = CallToolRequestParams::new(foreign.to_string());
        if let Value::Object(arguments) = call.into_arguments() {
            request = request.with_arguments(arguments);
        }
        request.meta = outgoing_meta();
        for _ in 0..MAX_INPUT_ROUNDS {
            match connection.call(request.clone(), &client).await {
                Ok(CallToolResponse::Complete(answer)) => {
                    let parts = call_tool_result::into_content(answer, self.0.options.output)?;
                    return call_tool_result::check_output(tool, parts).await;
                }
                Ok(CallToolResponse::InputRequired(needed)) => {
                    let answered = self.0.requests.answer_inputs(needed, &client).await;
                    let (answers, state) = answered.map_err(call_error::from_refused_input)?;
                    (request.input_responses, request.request_state) = (Some(answers), state);
                }
                Ok(_) => {
                    return Err(call_error::from_refused_input("the tool began a task, which is not followed".into()));
                }
                Err(error) => return Err(self.service_error(&connection, error)),
            }
        }
        Err(call_error::from_refused_input(format!("the tool asked its user more than {MAX_INPUT_ROUNDS} times")))
    }

    /// Sends a request to the library of the server.
    async fn attempt_library(
        &self,
        connection: &Connection,
        method: LibraryMethod,
        mut params: Value,
        client: CallClient,
    ) -> Result<Vec<Content>, CallError> {
        let library = self.library();
        for _ in 0..MAX_INPUT_ROUNDS {
            let request = library.request(method, &params).map_err(call_error::from_refused_input)?;
            let answer = connection.request(request, &client).await;
            match answer.map_err(|error| self.service_error(connection, error))? {
                ServerResult::InputRequiredResult(needed) => {
                    let answered = self.0.requests.answer_inputs(needed, &client).await;
                    let (answers, state) = answered.map_err(call_error::from_refused_input)?;
                    if let Value::Object(params) = &mut params {
                        params.insert("inputResponses".to_owned(), serde_json::to_value(answers).unwrap_or_default());
                        params.insert("requestState".to_owned(), state.into());
                    }
                }
                answer => {
                    let result = library.normalize(method, &params, library::result_value(answer));
                    let result = result.ok_or_else(|| {
                        call_error::unreadable(&self.0.name, &format!("it is no result of {}", method.name()))
                    })?;
                    return call_tool_result::into_json(&result, self.0.options.output);
                }
            }
        }
        Err(call_error::from_refused_input(format!("the server asked its user more than {MAX_INPUT_ROUNDS} times")))
    }

    fn deadline_error(&self, clock: &CallClock, exceeded: Exceeded) -> CallError {
        let (time, setting) = match exceeded {
            Exceeded::Deadline => (clock.deadline, "its `timeout`"),
            Exceeded::MaxTime => (clock.max_time, "its `max_timeout`, although it reported progress"),
        };
        let mut why = format!("the server `{}` did not answer within {} ms, {setting}", self.0.name, time.as_millis());
        // A task that connects holds the lock, and then there is no connection to report on.
        let unmatched = self.0.state.try_lock().ok();
        let unmatched =
            unmatched.and_then(|state| Some(state.connection.as_ref()?.tracker().unmatched_answers())).unwrap_or(0);
        if unmatched > 0 {
            why.push_str(&format!("; it sent {unmatched} answers to questions that nobody asked"));
        }
        CallError::new(ErrorKind::Deadline, why).with_hint("ask for less at once; the call may have had its effect")
    }

    /// Creates the error of a call that the server refused, or that ended with the connection.
    fn service_error(&self, connection: &Connection, error: ServiceError) -> CallError {
        let name = &self.0.name;
        if let ServiceError::TransportSend(error) = &error
            && let Some(challenge) = challenge_of(error)
        {
            return call_error::from_challenge(name, &challenge, self.login_hint());
        }
        match error {
            ServiceError::McpError(error) if lenient::is_unreadable(&error) => {
                call_error::unreadable(name, &error.message)
            }
            ServiceError::UnexpectedResponse => call_error::unreadable(name, "it is no result of a tool"),
            ServiceError::McpError(error) if !connection.is_closed() => {
                let message: String = error.message.chars().take(MAX_QUOTED_CHARS).collect();
                CallError::new(ErrorKind::ToolFailed, format!("the server `{name}` refused the call: {message}"))
            }
            _ if connection.has_overflowed() => {
                let max = self.0.options.output;
                let why = format!(
                    "the server `{name}` sent a message far over {max} bytes, or much that is none, and was cut off"
                );
                CallError::new(ErrorKind::OutputTooLarge, why).with_hint("ask for less at once")
            }
            _ if connection.tracker().is_flooded() => {
                let max = self.0.options.unasked;
                let why = format!("the server `{name}` sent more than {max} messages that nobody asked for");
                CallError::new(ErrorKind::OutputTooLarge, format!("{why} and was cut off"))
            }
            error => {
                let stderr: String = connection.stderr_tail().chars().take(MAX_QUOTED_CHARS).collect();
                let suffix = if stderr.is_empty() { String::new() } else { format!("; it said: {stderr}") };
                call_error::from_broken_connection(name, &error, &suffix)
            }
        }
    }

    /// Returns the way to log in at this server; `None` without OAuth.
    fn login_hint(&self) -> Option<&str> {
        match &self.0.endpoint {
            Endpoint::Http { credentials: Credentials::OAuth(options), .. } => Some(&options.hint),
            _ => None,
        }
    }

    /// Returns the connection, and makes a new one if none works. Tools are listed, and compared with their pins, on
    /// every new connection and whenever the server reports that they have changed.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, ConnectError> {
        let mut state = self.0.state.lock().await;
        if let Some(closed) = state.connection.take_if(|connection| connection.is_closed()) {
            // A server that ended while it was idle is started at once: some end after each answer.
            if closed.has_lost_call() {
                state.backoff.record_failure(Instant::now());
            } else {
                state.backoff.reset();
            }
        }
        let patience = self.0.options.patience;
        let connected = match &state.connection {
            Some(connection) if !connection.tracker().take_changed() => return Ok(Arc::clone(connection)),
            Some(connection) => {
                let connection = Arc::clone(connection);
                tokio::time::timeout(patience, async { self.refresh_tools(&connection).await.map(|()| connection) })
                    .await
            }
            None => {
                if let Some(wait) = state.backoff.remaining(Instant::now()) {
                    return Err(ConnectError::TooEarly(wait));
                }
                tokio::time::timeout(patience, self.connect()).await
            }
        };
        match connected.unwrap_or(Err(ConnectError::Late(patience))) {
            Ok(connection) => {
                state.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                state.connection = None;
                state.backoff.record_failure(Instant::now());
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Connection>, ConnectError> {
        let RemoteOptions { output, unasked, headers, .. } = &self.0.options;
        // Base64 takes four bytes for three, and escapes can double a text.
        let max_message_bytes = output.saturating_mul(2).saturating_add(MAX_ENVELOPE_BYTES).max(1 << 20);
        let connect_options = ConnectOptions {
            max_message_bytes,
            max_unsolicited: *unasked,
            headers: headers.clone(),
            requests: Arc::clone(&self.0.requests),
            events: Arc::clone(&self.0.library.events),
        };
        let connection = Arc::new(Connection::open(&self.0.endpoint, &connect_options).await?);
        self.refresh_tools(&connection).await?;
        self.0.library.renew_subscriptions(&connection);
        Ok(connection)
    }

    async fn refresh_tools(&self, connection: &Connection) -> Result<(), ConnectError> {
        let page = connection.list().await?;
        let this = self.clone();
        let parse = move || {
            let RemoteOptions { only, output, string, gate, result_form, .. } = &this.0.options;
            let limits = SchemaLimits::new(gate.clone().with_string_bytes(*string), *output);
            let limits = SchemaLimits { result_form: *result_form, ..limits };
            ToolList::new(&this.0.name, page, only.as_ref(), &limits)
        };
        // Schemas of servers may take long to compile.
        let listed = tokio::task::spawn_blocking(parse).await.map_err(|error| ConnectError::List(Box::new(error)))?;
        self.pins().update(listed);
        Ok(())
    }

    fn pins(&self) -> std::sync::MutexGuard<'_, ToolPins> {
        self.0.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection, and ends the program behind it.
    pub async fn close(&self) {
        let connection = self.0.state.lock().await.connection.take();
        if let Some(connection) = connection.and_then(Arc::into_inner) {
            connection.close().await;
        }
    }
}
