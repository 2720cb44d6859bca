//! A server as a set of tools: connected when needed, listed, pinned, called.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::{Duration, Instant};

use fumehood_core::content::Content;
use fumehood_core::digest::Digest;
use fumehood_core::error_kind::ErrorKind;
use fumehood_core::name::Namespace;
use fumehood_core::redact::Redactor;
use fumehood_core::result::CallError;
use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::ServiceError;
use serde_json::Value;
use tokio::sync::Mutex;

use super::call_tool_result;
use super::connect_error::ConnectError;
use super::connection::{Backoff, ConnectOptions, Connection};
use super::endpoint::Endpoint;
use super::headers::Headers;
use super::progress::OnProgress;
use super::remote_tool::RemoteTool;
use super::tool_notice::ToolNotice;
use super::tool_pins::{Sizes, ToolList, ToolPins};

/// Room in a message for all that is not the result.
const MAX_ENVELOPE_BYTES: usize = 64 << 10;
/// Characters of a server's own words about a failure.
const MAX_QUOTED_CHARS: usize = 1000;

/// Limits for a server.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// How long a call may take, however long the server would.
    pub deadline: Duration,
    /// How long connecting and listing may take together.
    pub patience: Duration,
    /// Bytes of a result.
    pub output: usize,
    /// Bytes of a single string in the arguments of a call.
    pub string: usize,
    /// Messages that the server may send without being asked, in one call or in one minute between calls: news, logs,
    /// requests. More end the connection.
    pub unasked: u32,
    /// Only these of its tools are used, by the server's own names; all if not said.
    pub only: Option<BTreeSet<String>>,
    /// Sent with every request to a server at a URL.
    pub headers: Headers,
    /// Takes what is secret out of whatever the server says in its calls.
    pub redactor: Option<Redactor>,
    /// Tools that were approved, under the server's names, and the digests they were approved with. Those that are not
    /// among them are pinned as they are first seen.
    pub pins: BTreeMap<String, Digest>,
}

impl Default for RemoteOptions {
    /// A deadline of 30 s, 15 s to connect, results and strings of 1 MiB, 10,000 messages that nobody asked for, all tools, no further
    /// headers, no secrets, no pins.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(30),
            patience: Duration::from_secs(15),
            output: 1 << 20,
            string: 1 << 20,
            unasked: 10_000,
            only: None,
            headers: Headers::default(),
            redactor: None,
            pins: BTreeMap::new(),
        }
    }
}

/// A server and its tools. Cheap to clone; all clones are the same.
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

impl Remote {
    /// A server of this name. Nothing is started or connected to yet.
    #[must_use]
    pub fn new(name: Namespace, endpoint: Endpoint, options: RemoteOptions) -> Self {
        let pins = options.pins.iter().map(|(name, digest)| (Arc::from(name.as_str()), *digest)).collect();
        let pins = Lock::new(ToolPins::new(pins));
        Self(Arc::new(Inner { name, endpoint, options, state: Mutex::default(), pins }))
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
        Ok(self.pins().tools())
    }

    /// Tools that the server has and that cannot be used, each with the reason: a name or a description that is not
    /// acceptable, or one that is not what was pinned.
    #[must_use]
    pub fn rejected_tools(&self) -> Vec<ToolNotice> {
        self.pins().rejected()
    }

    /// What of the schemas of its tools is not checked here, such as patterns with look-around. The server checks its
    /// arguments itself.
    #[must_use]
    pub fn unchecked_schemas(&self) -> Vec<ToolNotice> {
        self.pins().unchecked()
    }

    /// How long one of its calls may take.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.0.options.deadline
    }

    /// Calls a tool under the server's own name for it, within the deadline. Arguments were checked before.
    ///
    /// # Errors
    /// Whatever happened to the call or the server, as the failure of this one call.
    pub async fn call(&self, foreign: &str, arguments: Value) -> Result<Vec<Content>, CallError> {
        self.call_observed(foreign, arguments, None).await
    }

    /// The same, with somebody to tell of its progress.
    ///
    /// # Errors
    /// As for [`Remote::call`].
    pub async fn call_observed(
        &self,
        foreign: &str,
        arguments: Value,
        listener: Option<OnProgress>,
    ) -> Result<Vec<Content>, CallError> {
        let listener = listener.map(|listener| self.redact_progress(listener));
        let result = tokio::time::timeout(self.0.options.deadline, self.attempt(foreign, arguments, listener)).await;
        let mut outcome = match result {
            Ok(outcome) => outcome,
            Err(_elapsed) => Err(self.deadline_error()),
        };
        if let Some(redactor) = &self.0.options.redactor {
            match &mut outcome {
                Ok(parts) => parts.iter_mut().for_each(|part| redactor.in_content(part)),
                Err(error) => redactor.in_error(error),
            }
        }
        outcome
    }

    /// Tells of progress without what is secret.
    fn redact_progress(&self, listener: OnProgress) -> OnProgress {
        let this = self.clone();
        Arc::new(move |mut progress| {
            if let (Some(redactor), Some(message)) = (&this.0.options.redactor, &mut progress.message) {
                redactor.in_printable(message);
            }
            listener(progress);
        })
    }

    async fn attempt(
        &self,
        foreign: &str,
        arguments: Value,
        listener: Option<OnProgress>,
    ) -> Result<Vec<Content>, CallError> {
        let connection = self.connection().await.map_err(|error| self.connect_error(&error))?;
        let known = self.pins().callable(&self.0.name, foreign)?;
        let mut call = CallToolRequestParams::new(foreign.to_owned());
        if let Value::Object(arguments) = arguments {
            call = call.with_arguments(arguments);
        }
        match connection.call(call, listener).await {
            Ok(CallToolResponse::Complete(answer)) => {
                let parts = call_tool_result::into_content(answer, self.0.options.output)?;
                match known.results {
                    Some(gate) => call_tool_result::check_output(gate, parts).await,
                    None => Ok(parts),
                }
            }
            Ok(_) => Err(CallError::new(
                ErrorKind::ToolFailed,
                "the tool asks its user for something, which nobody here can give",
            )),
            Err(error) => Err(self.service_error(&connection, error)),
        }
    }

    fn deadline_error(&self) -> CallError {
        let deadline = self.0.options.deadline.as_millis();
        let mut why = format!("the server `{}` did not answer within {deadline} ms, its `timeout`", self.0.name);
        // Somebody who connects holds the lock, and then there is nothing to tell.
        let unmatched = self.0.state.try_lock().ok();
        let unmatched =
            unmatched.and_then(|state| Some(state.connection.as_ref()?.tracker().unmatched_answers())).unwrap_or(0);
        if unmatched > 0 {
            why.push_str(&format!("; it sent {unmatched} answers to questions that nobody asked"));
        }
        CallError::new(ErrorKind::Deadline, why).with_hint("ask for less at once")
    }

    /// The failure of a call whose server broke, or said no.
    fn service_error(&self, connection: &Connection, error: ServiceError) -> CallError {
        let name = &self.0.name;
        match error {
            ServiceError::McpError(error) if !connection.is_closed() => {
                let said: String = error.message.chars().take(MAX_QUOTED_CHARS).collect();
                CallError::new(ErrorKind::ToolFailed, format!("the server `{name}` refused the call: {said}"))
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
                let words: String = connection.stderr_tail().chars().take(MAX_QUOTED_CHARS).collect();
                let said = if words.is_empty() { String::new() } else { format!("; it said: {words}") };
                CallError::new(ErrorKind::Unavailable, format!("the server `{name}` broke off: {error}{said}"))
                    .with_hint("it is started or connected to again with the next call")
            }
        }
    }

    fn connect_error(&self, error: &ConnectError) -> CallError {
        let mut why = format!("the server `{}` cannot be used: {error}", self.0.name);
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            why.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        let why: String = why.chars().take(MAX_QUOTED_CHARS).collect();
        let mut failure = CallError::new(ErrorKind::Unavailable, why);
        if let ConnectError::TooEarly(wait) = error {
            failure.retry_after = Some(*wait);
        }
        failure
    }

    /// The connection, made anew if there is none that works. Tools are listed, and compared with their pins, with every
    /// new one and whenever the server says that they changed.
    async fn connection(&self) -> Result<Arc<Connection>, ConnectError> {
        let mut state = self.0.state.lock().await;
        if let Some(connection) = state.connection.take_if(|connection| connection.is_closed()) {
            drop(connection);
            state.backoff.record_failure(Instant::now());
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
                state.backoff.reset();
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
        // Base64 makes four bytes of three, and escapes can double a text.
        let max_message_bytes = output.saturating_mul(2).saturating_add(MAX_ENVELOPE_BYTES).max(1 << 20);
        let connect_options = ConnectOptions { max_message_bytes, max_unsolicited: *unasked, headers: headers.clone() };
        let connection = Arc::new(Connection::open(&self.0.endpoint, &connect_options).await?);
        self.refresh_tools(&connection).await?;
        Ok(connection)
    }

    async fn refresh_tools(&self, connection: &Connection) -> Result<(), ConnectError> {
        let tools = connection.list().await?;
        let this = self.clone();
        let parse = move || {
            let RemoteOptions { only, output, string, .. } = &this.0.options;
            ToolList::new(&this.0.name, &tools, only.as_ref(), Sizes { string: *string, output: *output })
        };
        // Other people's schemas may take long to compile.
        let listed = tokio::task::spawn_blocking(parse).await.map_err(|error| ConnectError::List(Box::new(error)))?;
        self.pins().update(listed);
        Ok(())
    }

    fn pins(&self) -> std::sync::MutexGuard<'_, ToolPins> {
        self.0.pins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection, and the program behind it, in good order.
    pub async fn close(&self) {
        let connection = self.0.state.lock().await.connection.take();
        if let Some(connection) = connection.and_then(Arc::into_inner) {
            connection.close().await;
        }
    }
}
