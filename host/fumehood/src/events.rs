//! Events on their way to whoever watches.

use std::sync::atomic::{AtomicBool, Ordering};

use fumehood_core::event::{Event, Level, Progress};
use fumehood_runtime::{Invocation, Observer};
use tokio::sync::broadcast::{self, error::RecvError};

/// Events that a slow subscriber may lag behind before it loses some.
const BACKLOG: usize = 1024;

/// Hands every event to every subscriber and never waits for one.
pub(crate) struct Bus {
    sender: broadcast::Sender<Event>,
    /// So that a host that nobody watches spends nothing on events.
    watched: AtomicBool,
}

impl Bus {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::channel(BACKLOG).0, watched: AtomicBool::new(false) }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.watched.load(Ordering::Relaxed)
    }

    pub(crate) fn subscribe(&self) -> EventStream {
        let receiver = self.sender.subscribe();
        self.watched.store(true, Ordering::Relaxed);
        EventStream { receiver }
    }

    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.is_watched() && self.sender.send(event()).is_err() {
            // Everybody has left. A subscriber that comes at this very moment sets the flag again.
            self.watched.store(self.sender.receiver_count() > 0, Ordering::Relaxed);
        }
    }
}

impl Observer for Bus {
    fn log(&self, call: &Invocation, level: Level, message: &str) {
        self.send(|| Event::Log { id: call.id.clone(), level, message: message.to_owned() });
    }

    fn progress(&self, call: &Invocation, progress: Progress) {
        self.send(|| Event::Progress { id: call.id.clone(), progress });
    }
}

/// The events of one host, from the moment of [`crate::Host::subscribe`] on.
pub struct EventStream {
    receiver: broadcast::Receiver<Event>,
}

/// What a subscriber receives.
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
