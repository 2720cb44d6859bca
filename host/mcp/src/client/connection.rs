//! A connection to a server: its start, its handshake, its calls and its end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fumehood_core::call::Observer;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, CustomResult,
    ListToolsRequest, PaginatedRequestParams, ProtocolVersion, ServerPeerInfo, ServerResult, SubscriptionFilter,
};
use rmcp::service::{ClientInitializeError, Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::MIN_PAGES;
use super::client_handler::ServerRequestHandler;
use super::connect_error::{self, ConnectError};
use super::endpoint::{Credentials, Endpoint, Launch};
use super::headers::Headers;
use super::http_client::{self, BoundedClient};
use super::inspecting_transport::InspectingTransport;
use super::lenient::{self, ToolPage};
use super::message_tracker::MessageTracker;
use super::oauth::TokenSource;
use super::process::Process;
use super::program::check_program;
use super::progress::ProgressListener;
use super::tool_notice::ToolNotice;
use crate::transport::line_transport::LineTransport;

/// Timeout for the answer of a program to `server/discover`. It may have to start first.
const PROCESS_DISCOVERY_TIMEOUT: Duration = Duration::from_secs(4);
/// Timeout for the answer of a server at a URL to `server/discover`. The network may be slow.
const HTTP_DISCOVERY_TIMEOUT: Duration = Duration::from_secs(9);

/// The limits and headers of a connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectOptions {
    /// Maximum size of a message, in bytes. A longer one ends the connection.
    pub(crate) max_message_bytes: usize,
    /// Maximum number of unsolicited messages in one call or one minute. More end the connection.
    pub(crate) max_unsolicited: u32,
    /// Headers of every request over HTTP.
    pub(crate) headers: Headers,
}

/// A connection. Dropping it ends the program behind it.
pub(crate) struct Connection {
    service: RunningService<RoleClient, ServerRequestHandler>,
    process: Option<Process>,
    closed: CancellationToken,
    tracker: Arc<MessageTracker>,
    /// Becomes true once a line was too long, or too many lines were not messages.
    overflowed: Arc<AtomicBool>,
    /// True once a call was under way when the connection ended.
    lost_call: AtomicBool,
}

impl Connection {
    /// Connects and completes the handshake.
    pub(crate) async fn open(endpoint: &Endpoint, options: &ConnectOptions) -> Result<Self, ConnectError> {
        // Some servers answer `server/discover` with something that is not an answer, or end. A second connection then
        // begins with `initialize`, as in earlier revisions.
        match Self::connect(endpoint, options, lifecycle_mode()).await {
            Err(ConnectError::Handshake { .. }) => {
                Self::connect(endpoint, options, ClientLifecycleMode::Initialize).await
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
        let (closed, tracker) =
            (CancellationToken::new(), MessageTracker::new(options.max_unsolicited, PROCESS_DISCOVERY_TIMEOUT));
        let lines = LineTransport::<RoleClient, _, _>::new(output, input, options.max_message_bytes, closed.clone())
            .normalizing(lenient::normalize);
        let overflowed = lines.overflow_flag();
        match handshake(lines, &tracker, &closed, lifecycle).await {
            Ok(service) => Ok(Self {
                service,
                process: Some(process),
                closed,
                tracker,
                overflowed,
                lost_call: AtomicBool::default(),
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
        let (closed, tracker) =
            (CancellationToken::new(), MessageTracker::new(options.max_unsolicited, HTTP_DISCOVERY_TIMEOUT));
        let service = handshake(transport, &tracker, &closed, lifecycle)
            .await
            .map_err(|error| connect_error::from_address(error, url, tokens.as_deref().map(TokenSource::hint)))?;
        Ok(Self {
            service,
            process: None,
            closed,
            tracker,
            overflowed: Arc::default(),
            lost_call: AtomicBool::default(),
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

    /// Returns true if the connection ended while a call was under way.
    pub(crate) fn has_lost_call(&self) -> bool {
        self.lost_call.load(Ordering::Relaxed)
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
        let mut cursors = BTreeSet::new();
        loop {
            let params = PaginatedRequestParams::default().with_cursor(listed.next_cursor.take());
            let ToolPage { tools, next_cursor, rejected, mended } = self.list_page(params).await?;
            listed.tools.extend(tools.into_iter().filter(|tool| only.is_none_or(|only| only.contains(&*tool.name))));
            listed.rejected.extend(rejected);
            listed.mended.extend(mended);
            let max_pages = max_tools.max(MIN_PAGES);
            let advice = "name those to use in its `tools`, or raise its `max_tools`";
            // Some servers end with an empty cursor.
            let cursor = next_cursor.filter(|cursor| !cursor.is_empty());
            let cut = match cursor {
                _ if listed.tools.len() > max_tools => {
                    listed.tools.truncate(max_tools);
                    Some(format!("the server lists more than {max_tools} tools; {advice}"))
                }
                None => return Ok(listed),
                Some(_) if cursors.len() >= max_pages => {
                    Some(format!("the server lists more than {max_pages} pages of tools; {advice}"))
                }
                Some(cursor) if cursors.insert(cursor.clone()) => {
                    listed.next_cursor = Some(cursor);
                    None
                }
                Some(_) => Some("the server repeats a page of its tools; those until then are used".to_owned()),
            };
            if let Some(reason) = cut {
                listed.rejected.push(ToolNotice::new("further tools", reason));
                return Ok(listed);
            }
        }
    }

    async fn list_page(&self, params: PaginatedRequestParams) -> Result<ToolPage, ConnectError> {
        let failed = |error: ServiceError| {
            if self.tracker.is_flooded() || self.has_overflowed() {
                ConnectError::Flooded
            } else {
                ConnectError::List(Box::new(error))
            }
        };
        let request = ListToolsRequest { params: Some(params), ..ListToolsRequest::default() };
        let answer = self.service.peer().send_request(ClientRequest::ListToolsRequest(request));
        match self.unless_closed(answer).await.map_err(failed)? {
            ServerResult::ListToolsResult(page) => Ok(page.into()),
            ServerResult::CustomResult(CustomResult(page)) => {
                lenient::read_tool_page(page).ok_or_else(|| failed(ServiceError::UnexpectedResponse))
            }
            _ => Err(failed(ServiceError::UnexpectedResponse)),
        }
    }

    /// Calls a tool. Dropping the future sends `notifications/cancelled`.
    pub(crate) async fn call(
        &self,
        call: CallToolRequestParams,
        observer: Arc<dyn Observer>,
    ) -> Result<CallToolResponse, ServiceError> {
        let mut request = CallToolRequest::new(call);
        request.extensions.insert(ProgressListener(observer));
        let (peer, request_options) = (self.service.peer(), PeerRequestOptions::no_options());
        let sent = peer.send_request_with_option(ClientRequest::CallToolRequest(request), request_options).await?;
        let id = sent.id.clone();
        let answer = self.unless_closed(InFlightRequest::new(sent).answer()).await;
        // If a request could not be sent, no answer ever removes it.
        self.tracker.forget(&id);
        if answer.is_err() && self.is_closed() {
            self.lost_call.store(true, Ordering::Relaxed);
        }
        match answer? {
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

    /// Waits for an answer until the connection is closed. rmcp notices that only once its remaining work is done.
    async fn unless_closed<T>(&self, answer: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ServiceError> {
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

/// Returns the order of revisions to try: the newest first, and the one before it for servers that do not support that.
fn lifecycle_mode() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

async fn handshake<T: Transport<RoleClient> + 'static>(
    transport: T,
    tracker: &Arc<MessageTracker>,
    closed: &CancellationToken,
    lifecycle: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, ServerRequestHandler>, ClientInitializeError> {
    let transport = InspectingTransport::new(transport, Arc::clone(tracker), closed.clone());
    let service = ServerRequestHandler.serve_with_lifecycle(transport, lifecycle).await?;
    subscribe_to_tool_changes(service.peer(), closed);
    Ok(service)
}

/// A request without an answer yet. Dropping it cancels the request.
pub(crate) struct InFlightRequest {
    sent: Option<RequestHandle<RoleClient>>,
    runtime: Handle,
}

impl InFlightRequest {
    /// Wraps a request that was sent.
    pub(crate) fn new(sent: RequestHandle<RoleClient>) -> Self {
        Self { sent: Some(sent), runtime: Handle::current() }
    }

    /// Waits for the answer.
    pub(crate) async fn answer(mut self) -> Result<ServerResult, ServiceError> {
        let Some(sent) = &mut self.sent else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut sent.rx).await;
        self.sent = None;
        answer.map_err(|_gone| ServiceError::TransportClosed)?
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.runtime.spawn(sent.cancel(Some("nobody waits for it any more".to_owned())));
        }
    }
}

/// Wait after the first failure.
const MIN_BACKOFF: Duration = Duration::from_millis(100);
/// Maximum wait between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

/// Exponential backoff of connection attempts.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
    until: Option<Instant>,
}

impl Backoff {
    /// Returns the time until the next attempt is allowed, if that is not now.
    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        self.until.and_then(|until| until.checked_duration_since(now)).filter(|wait| !wait.is_zero())
    }

    /// Records a failure. Each one in a row doubles the wait, from [`MIN_BACKOFF`] up to [`MAX_BACKOFF`].
    pub(crate) fn record_failure(&mut self, now: Instant) {
        let wait = MIN_BACKOFF.saturating_mul(1 << self.failures.min(16)).min(MAX_BACKOFF);
        self.failures = self.failures.saturating_add(1);
        self.until = now.checked_add(wait);
    }

    /// Resets the wait after a success.
    pub(crate) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Subscribes to changes of the tools with `subscriptions/listen` for as long as the connection is open. Servers of the
/// newest revision send these notifications to subscribers only; [`MessageTracker`] reads them. A server that does not
/// offer them has its tools listed again with the next connection.
pub(crate) fn subscribe_to_tool_changes(peer: &Peer<RoleClient>, closed: &CancellationToken) {
    if !peer.peer_info().is_some_and(|server| offers_tool_subscription(&server)) {
        return;
    }
    let (peer, closed) = (peer.clone(), closed.clone());
    tokio::spawn(async move {
        let listening = peer.listen(SubscriptionFilter::builder().tools_list_changed().build());
        let Ok(mut subscription) = listening.await else { return };
        loop {
            tokio::select! {
                () = closed.cancelled() => return,
                event = subscription.next() => if !matches!(event, Ok(Some(_))) { return },
            }
        }
    });
}

fn offers_tool_subscription(server: &ServerPeerInfo) -> bool {
    let tools = server.capabilities.tools.as_ref();
    server.protocol_version >= ProtocolVersion::V_2026_07_28
        && tools.is_some_and(|tools| tools.list_changed == Some(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_the_wait_up_to_a_limit() {
        let (mut backoff, now) = (Backoff::default(), Instant::now());
        assert_eq!(backoff.remaining(now), None);
        for expected in [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            backoff.record_failure(now);
            assert_eq!(backoff.remaining(now), Some(Duration::from_millis(expected)));
            assert_eq!(backoff.remaining(now + Duration::from_millis(expected)), None);
        }
        backoff.reset();
        assert_eq!(backoff.remaining(now), None);
    }
}
