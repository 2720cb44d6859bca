//! A server as a set of tools, which are connected to on demand, listed, pinned and called.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Progress;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::call::{CallContext, Observer};
use fumehood_core::digest::Digest;
use fumehood_core::policy::redact::Redactor;
use fumehood_core::schema::gate::GateLimits;
use fumehood_core::telemetry::{self, CallContent};
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{ResultForm, ValidatedCall};
use fumehood_core::trace_context;
use rmcp::model::{CallToolRequestParams, CallToolResponse, RequestMetaObject};
use rmcp::service::ServiceError;
use serde_json::Value;
use tokio::sync::Mutex;
use tracing::Instrument as _;

use super::call_clock::{CallClock, Exceeded};
use super::call_error::{self, MAX_QUOTED_CHARS};
use super::call_tool_result;
use super::connect_error::{ConnectError, challenge_of};
use super::connection::{Backoff, ConnectOptions, Connection};
use super::endpoint::{Credentials, Endpoint};
use super::headers::Headers;
use super::lenient;
use super::remote_tool::{RemoteTool, SchemaLimits};
use super::tool_notice::ToolNotice;
use super::tool_pins::{ToolList, ToolPins};

/// Size of a message besides the result, in bytes.
const MAX_ENVELOPE_BYTES: usize = 64 << 10;

/// Limits and settings of a server.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// Maximum time of a call without progress. It is enforced even if the server never answers.
    pub deadline: Duration,
    /// Maximum time of a call in all, however often its server reports progress.
    pub max_time: Duration,
    /// Timeout of connecting and listing together.
    pub patience: Duration,
    /// Maximum size of a result, in bytes.
    pub output: usize,
    /// Maximum size of a single string in the arguments of a call, in bytes.
    pub string: usize,
    /// Other limits of schemas, arguments and results.
    pub gate: GateLimits,
    /// Maximum number of unsolicited messages in one call, or in one minute between calls. More end the connection.
    pub unasked: u32,
    /// The tools to use, by the server's own names; `None` for all.
    pub only: Option<BTreeSet<String>>,
    /// Maximum number of its tools.
    pub max_tools: usize,
    /// Maximum size of the descriptions of all of its tools together, in bytes.
    pub descriptions: usize,
    /// The form of its results that a model reads.
    pub result_form: ResultForm,
    /// Headers of every request to a server at a URL.
    pub headers: Headers,
    /// Redacts secrets from everything that the server sends in its calls.
    pub redactor: Option<Redactor>,
    /// The digests of approved tools, by the server's own names. Other tools are pinned as they are first seen.
    pub pins: BTreeMap<String, Digest>,
}

impl Default for RemoteOptions {
    /// Returns the defaults:
    ///
    /// - a minute for a call, ten with progress, and 15 s to connect
    /// - results and strings of at most 1 MiB, and the limits of [`GateLimits::default`]
    /// - 10,000 unsolicited messages
    /// - all tools, 1,000 at most, with descriptions of 1 MiB together, and no pins
    /// - the text of a result that has both forms, no headers, no redaction
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(60),
            max_time: Duration::from_secs(600),
            patience: Duration::from_secs(15),
            output: 1 << 20,
            string: 1 << 20,
            gate: GateLimits::default(),
            unasked: 10_000,
            only: None,
            max_tools: 1000,
            descriptions: 1 << 20,
            result_form: ResultForm::TextFirst,
            headers: Headers::default(),
            redactor: None,
            pins: BTreeMap::new(),
        }
    }
}

/// A server and its tools. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    name: Namespace,
    endpoint: Endpoint,
    options: RemoteOptions,
    state: Mutex<ConnectionState>,
    pins: Lock<ToolPins>,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<Connection>>,
    backoff: Backoff,
}

/// An observer that redacts secrets from messages of progress before it forwards them.
struct RedactingObserver {
    remote: Remote,
    observer: Arc<dyn Observer>,
}

impl Observer for RedactingObserver {
    fn progress(&self, mut progress: Progress) {
        if let (Some(redactor), Some(message)) = (&self.remote.0.options.redactor, &mut progress.message) {
            redactor.redact_printable(message);
        }
        self.observer.progress(progress);
    }
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
        Self(Arc::new(Inner { name, endpoint, options, state: Mutex::default(), pins }))
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

    /// Returns the tools of the server that cannot be used, each with the reason, such as a difference from its pin.
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
        let CallContext { id, limits, observer, cancelled, .. } = context;
        let (tool, options) = (Arc::clone(call.tool()), &self.0.options);
        let at_most = |time: Duration| limits.map_or(time, |limits| limits.deadline.min(time));
        let deadline = at_most(options.deadline);
        observer.iter().for_each(|observer| observer.admitted(deadline));
        let clock = CallClock::start(deadline, at_most(options.max_time));
        let observer = clock.observe(observer.map(|observer| self.redact_progress(observer)));
        let span = telemetry::mcp_client_span(tool.full_name(), &id);
        let content = CallContent::record_arguments(&span, &call);
        let attempt = clock.limit(self.attempt(call, observer).instrument(span.clone()));
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
        match self.0.options.redactor {
            Some(_) => Arc::new(RedactingObserver { remote: self.clone(), observer }),
            None => observer,
        }
    }

    async fn attempt(&self, call: ValidatedCall, observer: Arc<dyn Observer>) -> Result<Vec<Content>, CallError> {
        let connection =
            self.connection().await.map_err(|error| call_error::from_connect_error(&self.0.name, &error))?;
        let RemoteTool { foreign, tool, .. } = self.pins().callable(&self.0.name, call.tool())?;
        let mut request = CallToolRequestParams::new(foreign.to_string());
        if let Value::Object(arguments) = call.into_arguments() {
            request = request.with_arguments(arguments);
        }
        request.meta = outgoing_meta();
        match connection.call(request, observer).await {
            Ok(CallToolResponse::Complete(answer)) => {
                let parts = call_tool_result::into_content(answer, self.0.options.output)?;
                call_tool_result::check_output(tool, parts).await
            }
            Ok(_) => Err(CallError::new(
                ErrorKind::ToolFailed,
                "the tool asks its user for something, which nobody here can give",
            )),
            Err(error) => Err(self.service_error(&connection, error)),
        }
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
    async fn connection(&self) -> Result<Arc<Connection>, ConnectError> {
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
        let connect_options = ConnectOptions { max_message_bytes, max_unsolicited: *unasked, headers: headers.clone() };
        let connection = Arc::new(Connection::open(&self.0.endpoint, &connect_options).await?);
        self.refresh_tools(&connection).await?;
        Ok(connection)
    }

    async fn refresh_tools(&self, connection: &Connection) -> Result<(), ConnectError> {
        let options = &self.0.options;
        let page = connection.list(options.max_tools, options.only.as_ref()).await?;
        let this = self.clone();
        let parse = move || {
            let options = &this.0.options;
            ToolList::new(&this.0.name, page, options.only.as_ref(), &SchemaLimits::from(options))
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
