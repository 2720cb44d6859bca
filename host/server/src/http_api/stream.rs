//! Events of a running call (`text/event-stream`): progress, log lines and partial content, and the result as the last.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::Observer;
use fumehood_core::call::event::{Level, Progress};
use futures_util::task::AtomicWaker;
use http_body::{Body, Frame};
use serde_json::json;
use tokio::time::{Instant, Interval, MissedTickBehavior};
use tokio_util::bytes::Bytes;

use crate::http_api::result::{Part, to_line};

/// Maximum number of queued events; beyond it, the oldest is dropped, and counted. The result is never dropped.
const MAX_QUEUED_EVENTS: usize = 64;
/// Interval of comments while nothing happens, so that a client that has left is noticed.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The queued events of one call, which it never waits for.
#[derive(Default)]
pub(crate) struct EventQueue {
    queued: Mutex<QueueState>,
    arrived: AtomicWaker,
}

#[derive(Default)]
struct QueueState {
    events: VecDeque<String>,
    dropped: u64,
}

impl EventQueue {
    pub(crate) fn push(&self, event: String) {
        let mut queued = self.lock();
        if queued.events.len() >= MAX_QUEUED_EVENTS {
            queued.events.pop_front();
            queued.dropped = queued.dropped.saturating_add(1);
        }
        queued.events.push_back(event);
        drop(queued);
        self.arrived.wake();
    }

    fn pop(&self) -> Option<String> {
        let mut queued = self.lock();
        if queued.dropped > 0 {
            return Some(event("dropped", &json!({ "events": std::mem::take(&mut queued.dropped) })));
        }
        queued.events.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        // No code that holds the lock can panic half-way.
        self.queued.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for EventQueue {
    fn log(&self, level: Level, message: &str) {
        self.push(event("log", &json!({ "level": level.as_str(), "message": message })));
    }

    fn progress(&self, progress: Progress) {
        let Progress { fraction, message, partial } = &progress;
        let mut data = serde_json::Map::new();
        data.extend(fraction.map(|fraction| ("fraction".to_owned(), json!(fraction))));
        data.extend(message.as_ref().map(|message| ("message".to_owned(), json!(message.as_str()))));
        if !partial.is_empty() {
            data.insert("content".to_owned(), json!(partial.iter().map(Part::new).collect::<Vec<_>>()));
        }
        self.push(event("progress", &data));
    }
}

/// Formats one event. Its data is on one line, because a line feed in JSON is always escaped.
pub(crate) fn event(name: &str, data: &impl serde::Serialize) -> String {
    format!("event: {name}\ndata: {}\n\n", to_line(data))
}

/// The body of a response with the events of a call. Dropping it stops the call.
pub(crate) struct EventBody {
    queue: Arc<EventQueue>,
    /// Runs the call, and formats its last event; `None` once it has ended.
    call: Option<BoxFuture<'static, String>>,
    first: Option<String>,
    last: Option<String>,
    keep_alive: Interval,
}

impl EventBody {
    /// Creates a body that begins with the event `first` and ends with the one that `call` returns.
    pub(crate) fn new(first: String, queue: Arc<EventQueue>, call: BoxFuture<'static, String>) -> Self {
        let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE_INTERVAL, KEEP_ALIVE_INTERVAL);
        keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { queue, call: Some(call), first: Some(first), last: None, keep_alive }
    }

    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<String>> {
        self.queue.arrived.register(context.waker());
        if let Some(call) = &mut self.call
            && let Poll::Ready(last) = call.as_mut().poll(context)
        {
            (self.call, self.last) = (None, Some(last));
        }
        // After the call has begun, so that whoever reads its id can cancel it.
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if let Some(event) = self.queue.pop() {
            return Poll::Ready(Some(event));
        }
        if self.call.is_none() {
            return Poll::Ready(self.last.take());
        }
        self.keep_alive.poll_tick(context).map(|_| Some(":\n\n".to_owned()))
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.next(context).map(|event| event.map(|event| Ok(Frame::data(Bytes::from(event)))))
    }
}
