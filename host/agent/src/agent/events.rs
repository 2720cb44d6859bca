//! Live events of a loop: its records on their way to the log, and events that are not recorded.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::chat::Delta;
use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder};
use tokio::sync::mpsc;

use super::partial_results::{PartialResults, PartialSender};

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

/// Returns whether a record tells a person who watches a stream of calls something: a call that started, one that
/// ended (it failed unless its status is `ok`), or one that was refused.
///
/// Refusals because a tool does not exist or is not allowed are left out: only the model gets that error.
#[must_use]
pub fn is_streamed(record: &Record) -> bool {
    let silent = [ErrorKind::UnknownTool, ErrorKind::NotAllowed].map(ErrorKind::as_str);
    match record.kind {
        RecordKind::ToolStarted | RecordKind::ToolFinished => true,
        RecordKind::ToolRejected => !silent.contains(&record.status.as_deref().unwrap_or_default()),
        _ => false,
    }
}

type Callback = Box<dyn Fn(&AgentEvent) + Send + Sync>;

/// A receiver of events, and the events that it receives.
enum Subscriber {
    Callback(Callback),
    Channel { sender: mpsc::Sender<Arc<AgentEvent>>, lost: Arc<AtomicU64> },
    Partials(PartialSender),
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
        self.add(Subscriber::Callback(Box::new(callback)));
    }

    /// Like [`Tap::wiretap`], with records of this kind only.
    pub fn on_record(&self, kind: RecordKind, callback: impl Fn(&Record) + Send + Sync + 'static) {
        self.wiretap(move |event| match event {
            AgentEvent::Record(record) if record.kind == kind => callback(record),
            _ => {}
        });
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

    /// Subscribes to the parts of results of running calls alone, through a channel with room for `capacity` (at least 1)
    /// of them. Other events never take their room; a part that does not fit is dropped and counted.
    pub fn partial_results(&self, capacity: usize) -> PartialResults {
        let (sender, receiver) = PartialResults::new(capacity);
        self.add(Subscriber::Partials(sender));
        receiver
    }

    fn add(&self, subscriber: Subscriber) {
        self.subscribers.write().unwrap_or_else(PoisonError::into_inner).push(subscriber);
        self.has_any.store(true, Ordering::Release);
    }

    /// Returns whether there are subscribers.
    pub(super) fn has_subscribers(&self) -> bool {
        self.has_any.load(Ordering::Acquire)
    }

    /// Passes records to the subscribers that were stored in another way.
    pub(super) fn notify_records(&self, records: Vec<Record>) {
        if self.has_subscribers() {
            records.into_iter().for_each(|record| self.notify(AgentEvent::Record(Box::new(record))));
        }
    }

    /// Passes an event to the subscribers, without recording it.
    pub(super) fn notify(&self, event: AgentEvent) {
        let event = Arc::new(event);
        let mut has_closed = false;
        for subscriber in self.subscribers.read().unwrap_or_else(PoisonError::into_inner).iter() {
            match subscriber {
                Subscriber::Callback(callback) => callback(&event),
                Subscriber::Partials(sender) => {
                    if let AgentEvent::Record(record) = event.as_ref() {
                        sender.send(record);
                    }
                    has_closed |= sender.is_closed();
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
        subscribers.retain(|subscriber| match subscriber {
            Subscriber::Callback(_) => true,
            Subscriber::Channel { sender, .. } => !sender.is_closed(),
            Subscriber::Partials(sender) => !sender.is_closed(),
        });
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
