//! Live events of a loop: its records on their way to the log, and events that are not recorded.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::Delta;
use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder};
use tokio::sync::mpsc;

use crate::driver::DecisionFault;

/// An event of a loop.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// A record that also goes to the log.
    Record(Box<Record>),
    /// A piece of an answer that is still being written.
    Delta {
        /// The id of the session.
        session: Arc<str>,
        /// The piece.
        delta: Delta,
    },
    /// A warning for the operator.
    Warning {
        /// The id of the session.
        session: Arc<str>,
        /// The message.
        message: String,
    },
}

/// The kind of an [`AgentEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventName {
    /// A session began.
    SessionStarted,
    /// A user message arrived.
    UserMessage,
    /// A request is about to be sent to the model.
    InferenceRequestStarted,
    /// The model has answered.
    InferenceResponseReceived,
    /// The model gave no answer.
    InferenceFailed,
    /// No decision was found in the model's replies.
    DecisionExtractionFailed,
    /// The model's decision is not a valid one.
    ValidationFailed,
    /// A call was allowed, changed or denied.
    Verdict,
    /// A call passed every check and started.
    ToolCallStarted,
    /// A running call reported a partial result.
    ToolCallPartial,
    /// A call ran and ended, with or without an error.
    ToolCallCompleted,
    /// The result of a call is ready in the form that the model receives.
    ToolCallResult,
    /// A call was refused before it ran.
    ToolCallRejected,
    /// Knowledge was read.
    KnowledgeUsed,
    /// A step ended.
    StepFinished,
    /// A session ended.
    SessionFinished,
    /// A piece of an answer arrived.
    Delta,
    /// A warning for the operator.
    Warning,
}

impl AgentEvent {
    /// Returns the kind of the event.
    #[must_use]
    pub fn name(&self) -> EventName {
        match self {
            Self::Record(record) => event_name(record),
            Self::Delta { .. } => EventName::Delta,
            Self::Warning { .. } => EventName::Warning,
        }
    }
}

fn event_name(record: &Record) -> EventName {
    match record.kind {
        RecordKind::SessionStarted => EventName::SessionStarted,
        RecordKind::UserMessage => EventName::UserMessage,
        RecordKind::ModelAsked => EventName::InferenceRequestStarted,
        RecordKind::ModelAnswered => EventName::InferenceResponseReceived,
        RecordKind::ModelFailed => EventName::InferenceFailed,
        RecordKind::DecisionFailed if record.status.as_deref() == Some(DecisionFault::Validation.as_str()) => {
            EventName::ValidationFailed
        }
        RecordKind::DecisionFailed => EventName::DecisionExtractionFailed,
        RecordKind::Verdict => EventName::Verdict,
        RecordKind::ToolStarted => EventName::ToolCallStarted,
        RecordKind::ToolPartial => EventName::ToolCallPartial,
        RecordKind::ToolFinished => EventName::ToolCallCompleted,
        RecordKind::ToolResult => EventName::ToolCallResult,
        RecordKind::ToolRejected => EventName::ToolCallRejected,
        RecordKind::KnowledgeUsed => EventName::KnowledgeUsed,
        RecordKind::StepFinished => EventName::StepFinished,
        RecordKind::SessionFinished => EventName::SessionFinished,
    }
}

type Callback = Box<dyn Fn(&AgentEvent) + Send + Sync>;

/// A receiver of events, and the events that it receives.
enum Subscriber {
    Callback { only: Option<EventName>, callback: Callback },
    Channel { sender: mpsc::Sender<Arc<AgentEvent>>, lost: Arc<AtomicU64> },
}

/// A recorder that forwards every record to another one, and then to its subscribers.
///
/// Give the same tap to the agent and to the executor, so that subscribers receive the events of calls as well, in the
/// order of the log.
pub struct Tap {
    inner: Arc<dyn Recorder>,
    has_any: AtomicBool,
    subscribers: RwLock<Vec<Subscriber>>,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").finish_non_exhaustive()
    }
}

impl Tap {
    /// Creates a tap in front of `inner`, without subscribers.
    #[must_use]
    pub fn new(inner: Arc<dyn Recorder>) -> Self {
        Self { inner, has_any: AtomicBool::new(false), subscribers: RwLock::default() }
    }

    /// Calls `callback` with every event, inside the loop. It must not block, panic or subscribe to this tap.
    pub fn wiretap(&self, callback: impl Fn(&AgentEvent) + Send + Sync + 'static) {
        self.add(Subscriber::Callback { only: None, callback: Box::new(callback) });
    }

    /// Like [`Tap::wiretap`], with events of this name only.
    pub fn on_event(&self, name: EventName, callback: impl Fn(&AgentEvent) + Send + Sync + 'static) {
        self.add(Subscriber::Callback { only: Some(name), callback: Box::new(callback) });
    }

    /// Subscribes to every event, through a channel with room for `capacity` (at least 1) of them.
    ///
    /// The loop never waits: an event that does not fit is dropped for this subscriber, and counted in
    /// [`Subscription::lost_events`].
    pub fn subscribe(&self, capacity: usize) -> Subscription {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let lost = Arc::new(AtomicU64::new(0));
        self.add(Subscriber::Channel { sender, lost: Arc::clone(&lost) });
        Subscription { receiver, lost }
    }

    fn add(&self, subscriber: Subscriber) {
        self.subscribers.write().unwrap_or_else(PoisonError::into_inner).push(subscriber);
        self.has_any.store(true, Ordering::Release);
    }

    /// Returns whether there are subscribers.
    pub(super) fn has_subscribers(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Passes an event to the subscribers, without recording it.
    pub(super) fn notify(&self, event: AgentEvent) {
        let event = Arc::new(event);
        let mut has_closed = false;
        for subscriber in self.subscribers.read().unwrap_or_else(PoisonError::into_inner).iter() {
            match subscriber {
                Subscriber::Callback { only, callback } => {
                    if only.is_none_or(|name| name == event.name()) {
                        callback(&event);
                    }
                }
                Subscriber::Channel { sender, lost } => match sender.try_send(Arc::clone(&event)) {
                    Ok(()) => {}
                    Err(mpsc::error::TrySendError::Full(_)) => {
                        lost.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(mpsc::error::TrySendError::Closed(_)) => has_closed = true,
                },
            }
        }
        if has_closed {
            self.remove_closed();
        }
    }

    fn remove_closed(&self) {
        let mut subscribers = self.subscribers.write().unwrap_or_else(PoisonError::into_inner);
        subscribers
            .retain(|subscriber| !matches!(subscriber, Subscriber::Channel { sender, .. } if sender.is_closed()));
        self.has_any.store(!subscribers.is_empty(), Ordering::Release);
    }
}

impl Recorder for Tap {
    fn record(&self, record: Record, durability: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        if !self.has_subscribers() {
            return self.inner.record(record, durability);
        }
        let taken = self.inner.record(record.clone(), durability);
        self.notify(AgentEvent::Record(Box::new(record)));
        taken
    }

    fn is_enabled(&self) -> bool {
        self.has_subscribers() || self.inner.is_enabled()
    }
}

/// The receiving end of [`Tap::subscribe`].
#[derive(Debug)]
pub struct Subscription {
    receiver: mpsc::Receiver<Arc<AgentEvent>>,
    lost: Arc<AtomicU64>,
}

impl Subscription {
    /// Waits for the next event. Returns `None` once the tap is dropped.
    pub async fn next(&mut self) -> Option<Arc<AgentEvent>> {
        self.receiver.recv().await
    }

    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<AgentEvent>> {
        self.receiver.try_recv().ok()
    }

    /// Returns the number of events that were dropped because the channel was full.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
