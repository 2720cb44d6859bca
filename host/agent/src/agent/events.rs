//! What happens in a loop, seen live: records on their way to the log, and what is too fleeting to be kept.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::Delta;
use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder};
use tokio::sync::mpsc;

use crate::driver::DecisionFault;

/// One thing that happens.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// Something that is also kept.
    Record(Box<Record>),
    /// A piece of an answer that is still being written.
    Delta {
        /// Which session.
        session: Arc<str>,
        /// The piece.
        delta: Delta,
    },
    /// Something that an operator should know.
    Warning {
        /// Which session.
        session: Arc<str>,
        /// What.
        message: String,
    },
}

/// What sort of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventName {
    /// A session began.
    SessionStarted,
    /// A person or a program said something.
    UserMessage,
    /// The model is about to be asked.
    InferenceRequestStarted,
    /// The model has answered.
    InferenceResponseReceived,
    /// The model gave no answer.
    InferenceFailed,
    /// No decision could be found in the model's replies.
    DecisionExtractionFailed,
    /// The model's decision is not a valid one.
    ValidationFailed,
    /// A call was allowed, changed or denied.
    Verdict,
    /// A call passed every check and runs.
    ToolCallStarted,
    /// A running call has news.
    ToolCallPartial,
    /// A call ran and ended, well or badly.
    ToolCallCompleted,
    /// The result of a call is ready, as the model is told it.
    ToolCallResult,
    /// A call was refused before it ran.
    ToolCallRejected,
    /// Knowledge was read.
    KnowledgeUsed,
    /// A step ended.
    StepFinished,
    /// A session ended.
    SessionFinished,
    /// A piece of an answer came.
    Delta,
    /// Something that an operator should know.
    Warning,
}

impl AgentEvent {
    /// What sort of event it is.
    #[must_use]
    pub fn name(&self) -> EventName {
        match self {
            Self::Record(record) => name_of(record),
            Self::Delta { .. } => EventName::Delta,
            Self::Warning { .. } => EventName::Warning,
        }
    }
}

fn name_of(record: &Record) -> EventName {
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

/// Whom to tell, and about what.
enum Subscriber {
    Callback { only: Option<EventName>, callback: Callback },
    Channel { sender: mpsc::Sender<Arc<AgentEvent>>, lost: Arc<AtomicU64> },
}

/// A recorder in front of another: every record goes on to that one, and then to whoever watches. Give the same tap to
/// the agent and to the executor, and watchers see the calls among the rest, in the order of the log.
pub struct Tap {
    inner: Arc<dyn Recorder>,
    watched: AtomicBool,
    watchers: RwLock<Vec<Subscriber>>,
}

impl Tap {
    /// In front of `inner`, with nobody watching.
    #[must_use]
    pub fn new(inner: Arc<dyn Recorder>) -> Self {
        Self { inner, watched: AtomicBool::new(false), watchers: RwLock::default() }
    }

    /// Calls `callback` with every event, in the middle of the loop: it must not block, panic or watch this tap.
    pub fn wiretap(&self, callback: impl Fn(&AgentEvent) + Send + Sync + 'static) {
        self.add(Subscriber::Callback { only: None, callback: Box::new(callback) });
    }

    /// Calls `callback` with every event of this name; see [`Tap::wiretap`].
    pub fn on_event(&self, name: EventName, callback: impl Fn(&AgentEvent) + Send + Sync + 'static) {
        self.add(Subscriber::Callback { only: Some(name), callback: Box::new(callback) });
    }

    /// Every event, through a channel with room for `capacity` (at least 1) of them. What does not fit is lost to this
    /// subscriber and counted; the loop never waits.
    pub fn subscribe(&self, capacity: usize) -> Subscription {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let lost = Arc::new(AtomicU64::new(0));
        self.add(Subscriber::Channel { sender, lost: Arc::clone(&lost) });
        Subscription { receiver, lost }
    }

    fn add(&self, watcher: Subscriber) {
        self.watchers.write().unwrap_or_else(PoisonError::into_inner).push(watcher);
        self.watched.store(true, Ordering::Release);
    }

    /// Whether anybody watches.
    pub(super) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Acquire)
    }

    /// Tells whoever watches. Nothing is kept.
    pub(super) fn tell(&self, event: AgentEvent) {
        let event = Arc::new(event);
        let mut gone = false;
        for watcher in self.watchers.read().unwrap_or_else(PoisonError::into_inner).iter() {
            match watcher {
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
                    Err(mpsc::error::TrySendError::Closed(_)) => gone = true,
                },
            }
        }
        if gone {
            self.forget_the_gone();
        }
    }

    fn forget_the_gone(&self) {
        let mut watchers = self.watchers.write().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|watcher| !matches!(watcher, Subscriber::Channel { sender, .. } if sender.is_closed()));
        self.watched.store(!watchers.is_empty(), Ordering::Release);
    }
}

impl Recorder for Tap {
    fn record(&self, record: Record, durability: Durability) -> BoxFuture<'_, Result<(), RecordError>> {
        if !self.is_watched() {
            return self.inner.record(record, durability);
        }
        let taken = self.inner.record(record.clone(), durability);
        self.tell(AgentEvent::Record(Box::new(record)));
        taken
    }

    fn is_enabled(&self) -> bool {
        self.is_watched() || self.inner.is_enabled()
    }
}

/// The events that one subscriber has not seen yet.
#[derive(Debug)]
pub struct Subscription {
    receiver: mpsc::Receiver<Arc<AgentEvent>>,
    lost: Arc<AtomicU64>,
}

impl Subscription {
    /// The next event; waits for it. `None` once the tap is gone.
    pub async fn next(&mut self) -> Option<Arc<AgentEvent>> {
        self.receiver.recv().await
    }

    /// The next event, if there is one already.
    pub fn try_next(&mut self) -> Option<Arc<AgentEvent>> {
        self.receiver.try_recv().ok()
    }

    /// How many events found no room.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}
