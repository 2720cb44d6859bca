//! A server as a set of tools, which are connected to on demand, listed, pinned and called.

use std::fmt;
use std::sync::{Arc, Mutex as Lock, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::call::CallContext;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::log;
use fumehood_core::telemetry::{self, CallContent};
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::name::Namespace;
use fumehood_core::tool::{ValidatedCall, unknown_tool};
use rmcp::model::{CallToolRequestParams, CallToolResponse, JsonObject};
use rmcp::service::ServiceError;
use serde_json::Value;
use tokio::sync::{Mutex, Notify, watch};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use super::backoff::Backoff;
use super::call_client::{self, CallClient, MAX_REQUESTS};
use super::call_clock::{CallClock, ExceededLimit};
use super::call_error;
use super::call_tool_result::{self, Answer};
use super::connect_error::ConnectError;
use super::connection::{ConnectOptions, Connection};
use super::endpoint::{Endpoint, LaunchSandbox};
use super::library::{LibraryMethod, LibraryRequest, LibraryState, RemoteLibrary};
use super::list_changes::ListChanges;
use super::metadata::outgoing_meta;
use super::progress;
use super::remote_options::RemoteOptions;
use super::remote_tool::{RemoteTool, SchemaLimits};
use super::server_requests::ServerRequests;
use super::service_error;
use super::tool_notice::ToolNotice;
use super::tool_pins::{ToolList, ToolPins};

/// Size of a message besides the result, in bytes.
const MAX_ENVELOPE_BYTES: usize = 64 << 10;

/// A server and its tools. Cheap to clone; clones share their state.
///
/// ```no_run
/// use fumehood_core::tool::name::Namespace;
/// use fumehood_mcp::{Credentials, Endpoint, Remote, RemoteOptions};
///
/// # async fn list() -> Result<(), Box<dyn std::error::Error>> {
/// let endpoint = Endpoint::Http { url: "https://mcp.example.com/mcp".to_owned(), credentials: Credentials::None };
/// let server = Remote::new(Namespace::parse("example")?, endpoint, RemoteOptions::default());
/// println!("{} tools", server.tools().await?.len());
/// // Tools whose names or schemas are not acceptable, with the reasons.
/// for notice in server.rejected_tools() {
///     eprintln!("{notice:?}");
/// }
/// server.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    name: Namespace,
    endpoint: Endpoint,
    options: RemoteOptions,
    state: Mutex<ConnectionState>,
    pins: Lock<ToolPins>,
    /// The number of lists that were another one than the list before.
    lists: watch::Sender<u64>,
    /// Held while the tools are listed, so that an older list never replaces a newer one.
    listing: Mutex<()>,
    /// Woken when the server reports that its tools have changed.
    announcements: Arc<Notify>,
    /// The instructions of the first connection.
    instructions: OnceLock<Option<Arc<Untrusted<String>>>>,
    library: LibraryState,
    requests: Arc<ServerRequests>,
}

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<Connection>>,
    backoff: Backoff,
    /// True once there was a connection.
    was_connected: bool,
    /// The task that waits for the end of the connection, to report it.
    watch: Option<AbortOnDropHandle<()>>,
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
        Self(Arc::new(Inner {
            name,
            endpoint,
            options,
            state: Mutex::default(),
            pins,
            lists: watch::Sender::new(0),
            listing: Mutex::default(),
            announcements: Arc::default(),
            instructions: OnceLock::default(),
            library: LibraryState::default(),
            requests,
        }))
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

    pub(super) fn requests(&self) -> &ServerRequests {
        &self.0.requests
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

    /// Returns the tools of the last list, including quarantined ones. Nothing is connected to.
    #[must_use]
    pub fn listed_tools(&self) -> Vec<RemoteTool> {
        self.pins().listed()
    }

    /// Returns whether a tool is quarantined, because it differs from what was pinned.
    #[must_use]
    pub fn is_quarantined(&self, tool: &RemoteTool) -> bool {
        self.pins().is_changed(tool)
    }

    /// Pins a tool as it is listed now, which ends its quarantine: somebody approved this definition.
    pub fn accept(&self, tool: &RemoteTool) {
        self.pins().accept(tool);
    }

    /// Returns the instructions of the server, at most 4 KiB. They are those of the first connection, and empty before it.
    #[must_use]
    pub fn instructions(&self) -> Option<Arc<Untrusted<String>>> {
        self.0.instructions.get().cloned().flatten()
    }

    /// Returns the end of what the program wrote to its standard error; nothing if it does not run.
    pub async fn stderr_tail(&self) -> String {
        let state = self.0.state.lock().await;
        state.connection.as_ref().map(|connection| connection.stderr_tail()).unwrap_or_default()
    }

    /// Subscribes to changes of the list of tools.
    #[must_use]
    pub fn list_changes(&self) -> ListChanges {
        ListChanges::new(self.clone(), self.0.lists.subscribe())
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
        let CallContext { id, limits, observer, cancelled, client_meta, client_requests, is_library_request, .. } =
            context;
        let tool = Arc::clone(call.tool());
        let options = &self.0.options;
        let at_most = |time: Duration| limits.map_or(time, |limits| limits.deadline.min(time));
        let deadline = at_most(options.deadline);
        observer.iter().for_each(|observer| observer.admitted(deadline));
        let sandbox = self.0.endpoint.sandbox();
        let refused_before = sandbox.map_or(0, LaunchSandbox::refusal_count);
        let clock = CallClock::start(deadline, at_most(options.max_time));
        let observer = observer.map(|observer| progress::redact(options.redactor.as_ref(), observer));
        let client = CallClient::new(&clock, observer, client_requests);
        let span = telemetry::mcp_client_span(tool.full_name(), &id);
        let content = CallContent::record_arguments(&span, &call);
        // Each of the futures around it would hold it twice.
        let attempt = Box::pin(self.attempt(call, client, client_meta.as_deref(), is_library_request));
        let attempt = clock.limit(attempt.instrument(span.clone()));
        let ended = match cancelled {
            Some(cancelled) => cancelled.run_until_cancelled(attempt).await,
            None => Some(attempt.await),
        };
        let answered = match ended {
            Some(Ok(answered)) => answered,
            Some(Err(exceeded)) => Err(self.deadline_error(&clock, exceeded)),
            None => Err(CallError::cancelled()),
        };
        let Answer { mut outcome, members } =
            answered.unwrap_or_else(|error| Answer { outcome: Err(error), members: None });
        let mut cost = Metadata::default().duration(started.elapsed()).deadline(deadline).members(members);
        cost = cost.refused(sandbox.map_or_else(Vec::new, |sandbox| sandbox.refusals_since(refused_before)));
        if let Some(redactor) = &options.redactor {
            redactor.redact_metadata(&mut cost);
            match &mut outcome {
                Ok(parts) => parts.iter_mut().for_each(|part| redactor.redact_content(part)),
                Err(error) => redactor.redact_error(error),
            }
        }
        if let Err(error) = &outcome {
            telemetry::record_error(&span, error.kind.as_str());
        }
        let metadata = cost.with_outcome(&outcome);
        let result = CallResult { id, tool: tool.full_name().to_owned(), outcome, metadata };
        if let Some(content) = content {
            content.record_result(&span, &result);
        }
        result
    }

    async fn attempt(
        &self,
        call: ValidatedCall,
        client: CallClient,
        client_meta: Option<&JsonObject>,
        is_library_request: bool,
    ) -> Result<Answer, CallError> {
        let method = LibraryMethod::of(call.tool());
        if method.is_some() && !is_library_request {
            return Err(unknown_tool(call.tool().full_name(), std::iter::empty()));
        }
        let connection =
            self.connection().await.map_err(|error| call_error::from_connect_error(&self.0.name, &error))?;
        if let Some(method) = method {
            let request = LibraryRequest { method, params: call.into_arguments(), meta: outgoing_meta(client_meta) };
            return Box::pin(self.library().ask(&connection, request, client)).await;
        }
        let RemoteTool { foreign, tool, .. } = self.pins().callable(&self.0.name, call.tool())?;
        let mut request = CallToolRequestParams::new(foreign.to_string());
        if let Value::Object(arguments) = call.into_arguments() {
            request = request.with_arguments(arguments);
        }
        let mut meta = outgoing_meta(client_meta);
        let level = self.0.options.log_level.requested().and_then(|level| connection.request_log_level(level));
        level.into_iter().for_each(|level| meta.set_log_level(level));
        request.meta = (!meta.0.0.is_empty()).then_some(meta);
        // The first request, and one after each answer of the client.
        for _ in 0..=MAX_REQUESTS {
            match connection.call(request.clone(), &client).await {
                Ok(CallToolResponse::Complete(answer)) => {
                    return call_tool_result::read_checked(answer, self.0.options.output, tool).await;
                }
                Ok(CallToolResponse::InputRequired(needed)) => {
                    let (answers, state) = self.0.requests.answer_inputs(needed, &client).await?;
                    (request.input_responses, request.request_state) = (Some(answers), state);
                }
                Ok(_) => return Err(call_error::from_refused_input("the tool started a task".into())),
                Err(error) => return Err(self.service_error(&connection, error)),
            }
        }
        Err(call_error::from_refused_input(call_client::too_many_requests()))
    }

    fn deadline_error(&self, clock: &CallClock, exceeded: ExceededLimit) -> CallError {
        // A task that connects holds the lock, and then there is no connection to report on.
        let state = self.0.state.try_lock().ok();
        let unmatched = state.and_then(|state| Some(state.connection.as_ref()?.tracker().unmatched_answers()));
        service_error::deadline(&self.0.name, clock, exceeded, unmatched.unwrap_or(0))
    }

    /// Creates the error of a call that the server refused, or that ended with the connection.
    pub(super) fn service_error(&self, connection: &Connection, error: ServiceError) -> CallError {
        service_error::to_call_error(&self.0.name, &self.0.options, self.0.endpoint.login_hint(), connection, error)
    }

    /// Returns the connection, and makes a new one if none works. Tools are listed, and compared with their pins, on
    /// every new connection and whenever the server reports that they have changed.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, ConnectError> {
        let mut state = self.0.state.lock().await;
        if let Some(closed) = state.connection.take_if(|connection| connection.is_closed()) {
            if !closed.closed().is_cancelled() {
                log::emit_server_lost(self.0.name.as_str(), "the connection was closed");
            }
            // A server that ended while it was idle is started at once: some end after each answer.
            match closed.lost_call_at() {
                Some(ended_at) => state.backoff.record_failure(ended_at),
                None => state.backoff.reset(),
            }
        }
        let patience = self.0.options.patience;
        // Connecting and listing are rare and their futures are large, so these are not part of the future of each call.
        let connected = match &state.connection {
            Some(connection) if !connection.tracker().take_changed() => {
                // A list that is under way may have another definition of the tool.
                let _listed = tokio::time::timeout(patience, self.0.listing.lock()).await;
                return Ok(Arc::clone(connection));
            }
            Some(connection) => {
                let connection = Arc::clone(connection);
                let refreshed = async { self.refresh_tools(&connection).await.map(|()| connection) };
                tokio::time::timeout(patience, Box::pin(refreshed)).await
            }
            None => {
                if let Some(wait) = state.backoff.remaining(Instant::now()) {
                    return Err(ConnectError::TooEarly(wait));
                }
                tokio::time::timeout(patience, Box::pin(self.connect())).await
            }
        };
        match connected.unwrap_or(Err(ConnectError::Late(patience))) {
            Ok(connection) => {
                self.report_connected(&mut state, &connection);
                state.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                state.connection = None;
                state.watch = None;
                state.backoff.record_failure(Instant::now());
                // Whoever connects first reports the failure.
                if state.was_connected {
                    let retry_in = state.backoff.remaining(Instant::now());
                    log::emit_server_unavailable(self.0.name.as_str(), &error, retry_in);
                }
                Err(error)
            }
        }
    }

    /// Reports a new connection, and its end once it ends by itself.
    fn report_connected(&self, state: &mut ConnectionState, connection: &Arc<Connection>) {
        if state.connection.is_some() {
            return;
        }
        let name = self.0.name.clone();
        log::emit_server_connected(name.as_str(), self.pins().listed().len(), state.was_connected);
        state.was_connected = true;
        let closed = connection.closed();
        let watch = async move {
            closed.cancelled().await;
            log::emit_server_lost(name.as_str(), "its program ended, or broke the protocol");
        };
        state.watch = Some(AbortOnDropHandle::new(tokio::spawn(watch)));
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
            announcements: Arc::clone(&self.0.announcements),
        };
        let connection = Arc::new(Connection::open(&self.0.endpoint, &connect_options).await?);
        self.0.instructions.get_or_init(|| connection.instructions(self.0.options.redactor.as_ref()));
        self.refresh_tools(&connection).await?;
        self.0.library.renew_subscriptions(&connection);
        Ok(connection)
    }

    async fn refresh_tools(&self, connection: &Connection) -> Result<(), ConnectError> {
        let _turn = self.0.listing.lock().await;
        let options = &self.0.options;
        let page = connection.list(options.max_tools, options.only.as_ref()).await?;
        let this = self.clone();
        let parse = move || {
            let options = &this.0.options;
            let before = this.pins().converted();
            ToolList::new(&this.0.name, page, options.only.as_ref(), &SchemaLimits::from(options), &before)
        };
        // Schemas of servers may take long to compile.
        let listed = tokio::task::spawn_blocking(parse).await.map_err(|error| ConnectError::List(Box::new(error)))?;
        if self.pins().update(listed) {
            self.0.lists.send_modify(|lists| *lists += 1);
        }
        Ok(())
    }

    /// Returns the signal that the server has reported a change of its tools.
    pub(super) fn announcements(&self) -> Arc<Notify> {
        Arc::clone(&self.0.announcements)
    }

    /// Lists the tools again over the open connection, if the server has reported a change. Calls go on meanwhile. After a
    /// failure, the next call lists them.
    pub(super) async fn list_if_announced(&self) {
        let connection = self.0.state.lock().await.connection.clone();
        let Some(connection) = connection.filter(|connection| !connection.is_closed()) else { return };
        if !connection.tracker().take_changed() {
            return;
        }
        let listed = tokio::time::timeout(self.0.options.patience, self.refresh_tools(&connection)).await;
        if !matches!(listed, Ok(Ok(()))) {
            connection.tracker().set_changed();
        }
    }

    fn pins(&self) -> std::sync::MutexGuard<'_, ToolPins> {
        self.0.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection, and ends the program behind it.
    pub async fn close(&self) {
        let connection = {
            let mut state = self.0.state.lock().await;
            state.watch = None;
            state.connection.take()
        };
        if let Some(connection) = connection.and_then(Arc::into_inner) {
            connection.close().await;
        }
    }
}
