//! One connection to a server, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fumehood_core::sanitize::printable;
use rmcp::model::{CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation};
use rmcp::model::{PaginatedRequestParams, ProtocolVersion, Tool};
use rmcp::service::{ClientInitializeError, NotificationContext, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, RoleClient};
use tokio_util::sync::CancellationToken;

use super::endpoint::{Endpoint, Launch};
use super::process::Process;
use crate::http::Token;
use crate::lines::Lines;

/// Pages of tools that are asked for.
const PAGES: usize = 64;

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The program cannot be started.
    #[error("cannot start {program}")]
    Start {
        /// Which program.
        program: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// There can be no HTTP client.
    #[error("cannot make an HTTP client")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It does not speak MCP, or none that is known here.
    #[error("the server did not begin as MCP servers do{said}")]
    Handshake {
        /// Its last words, in a form to append.
        said: String,
        /// What went wrong.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It cannot say which tools it has.
    #[error("the server did not list its tools")]
    List(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It lists more than anybody could use.
    #[error("the server lists more than {0} pages of tools")]
    Endless(usize),
    /// It took too long.
    #[error("the server did not answer within {0:?}")]
    Late(Duration),
    /// It failed a moment ago.
    #[error("the server failed a moment ago; it is tried again in {0:?}")]
    TooEarly(Duration),
}

/// A connection. Dropping it ends the program behind it.
pub(crate) struct Connection {
    service: RunningService<RoleClient, Ears>,
    process: Option<Process>,
    closed: CancellationToken,
    /// Whether the server said that its tools changed.
    changed: Arc<AtomicBool>,
    /// Whether it sent more than anybody asked for.
    flooded: Arc<AtomicBool>,
}

/// Hears what a server says of its own accord. It may ask for nothing.
pub(crate) struct Ears(Arc<AtomicBool>);

impl ClientHandler for Ears {
    fn get_info(&self) -> ClientConfig {
        let this = Implementation::new("fumehood", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), this)
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Connection {
    /// Connects and shakes hands. A message over `longest` bytes ends the connection.
    pub(crate) async fn open(endpoint: &Endpoint, longest: usize) -> Result<Self, ConnectError> {
        match endpoint {
            Endpoint::Process(launch) => Self::start(launch, longest).await,
            Endpoint::Http { url, token } => Self::reach(url, token.as_ref(), longest).await,
        }
    }

    async fn start(launch: &Launch, longest: usize) -> Result<Self, ConnectError> {
        let failed = |source| ConnectError::Start { program: launch.program.display().to_string(), source };
        let (process, output, input) = Process::start(launch).map_err(failed)?;
        let (closed, changed) = (CancellationToken::new(), Arc::default());
        let lines = Lines::new(output, input, longest, closed.clone());
        let flooded = lines.flooded();
        match Ears(Arc::clone(&changed)).serve_with_lifecycle(lines, ClientLifecycleMode::Initialize).await {
            Ok(service) => Ok(Self { service, process: Some(process), closed, changed, flooded }),
            Err(error) => {
                // A program that could not start says why, and then ends.
                tokio::time::sleep(Duration::from_millis(50)).await;
                Err(handshake(error, &process.last_words()))
            }
        }
    }

    /// Some servers answer the question of the newest revision with something that is no answer, so that a server which
    /// cannot be reached that way is greeted once more as the revisions before it do.
    async fn reach(url: &str, token: Option<&Token>, longest: usize) -> Result<Self, ConnectError> {
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        match Self::greet(url, token, longest, lifecycle).await {
            Err(ConnectError::Handshake { .. }) => {
                Self::greet(url, token, longest, ClientLifecycleMode::Initialize).await
            }
            outcome => outcome,
        }
    }

    async fn greet(
        url: &str,
        token: Option<&Token>,
        longest: usize,
        lifecycle: ClientLifecycleMode,
    ) -> Result<Self, ConnectError> {
        let client = http_client(url.starts_with("https:")).map_err(ConnectError::Client)?;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url).max_sse_event_size(longest);
        if let Some(token) = token {
            config = config.auth_header(token.reveal());
        }
        let transport = StreamableHttpClientTransport::with_client(client, config);
        let changed = Arc::default();
        let service = Ears(Arc::clone(&changed)).serve_with_lifecycle(transport, lifecycle).await;
        let service = service.map_err(|error| handshake(error, ""))?;
        Ok(Self { service, process: None, closed: CancellationToken::new(), changed, flooded: Arc::default() })
    }

    /// Whether the server said that its tools changed, since this was asked last.
    pub(crate) fn changed(&self) -> bool {
        self.changed.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_cancelled() || self.service.is_closed() || self.service.is_transport_closed()
    }

    /// Whether it was closed because a message was far too long.
    pub(crate) fn was_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }

    /// What the program behind it said last.
    pub(crate) fn last_words(&self) -> String {
        self.process.as_ref().map(Process::last_words).unwrap_or_default()
    }

    pub(crate) async fn list(&self) -> Result<Vec<Tool>, ConnectError> {
        let (mut tools, mut cursor) = (Vec::new(), None);
        for _ in 0..PAGES {
            let asked = PaginatedRequestParams::default().with_cursor(cursor);
            let failed = |error: ServiceError| ConnectError::List(Box::new(error));
            let page = self.service.list_tools(Some(asked)).await.map_err(failed)?;
            tools.extend(page.tools);
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(tools);
            }
        }
        Err(ConnectError::Endless(PAGES))
    }

    /// Calls a tool. Dropping the future tells the server to stop.
    pub(crate) async fn call(&self, call: CallToolRequestParams) -> Result<CallToolResponse, ServiceError> {
        self.service.peer().call_tool_once(call).await
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

fn handshake(error: ClientInitializeError, words: &str) -> ConnectError {
    let said = match printable(words) {
        words if words.is_empty() => String::new(),
        words => format!("; it said: {words}"),
    };
    ConnectError::Handshake { said, source: Box::new(error) }
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
