//! A connection to a server: its start, its handshake, its calls and its end.
#![allow(deprecated, reason = "logging is on its way out of the protocol, and servers of older revisions have it")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use fumehood_core::call::event::Level;
use fumehood_core::policy::redact::Redactor;
use fumehood_core::text::sanitize::truncate_str;
use fumehood_core::text::untrusted::Untrusted;
use fumehood_core::tool::name::ToolName;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, CustomResult,
    GetExtensions as _, ListToolsRequest, LoggingLevel, PaginatedRequestParams, ServerResult, SetLevelRequest,
    SetLevelRequestParams,
};
use rmcp::service::{Peer, PeerRequestOptions, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientLifecycleMode, RoleClient};
use tokio_util::sync::CancellationToken;

use tokio::sync::Notify;

use super::MIN_PAGES;
use super::call_client::CallClient;
use super::client_handler::ServerRequestHandler;
use super::connect_error::{self, ConnectError};
use super::endpoint::{Credentials, Endpoint, Launch};
use super::handshake::{handshake, lifecycle_mode};
use super::headers::Headers;
use super::http_client::{self, BoundedClient};
use super::lenient::{self, ToolPage};
use super::library::LibraryEvents;
use super::message_tracker::MessageTracker;
use super::oauth::TokenSource;
use super::pager::{NextPage, Pager};
use super::process::Process;
use super::program::check_program;
use super::server_requests::ServerRequests;
use super::tool_notice::ToolNotice;
use crate::log_level::to_logging_level;
use crate::transport::in_flight::InFlightRequest;
use crate::transport::line_transport::{LineTransport, Normalize};

/// Maximum size of the instructions of a server, in bytes; the rest is cut off.
const MAX_INSTRUCTIONS_BYTES: usize = 4 << 10;
/// Maximum number of names that are kept of tools that are not to be used.
const MAX_UNUSED_NAMES: usize = 20;
/// Timeout for the answer of a program to `server/discover`. It may have to start first.
const PROCESS_DISCOVERY_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout for the answer of a server at a URL to `server/discover`. The network may be slow.
const HTTP_DISCOVERY_TIMEOUT: Duration = Duration::from_secs(9);

/// The limits and headers of a connection.
#[derive(Clone)]
pub(crate) struct ConnectOptions {
    /// Maximum size of a message, in bytes. A longer one ends the connection.
    pub(crate) max_message_bytes: usize,
    /// Maximum number of unsolicited messages in one call or one minute. More end the connection.
    pub(crate) max_unsolicited: u32,
    /// Headers of every request over HTTP.
    pub(crate) headers: Headers,
    /// Answers requests of the server.
    pub(crate) requests: Arc<ServerRequests>,
    /// Is told of changes of resources and prompts.
    pub(crate) events: Arc<LibraryEvents>,
    /// Woken when the server reports that its tools have changed.
    pub(crate) announcements: Arc<Notify>,
}

impl ConnectOptions {
    fn tracker(&self, discovery_timeout: Duration) -> Arc<MessageTracker> {
        let Self { max_unsolicited, events, announcements, .. } = self;
        MessageTracker::new(*max_unsolicited, discovery_timeout, Arc::clone(events), Arc::clone(announcements))
    }
}

/// A connection. Dropping it ends the program behind it.
pub(crate) struct Connection {
    service: RunningService<RoleClient, ServerRequestHandler>,
    process: Option<Process>,
    closed: CancellationToken,
    tracker: Arc<MessageTracker>,
    /// Becomes true once a line was too long, or too many lines were not messages.
    overflowed: Arc<AtomicBool>,
    /// The time at which the connection ended, if a call was under way then.
    lost_call: OnceLock<Instant>,
    /// The level of log lines that the server was asked for, as a rank; the maximum before that.
    log_level: AtomicU8,
}

impl Connection {
    /// Connects and completes the handshake.
    pub(crate) async fn open(endpoint: &Endpoint, options: &ConnectOptions) -> Result<Self, ConnectError> {
        // Some servers answer `server/discover` with something that is not an answer, or end. A second connection then
        // begins with `initialize`, as in earlier revisions.
        match Self::connect(endpoint, options, lifecycle_mode()).await {
            Err(ConnectError::Handshake { .. }) => {
                let again = Self::connect(endpoint, options, ClientLifecycleMode::Initialize).await;
                again.map_err(|error| match endpoint {
                    Endpoint::Http { url, .. } => connect_error::explain(error, url),
                    Endpoint::Process(_) => error,
                })
            }
            outcome => outcome,
        }
    }

    async fn connect(
        endpoint: &Endpoint,
        options: &ConnectOptions,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ConnectError> {
        match endpoint {
            Endpoint::Process(launch) => Self::start_process(launch, options, lifecycle).await,
            Endpoint::Http { url, credentials } => Self::connect_http(url, credentials, options, lifecycle).await,
        }
    }

    async fn start_process(
        launch: &Launch,
        options: &ConnectOptions,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ConnectError> {
        let program = || launch.program.display().to_string();
        check_program(launch).map_err(|why| ConnectError::NoProgram { program: program(), why })?;
        let failed = |source| ConnectError::Start { program: program(), source };
        let (process, output, input) = Process::start(launch).await.map_err(failed)?;
        let closed = CancellationToken::new();
        let tracker = options.tracker(PROCESS_DISCOVERY_TIMEOUT);
        let lines = LineTransport::<RoleClient, _, _>::new(output, input, options.max_message_bytes, closed.clone())
            .normalizing(Normalize { read: lenient::normalize, is_preferred: lenient::is_handshake });
        let overflowed = lines.overflow_flag();
        match handshake(lines, &tracker, &options.requests, &closed, lifecycle).await {
            Ok(service) => Ok(Self {
                service,
                process: Some(process),
                closed,
                tracker,
                overflowed,
                lost_call: OnceLock::new(),
                log_level: AtomicU8::new(u8::MAX),
            }),
            Err(error) => {
                // A program that could not start writes the reason, and then ends.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(connect_error::from_handshake(error, &process.stderr_tail()))
            }
        }
    }

    async fn connect_http(
        url: &str,
        credentials: &Credentials,
        options: &ConnectOptions,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ConnectError> {
        let client = http_client::build(url.starts_with("https:"));
        let client = client.map_err(|error| ConnectError::Client(Box::new(error)))?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url)
            .max_sse_event_size(options.max_message_bytes)
            .custom_headers(options.headers.to_map());
        let tokens = match credentials {
            Credentials::None => None,
            Credentials::Token(token) => {
                config = config.auth_header(token.reveal());
                None
            }
            Credentials::OAuth(options) => Some(Arc::new(TokenSource::new(url, options))),
        };
        let client = BoundedClient::new(client, options.max_message_bytes, tokens.clone());
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let closed = CancellationToken::new();
        let tracker = options.tracker(HTTP_DISCOVERY_TIMEOUT);
        let has_token = matches!(credentials, Credentials::Token(_)) || options.headers.has_authorization();
        let service = handshake(transport, &tracker, &options.requests, &closed, lifecycle).await.map_err(|error| {
            connect_error::from_address(error, url, tokens.as_deref().map(TokenSource::hint), has_token)
        })?;
        Ok(Self {
            service,
            process: None,
            closed,
            tracker,
            overflowed: Arc::default(),
            lost_call: OnceLock::new(),
            log_level: AtomicU8::new(u8::MAX),
        })
    }

    /// Returns the state that is derived from the messages of the connection.
    pub(crate) fn tracker(&self) -> &MessageTracker {
        &self.tracker
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled() || self.service.is_closed() || self.service.is_transport_closed()
    }

    /// Returns true if the connection was closed because a message was far too long, or too many lines were not
    /// messages.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflowed.load(Ordering::Relaxed)
    }

    /// Returns the time at which the connection ended, if a call was under way then.
    pub(crate) fn lost_call_at(&self) -> Option<Instant> {
        self.lost_call.get().copied()
    }

    /// Returns the instructions of the server, redacted.
    pub(crate) fn instructions(&self, redactor: Option<&Redactor>) -> Option<Arc<Untrusted<String>>> {
        let server = self.service.peer().peer_info()?;
        let mut text = server.instructions.clone().filter(|text| !text.trim().is_empty())?;
        redactor.iter().for_each(|redactor| redactor.redact_text(&mut text));
        Some(Arc::new(truncate_str(&text, MAX_INSTRUCTIONS_BYTES).into()))
    }

    /// Asks the server for log lines from this level on, unless it was. Servers of the newest revision are asked in the
    /// returned metadata of each call. Nobody waits for the answer.
    pub(crate) fn request_log_level(&self, level: Level) -> Option<LoggingLevel> {
        let server = self.service.peer().peer_info()?;
        server.capabilities.logging.as_ref()?;
        let named = to_logging_level(level);
        if !server.protocol_version.has_initialize() {
            return Some(named);
        }
        if self.log_level.swap(level as u8, Ordering::Relaxed) != level as u8 {
            let peer = self.service.peer().clone();
            let request = ClientRequest::SetLevelRequest(SetLevelRequest::new(SetLevelRequestParams::new(named)));
            tokio::spawn(async move { drop(peer.send_request(request).await) });
        }
        None
    }

    /// Returns the end of what the program wrote to its standard error.
    pub(crate) fn stderr_tail(&self) -> String {
        self.process.as_ref().map(Process::stderr_tail).unwrap_or_default()
    }

    /// Lists at most `max_tools` tools of the server, those in `only` if that is given. A longer list is cut off, with a
    /// notice.
    pub(crate) async fn list(
        &self,
        max_tools: usize,
        only: Option<&BTreeSet<String>>,
    ) -> Result<ToolPage, ConnectError> {
        let mut listed = ToolPage::default();
        let mut pager = Pager::new(max_tools.max(MIN_PAGES));
        loop {
            let params = PaginatedRequestParams::default().with_cursor(listed.next_cursor.take());
            let ToolPage { tools, next_cursor, rejected, mended, .. } = self.list_page(params).await?;
            for tool in tools {
                // A name that cannot be used may be meant by the one that is made for it.
                if only.is_none_or(|only| only.contains(&*tool.name)) || ToolName::parse(&tool.name).is_err() {
                    listed.tools.push(tool);
                } else if listed.unused.len() < MAX_UNUSED_NAMES {
                    listed.unused.push(tool.name.into_owned());
                }
            }
            listed.rejected.append(rejected);
            listed.mended.append(mended);
            let has_too_many = listed.tools.len() > max_tools || listed.rejected.count() > max_tools;
            listed.tools.truncate(max_tools);
            let why = match pager.follow(next_cursor) {
                _ if has_too_many => format!("lists more than {max_tools} tools"),
                NextPage::Cut(why) => why,
                NextPage::End => return Ok(listed),
                NextPage::At(cursor) => {
                    listed.next_cursor = Some(cursor);
                    continue;
                }
            };
            let reason = format!("the server {why}; list the tools to use in its `tools`, or raise its `max_tools`");
            listed.rejected.push_about_list(ToolNotice::new("further tools", reason));
            return Ok(listed);
        }
    }

    async fn list_page(&self, params: PaginatedRequestParams) -> Result<ToolPage, ConnectError> {
        let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
        let answer = self.service.peer().send_request(ClientRequest::ListToolsRequest(request));
        match self.unless_closed(answer).await.map_err(|error| self.list_error(error))? {
            ServerResult::ListToolsResult(page) => Ok(page.into()),
            ServerResult::CustomResult(CustomResult(page)) => {
                lenient::read_tool_page(page).ok_or_else(|| self.list_error(ServiceError::UnexpectedResponse))
            }
            _ => Err(self.list_error(ServiceError::UnexpectedResponse)),
        }
    }

    fn list_error(&self, error: ServiceError) -> ConnectError {
        if self.tracker.is_flooded() || self.has_overflowed() {
            return ConnectError::Flooded;
        }
        ConnectError::List(match &error {
            ServiceError::TransportSend(refused) => match connect_error::describe_refusal(refused) {
                Some(why) => format!("it {why}").into(),
                None => Box::new(error),
            },
            _ => Box::new(error),
        })
    }

    /// Calls a tool. Dropping the future sends `notifications/cancelled`.
    pub(crate) async fn call(
        &self,
        call: CallToolRequestParams,
        client: &CallClient,
    ) -> Result<CallToolResponse, ServiceError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(call));
        match self.request(request, client).await? {
            ServerResult::CallToolResult(result) => Ok(CallToolResponse::Complete(result)),
            ServerResult::InputRequiredResult(result) => Ok(CallToolResponse::InputRequired(result)),
            ServerResult::CreateTaskResult(result) => Ok(CallToolResponse::Task(result)),
            ServerResult::CustomResult(CustomResult(result)) => {
                Ok(CallToolResponse::Complete(lenient::read_call_result(result)))
            }
            ServerResult::EmptyResult(_) => Ok(CallToolResponse::Complete(CallToolResult::success(Vec::new()))),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// Sends a request for a call. Dropping the future sends `notifications/cancelled`.
    pub(crate) async fn request(
        &self,
        mut request: ClientRequest,
        client: &CallClient,
    ) -> Result<ServerResult, ServiceError> {
        request.extensions_mut().insert(client.clone());
        let sent = self.peer().send_request_with_option(request, PeerRequestOptions::no_options()).await?;
        let id = sent.id.clone();
        let answer = self.unless_closed(InFlightRequest::new(sent).answer()).await;
        // If a request could not be sent, no answer ever removes it.
        self.tracker.forget(&id);
        if answer.is_err() && self.is_closed() {
            self.lost_call.get_or_init(Instant::now);
        }
        answer
    }

    /// Returns the peer of rmcp, for requests that belong to no call.
    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Returns a token that is cancelled once the connection is closed.
    pub(crate) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }

    /// Waits for an answer until the connection is closed. rmcp notices that only once its remaining work is done.
    pub(crate) async fn unless_closed<T>(
        &self,
        answer: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ServiceError> {
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.closed.cancelled() => Err(ServiceError::TransportClosed),
        }
    }

    /// Closes the connection: the transport first, then the program.
    pub(crate) async fn close(self) {
        self.closed.cancel();
        let Self { mut service, process, .. } = self;
        let _in_time = service.close_with_timeout(Duration::from_millis(200)).await;
        if let Some(process) = process {
            process.end().await;
        }
    }
}
