//! Events on their way to whoever watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fumehood_core::event::{Event, Level, Progress, RequestReport};
use fumehood_runtime::{Invocation, Observer};
use tokio::sync::broadcast::{self, error::RecvError};

/// Events that a slow subscriber may lag behind before it loses some.
///
/// A result may be large, so this also bounds what a subscriber that never reads makes the host hold.
const BACKLOG: usize = 256;

/// Hands every event to every subscriber and never waits for one.
pub(crate) struct Bus {
    sender: broadcast::Sender<Event>,
    /// So that a host that nobody watches spends nothing on events.
    watchers: Arc<AtomicUsize>,
}

impl Bus {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::channel(BACKLOG).0, watchers: Arc::default() }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn subscribe(&self) -> EventStream {
        self.watchers.fetch_add(1, Ordering::Relaxed);
        EventStream { receiver: self.sender.subscribe(), watchers: Arc::clone(&self.watchers) }
    }

    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.is_watched() {
            // It fails only if everybody has just left.
            let _ = self.sender.send(event());
        }
    }
}

impl Observer for Bus {
    fn log(&self, call: &Invocation, level: Level, message: &str) {
        self.send(|| Event::Log { id: call.id.clone(), level, message: message.into() });
    }

    fn progress(&self, call: &Invocation, progress: Progress) {
        self.send(|| Event::Progress { id: call.id.clone(), progress });
    }

    fn request(&self, call: &Invocation, request: RequestReport) {
        self.send(|| Event::Request { id: call.id.clone(), request });
    }
}

/// Tells one more of a call, besides everybody else.
pub(crate) struct Tee {
    pub(crate) bus: Arc<Bus>,
    pub(crate) also: Arc<dyn Observer>,
}

impl Observer for Tee {
    fn log(&self, call: &Invocation, level: Level, message: &str) {
        self.also.log(call, level, message);
        self.bus.log(call, level, message);
    }

    fn progress(&self, call: &Invocation, progress: Progress) {
        self.also.progress(call, progress.clone());
        self.bus.progress(call, progress);
    }

    fn request(&self, call: &Invocation, request: RequestReport) {
        self.also.request(call, request.clone());
        self.bus.request(call, request);
    }
}

/// The events of one host, from the moment of [`crate::Host::subscribe`] on. Calls that were running already tell of
/// their end, not of their log lines and progress.
pub struct EventStream {
    receiver: broadcast::Receiver<Event>,
    watchers: Arc<AtomicUsize>,
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An item of a subscription.
#[derive(Debug, Clone)]
pub enum Observed {
    /// Something happened.
    Event(Event),
    /// The subscriber was too slow and missed this many events.
    Lost(u64),
}

impl EventStream {
    /// The next event; `None` once the host is gone.
    pub async fn next(&mut self) -> Option<Observed> {
        match self.receiver.recv().await {
            Ok(event) => Some(Observed::Event(event)),
            Err(RecvError::Lagged(lost)) => Some(Observed::Lost(lost)),
            Err(RecvError::Closed) => None,
        }
    }

    /// The next event if there is one already.
    pub fn try_next(&mut self) -> Option<Observed> {
        match self.receiver.try_recv() {
            Ok(event) => Some(Observed::Event(event)),
            Err(broadcast::error::TryRecvError::Lagged(lost)) => Some(Observed::Lost(lost)),
            Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed) => None,
        }
    }
}
