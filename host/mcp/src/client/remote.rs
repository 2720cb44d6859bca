//! A server as a set of tools: connected when needed, listed, pinned, called.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::content::Content;
use fumehood_core::digest::Digest;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::name::Namespace;
use fumehood_core::result::CallError;
use fumehood_core::sanitize::printable;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::ServiceError;
use serde_json::Value;
use tokio::sync::Mutex;

use super::backoff::Backoff;
use super::connection::{ConnectError, Connection};
use super::endpoint::Endpoint;
use super::foreign::RemoteTool;
use super::result;

/// Room in a message for all that is not the result.
const ENVELOPE: usize = 64 << 10;
/// Characters of a server's own words about a failure.
const WORDS: usize = 1000;

/// Limits for a server.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// How long a call may take, however long the server would.
    pub deadline: Duration,
    /// How long connecting and listing may take together.
    pub patience: Duration,
    /// Bytes of a result.
    pub output: usize,
    /// Tools that were approved, under the server's names, and the digests they were approved with. Those that are not
    /// among them are pinned as they are first seen.
    pub pins: BTreeMap<String, Digest>,
}

impl Default for RemoteOptions {
    /// A deadline of 30 s, 15 s to connect, results of 1 MiB, no pins.
    fn default() -> Self {
        let pins = BTreeMap::new();
        Self { deadline: Duration::from_secs(30), patience: Duration::from_secs(15), output: 1 << 20, pins }
    }
}

/// A server and its tools. Cheap to clone; all clones are the same.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    name: Namespace,
    endpoint: Endpoint,
    options: RemoteOptions,
    link: Mutex<Link>,
    seen: Lock<Seen>,
}

#[derive(Default)]
struct Link {
    connection: Option<Arc<Connection>>,
    backoff: Backoff,
}

/// What is known of the tools.
#[derive(Default)]
struct Seen {
    tools: BTreeMap<Arc<str>, RemoteTool>,
    pins: BTreeMap<Arc<str>, Digest>,
    refused: Vec<String>,
}

impl Remote {
    /// A server of this name. Nothing is started or connected to yet.
    #[must_use]
    pub fn new(name: Namespace, endpoint: Endpoint, options: RemoteOptions) -> Self {
        let pins = options.pins.iter().map(|(name, digest)| (Arc::from(name.as_str()), *digest)).collect();
        let seen = Lock::new(Seen { pins, ..Seen::default() });
        Self(Arc::new(Inner { name, endpoint, options, link: Mutex::default(), seen }))
    }

    /// What the server is called here.
    #[must_use]
    pub fn name(&self) -> &Namespace {
        &self.0.name
    }

    /// Its tools, in the order of their names, after connecting if need be. Those in quarantine are left out.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn tools(&self) -> Result<Vec<RemoteTool>, ConnectError> {
        self.connection().await?;
        let seen = self.seen();
        Ok(seen.tools.values().filter(|tool| !seen.is_changed(tool)).cloned().collect())
    }

    /// Tools that the server has and that cannot be used, each with the reason: a name or a description that is not
    /// acceptable, or one that is not what was pinned.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        let seen = self.seen();
        let changed = seen.tools.values().filter(|tool| seen.is_changed(tool));
        let changed = changed.map(|tool| format!("{}: it is not what was approved", printable(&tool.foreign)));
        seen.refused.iter().cloned().chain(changed).collect()
    }

    /// Calls a tool under the server's own name for it, within the deadline. Arguments were checked before.
    ///
    /// # Errors
    /// Whatever happened to the call or the server, as the failure of this one call.
    pub async fn call(&self, foreign: &str, arguments: Value) -> Result<Vec<Content>, CallError> {
        let deadline = self.0.options.deadline;
        let late = |_| {
            let why = format!("the server `{}` did not answer within {} ms", self.0.name, deadline.as_millis());
            Err(CallError::new(ErrorKind::Deadline, why).with_hint("ask for less at once"))
        };
        tokio::time::timeout(deadline, self.attempt(foreign, arguments)).await.unwrap_or_else(late)
    }

    async fn attempt(&self, foreign: &str, arguments: Value) -> Result<Vec<Content>, CallError> {
        let connection = self.connection().await.map_err(|error| self.unreachable(&error))?;
        self.is_as_pinned(foreign)?;
        let mut call = CallToolRequestParams::new(foreign.to_owned());
        if let Value::Object(arguments) = arguments {
            call = call.with_arguments(arguments);
        }
        match connection.call(call).await {
            Ok(CallToolResponse::Complete(answer)) => result::parts(answer, self.0.options.output),
            Ok(_) => Err(CallError::new(
                ErrorKind::ToolFailed,
                "the tool asks its user for something, which nobody here can give",
            )),
            Err(error) => Err(self.broken(&connection, error)),
        }
    }

    fn is_as_pinned(&self, foreign: &str) -> Result<(), CallError> {
        let seen = self.seen();
        match seen.tools.get(foreign) {
            None => Err(CallError::new(
                ErrorKind::UnknownTool,
                format!("the server `{}` no longer has the tool `{}`", self.0.name, printable(foreign)),
            )),
            Some(tool) if seen.is_changed(tool) => Err(CallError::new(
                ErrorKind::NeedsApproval,
                format!("the tool `{}` describes itself otherwise than when it was approved", tool.name),
            )
            .with_hint("someone has to look at its new description and approve it")),
            Some(_) => Ok(()),
        }
    }

    /// The failure of a call whose server broke, or said no.
    fn broken(&self, connection: &Connection, error: ServiceError) -> CallError {
        let name = &self.0.name;
        match error {
            ServiceError::McpError(error) if !connection.is_closed() => {
                let said: String = printable(&error.message).chars().take(WORDS).collect();
                CallError::new(ErrorKind::ToolFailed, format!("the server `{name}` refused the call: {said}"))
            }
            _ if connection.was_flooded() => {
                let most = self.0.options.output;
                let why = format!("the server `{name}` sent a message far over {most} bytes and was cut off");
                CallError::new(ErrorKind::OutputTooLarge, why).with_hint("ask for less at once")
            }
            error => {
                let words: String = printable(&connection.last_words()).chars().take(WORDS).collect();
                let said = if words.is_empty() { String::new() } else { format!("; it said: {words}") };
                CallError::new(ErrorKind::Unavailable, format!("the server `{name}` broke off: {error}{said}"))
                    .with_hint("it is started or connected to again with the next call")
            }
        }
    }

    fn unreachable(&self, error: &ConnectError) -> CallError {
        let mut why = format!("the server `{}` cannot be used: {error}", self.0.name);
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            why.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        let why: String = printable(&why).chars().take(WORDS).collect();
        let mut failure = CallError::new(ErrorKind::Unavailable, why);
        if let ConnectError::TooEarly(wait) = error {
            failure.retry_after = Some(*wait);
        }
        failure
    }

    /// The connection, made anew if there is none that works. Tools are listed, and compared with their pins, with every
    /// new one and whenever the server says that they changed.
    async fn connection(&self) -> Result<Arc<Connection>, ConnectError> {
        let mut link = self.0.link.lock().await;
        if let Some(connection) = link.connection.take_if(|connection| connection.is_closed()) {
            drop(connection);
            link.backoff.failed(Instant::now());
        }
        let patience = self.0.options.patience;
        let connected = match &link.connection {
            Some(connection) if !connection.changed() => return Ok(Arc::clone(connection)),
            Some(connection) => {
                let connection = Arc::clone(connection);
                tokio::time::timeout(patience, async { self.look(&connection).await.map(|()| connection) }).await
            }
            None => {
                if let Some(wait) = link.backoff.wait(Instant::now()) {
                    return Err(ConnectError::TooEarly(wait));
                }
                tokio::time::timeout(patience, self.connect()).await
            }
        };
        match connected.unwrap_or(Err(ConnectError::Late(patience))) {
            Ok(connection) => {
                link.backoff.worked();
                link.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                link.connection = None;
                link.backoff.failed(Instant::now());
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Connection>, ConnectError> {
        // Base64 makes four bytes of three, and escapes can double a text.
        let longest = self.0.options.output.saturating_mul(2).saturating_add(ENVELOPE).max(1 << 20);
        let connection = Arc::new(Connection::open(&self.0.endpoint, longest).await?);
        self.look(&connection).await?;
        Ok(connection)
    }

    async fn look(&self, connection: &Connection) -> Result<(), ConnectError> {
        let listed = connection.list().await?;
        let (mut tools, mut refused) = (BTreeMap::new(), Vec::new());
        for tool in &listed {
            match RemoteTool::of(&self.0.name, tool) {
                Ok(tool) => drop(tools.insert(Arc::clone(&tool.foreign), tool)),
                Err(why) => refused.push(why),
            }
        }
        let mut seen = self.seen();
        for (name, tool) in &tools {
            seen.pins.entry(Arc::clone(name)).or_insert(tool.digest);
        }
        (seen.tools, seen.refused) = (tools, refused);
        Ok(())
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection, and the program behind it, in good order.
    pub async fn close(&self) {
        let connection = self.0.link.lock().await.connection.take();
        if let Some(connection) = connection.and_then(Arc::into_inner) {
            connection.close().await;
        }
    }
}

impl Seen {
    fn is_changed(&self, tool: &RemoteTool) -> bool {
        self.pins.get(&tool.foreign).is_some_and(|pin| *pin != tool.digest)
    }
}
