//! One connection to a server, from its start to its end.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolRequest, CallToolRequestParams, CallToolResponse, ClientRequest, PaginatedRequestParams};
use rmcp::model::{ProtocolVersion, ServerResult, Tool};
use rmcp::service::{ClientInitializeError, PeerRequestOptions, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use tokio_util::sync::CancellationToken;

use super::changes;
use super::client_handler::ServerRequestHandler;
use super::endpoint::{Endpoint, Launch};
use super::failure::{self, ConnectError};
use super::headers::Headers;
use super::http_client::BoundedClient;
use super::inspecting_transport::{InspectingTransport, Listener, News, OnProgress};
use super::pending::Pending;
use super::process::Process;
use super::program;
use super::{MAX_LISTED_TOOLS, MAX_PAGES};
use crate::http::Token;
use crate::lines::Lines;

/// How long a program may think about whether it knows the newest revision. It may have to start first.
const THINK: Duration = Duration::from_secs(4);
/// How long a server at a URL may. The network may be slow.
const THINK_LONG: Duration = Duration::from_secs(9);

/// What holds for a connection.
#[derive(Debug, Clone)]
pub(crate) struct ConnectOptions {
    /// Bytes of a message. A longer one ends the connection.
    pub(crate) longest: usize,
    /// Messages that nobody asked for, in one call or one minute. More end the connection.
    pub(crate) unasked: u32,
    /// Sent with every request over HTTP.
    pub(crate) headers: Headers,
}

/// A connection. Dropping it ends the program behind it.
pub(crate) struct Connection {
    service: RunningService<RoleClient, ServerRequestHandler>,
    process: Option<Process>,
    closed: CancellationToken,
    news: Arc<News>,
    /// Becomes true once a line was too long, or too many were no messages.
    overflowed: Arc<std::sync::atomic::AtomicBool>,
}

impl Connection {
    /// Connects and shakes hands.
    pub(crate) async fn open(endpoint: &Endpoint, terms: &ConnectOptions) -> Result<Self, ConnectError> {
        // Some servers answer the question of the newest revision with something that is no answer, or by ending. They are
        // greeted once more, as the revisions before it do.
        match Self::greet(endpoint, terms, newest_first()).await {
            Err(ConnectError::Handshake { .. }) => Self::greet(endpoint, terms, ClientLifecycleMode::Initialize).await,
            outcome => outcome,
        }
    }

    async fn greet(
        endpoint: &Endpoint,
        terms: &ConnectOptions,
        how: ClientLifecycleMode,
    ) -> Result<Self, ConnectError> {
        match endpoint {
            Endpoint::Process(launch) => Self::start(launch, terms, how).await,
            Endpoint::Http { url, token } => Self::reach(url, token.as_ref(), terms, how).await,
        }
    }

    async fn start(launch: &Launch, terms: &ConnectOptions, how: ClientLifecycleMode) -> Result<Self, ConnectError> {
        let program = || launch.program.display().to_string();
        program::check(launch).map_err(|why| ConnectError::NoProgram { program: program(), why })?;
        let failed = |source| ConnectError::Start { program: program(), source };
        let (process, output, input) = Process::start(launch).await.map_err(failed)?;
        let (closed, news) = (CancellationToken::new(), News::new(terms.unasked, THINK));
        let lines = Lines::<RoleClient, _, _>::new(output, input, terms.longest, closed.clone());
        let overflowed = lines.flooded();
        match shake_hands(lines, &news, &closed, how).await {
            Ok(service) => Ok(Self { service, process: Some(process), closed, news, overflowed }),
            Err(error) => {
                // A program that could not start says why, and then ends.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(failure::from_handshake(error, &process.last_words()))
            }
        }
    }

    async fn reach(
        url: &str,
        token: Option<&Token>,
        terms: &ConnectOptions,
        how: ClientLifecycleMode,
    ) -> Result<Self, ConnectError> {
        let client = http_client(url.starts_with("https:")).map_err(ConnectError::Client)?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url)
            .max_sse_event_size(terms.longest)
            .custom_headers(terms.headers.all());
        if let Some(token) = token {
            config = config.auth_header(token.reveal());
        }
        let transport = StreamableHttpClientTransport::with_client(BoundedClient::new(client, terms.longest), config);
        let (closed, news) = (CancellationToken::new(), News::new(terms.unasked, THINK_LONG));
        let service =
            shake_hands(transport, &news, &closed, how).await.map_err(|error| failure::from_address(error, url))?;
        Ok(Self { service, process: None, closed, news, overflowed: Arc::default() })
    }

    /// What is known of it from its messages.
    pub(crate) fn news(&self) -> &News {
        &self.news
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled() || self.service.is_closed() || self.service.is_transport_closed()
    }

    /// Whether it was closed because a message was far too long, or too much was none.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflowed.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What the program behind it said last.
    pub(crate) fn last_words(&self) -> String {
        self.process.as_ref().map(Process::last_words).unwrap_or_default()
    }

    pub(crate) async fn list(&self) -> Result<Vec<Tool>, ConnectError> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let asked = PaginatedRequestParams::default().with_cursor(cursor);
            let failed = |error: ServiceError| match self.news.was_flooded() || self.has_overflowed() {
                true => ConnectError::Flooded,
                false => ConnectError::List(Box::new(error)),
            };
            let page = self.unless_closed(self.service.list_tools(Some(asked))).await.map_err(failed)?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if tools.len() > MAX_LISTED_TOOLS {
                break;
            }
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(ConnectError::Endless)
    }

    /// Calls a tool. Dropping the future tells the server to stop.
    pub(crate) async fn call(
        &self,
        call: CallToolRequestParams,
        listener: Option<OnProgress>,
    ) -> Result<CallToolResponse, ServiceError> {
        let mut request = CallToolRequest::new(call);
        if let Some(listener) = listener {
            request.extensions.insert(Listener(listener));
        }
        let (peer, options) = (self.service.peer(), PeerRequestOptions::no_options());
        let sent = peer.send_request_with_option(ClientRequest::CallToolRequest(request), options).await?;
        let id = sent.id.clone();
        let answer = self.unless_closed(Pending::new(sent).answer()).await;
        // Where a request could not be sent, no answer ever comes that would end it.
        self.news.ended(&id);
        match answer? {
            ServerResult::CallToolResult(result) => Ok(CallToolResponse::Complete(result)),
            ServerResult::InputRequiredResult(result) => Ok(CallToolResponse::InputRequired(result)),
            ServerResult::CreateTaskResult(result) => Ok(CallToolResponse::Task(result)),
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }

    /// The library notices a closed connection only when it has done what is left to do.
    async fn unless_closed<T>(&self, answer: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ServiceError> {
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.closed.cancelled() => Err(ServiceError::TransportClosed),
        }
    }

    /// Ends it in good order.
    pub(crate) async fn close(self) {
        self.closed.cancel();
        let Self { mut service, process, .. } = self;
        let _in_time = service.close_with_timeout(Duration::from_millis(200)).await;
        if let Some(process) = process {
            process.end().await;
        }
    }
}

/// The newest revision first, and the one before it for those that do not know that.
fn newest_first() -> ClientLifecycleMode {
    ClientLifecycleMode::Auto {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        legacy_version: Some(ProtocolVersion::V_2025_11_25),
    }
}

async fn shake_hands<T: Transport<RoleClient> + 'static>(
    transport: T,
    news: &Arc<News>,
    closed: &CancellationToken,
    how: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, ServerRequestHandler>, ClientInitializeError> {
    let watched = InspectingTransport::new(transport, Arc::clone(news), closed.clone());
    let service = ServerRequestHandler.serve_with_lifecycle(watched, how).await?;
    changes::follow(service.peer(), closed);
    Ok(service)
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// No redirects, no proxy, and the system's root certificates if they are needed.
fn http_client(encrypted: bool) -> Result<reqwest::Client, AnyError> {
    use rustls_platform_verifier::BuilderVerifierExt as _;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let tls = match encrypted {
        true => tls.with_platform_verifier()?.with_no_client_auth(),
        false => tls.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth(),
    };
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .pool_max_idle_per_host(0);
    Ok(client.build()?)
}
