//! The events of one answer, read from the provider within the bounds of the transport, on threads that serve nothing else.

use std::pin::pin;
use std::sync::Arc;

use fumehood_transport::{
    EventLimits, Framing, Relay, RelayClient, ResponseLimits, Roots, Task, Transport, TransportError, Url, spawn,
};
use futures_util::StreamExt as _;
use genai::chat::{ChatOptions, ChatRequest, ChatStreamEvent};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ServiceTarget};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::config::ProviderConfig;
use crate::replies::{ReplyTranslation, SharedNotes};
use crate::spec::Service;

/// Size by which an event may exceed an answer, in bytes. Some providers send a whole answer in one event.
const MAX_EVENT_OVERHEAD_BYTES: usize = 1 << 20;
/// Maximum number of events of an answer.
const MAX_EVENTS: u64 = 1 << 20;
/// Maximum number of values of one event.
const MAX_VALUES: usize = 1 << 20;
/// Number of events of full size that an answer may have. Most are one word in 300 bytes of JSON.
const MAX_EVENTS_OF_FULL_SIZE: u64 = 8;
/// Number of events that wait for their reader.
const QUEUED_EVENTS: usize = 16;
/// Number of connections that are kept open.
const MAX_IDLE_CONNECTIONS: usize = 4;

/// Errors of reading an answer.
#[derive(Debug)]
pub(crate) enum StreamError {
    /// The request failed, or its response exceeds a bound.
    Transport(TransportError),
    /// The response is no answer.
    Library(genai::Error),
}

/// The way to a provider. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Connector(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    service: Service,
    transport: Transport,
    library: Client,
    limits: ResponseLimits,
    events: EventLimits,
}

/// The events of one answer. Dropping it ends the request.
pub(crate) struct AnswerStream {
    events: mpsc::Receiver<Result<ChatStreamEvent, StreamError>>,
    notes: SharedNotes,
    _task: Task<()>,
}

impl Connector {
    /// Creates the way to a provider that may be reached over TLS, and through a proxy.
    ///
    /// # Errors
    /// If a client cannot be set up.
    pub(crate) fn new(
        service: Service,
        config: &ProviderConfig,
        encrypted: bool,
        proxy: Option<Url>,
    ) -> Result<Self, TransportError> {
        let mut transport = Transport::builder()
            .roots(Roots::if_encrypted(encrypted))
            .connect_timeout(config.timeouts.connect)
            .max_idle_connections(MAX_IDLE_CONNECTIONS);
        if let Some(proxy) = proxy {
            transport = transport.proxy(proxy);
        }
        let timeouts = &config.timeouts;
        let max_event_bytes = config.max_reply_bytes.saturating_add(MAX_EVENT_OVERHEAD_BYTES);
        let limits = ResponseLimits {
            head: timeouts.total,
            idle: timeouts.first_token.max(timeouts.between_chunks).saturating_add(timeouts.connect),
            total: Some(timeouts.total),
            max_bytes: (max_event_bytes as u64).saturating_mul(MAX_EVENTS_OF_FULL_SIZE),
            ..ResponseLimits::default()
        };
        let framing = if service == Service::Ollama { Framing::Lines } else { Framing::ServerSent };
        let events = EventLimits { framing, max_event_bytes, max_events: MAX_EVENTS, max_values: MAX_VALUES };
        let client: RelayClient = Relay::client()?;
        let library = Client::builder().with_reqwest(client).build();
        let library = library.map_err(|error| TransportError::Setup(error.to_string()))?;
        Ok(Self(Arc::new(Inner { service, transport: transport.build()?, library, limits, events })))
    }

    /// Returns the provider library, which reaches no server by itself.
    pub(crate) fn library(&self) -> &Client {
        &self.0.library
    }

    /// Sends a request to the server at `base`, whose path ends in a slash.
    ///
    /// # Errors
    /// If the threads cannot be started.
    pub(crate) fn send(
        &self,
        target: ServiceTarget,
        base: Url,
        chat: ChatRequest,
        options: ChatOptions,
    ) -> Result<AnswerStream, TransportError> {
        let (sender, events) = mpsc::channel(QUEUED_EVENTS);
        let inner = Arc::clone(&self.0);
        let (translation, notes) = ReplyTranslation::new(inner.service);
        let reading = async move {
            let request = PreparedChat { target, chat, options };
            if let Err(error) = inner.read(request, &base, translation, &sender).await {
                // A reader that is gone wants no error.
                let _gone = sender.send(Err(error)).await;
            }
        };
        let task = spawn(reading.in_current_span())?;
        Ok(AnswerStream { events, notes, _task: task })
    }
}

/// A request of the library.
struct PreparedChat {
    target: ServiceTarget,
    chat: ChatRequest,
    options: ChatOptions,
}

impl Inner {
    /// Reads an answer, and passes its events on until the reader is gone.
    async fn read(
        &self,
        request: PreparedChat,
        base: &Url,
        translation: ReplyTranslation,
        sender: &mpsc::Sender<Result<ChatStreamEvent, StreamError>>,
    ) -> Result<(), StreamError> {
        let PreparedChat { mut target, chat, options } = request;
        let relay = Relay::open().await.map_err(StreamError::Transport)?.translation(Box::new(translation));
        target.endpoint = Endpoint::from_owned(relay.base_url());
        if let AuthData::RequestOverride { url, .. } = &mut target.auth {
            *url = url.replacen(base.as_str(), relay.base_url(), 1);
        }
        let answer = self.library.exec_chat_stream(target, chat, Some(&options)).await;
        let mut stream = answer.map_err(StreamError::Library)?.stream;
        let mut relaying = pin!(relay.serve(&self.transport, base, self.limits, self.events));
        let mut relayed = None;
        loop {
            tokio::select! {
                outcome = &mut relaying, if relayed.is_none() => relayed = Some(outcome),
                event = stream.next() => {
                    let event = match (event, relayed.take()) {
                        // The library sees no more of it than a connection that ended.
                        (None | Some(Err(_)), Some(Err(error))) => return Err(StreamError::Transport(error)),
                        (None, _) => return Ok(()),
                        (Some(event), outcome) => {
                            relayed = outcome;
                            event.map_err(StreamError::Library)?
                        }
                    };
                    if sender.send(Ok(event)).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

impl AnswerStream {
    /// Waits for the next event. Returns `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<ChatStreamEvent, StreamError>> {
        self.events.recv().await
    }

    /// Returns the facts about the answer that the library does not report.
    pub(crate) fn notes(&self) -> &SharedNotes {
        &self.notes
    }
}
