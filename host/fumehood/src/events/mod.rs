//! Events of a host, and their subscribers.

#[cfg(all(feature = "http", feature = "storage"))]
pub(crate) mod logged_calls;
#[cfg(all(feature = "http", feature = "storage"))]
pub(crate) mod logged_timelines;
#[cfg(feature = "storage")]
pub(crate) mod saved_jobs;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fumehood_core::call::event::{Event, Level, Progress, RequestReport};
use fumehood_core::call::{Observer, Usage};
use tokio::sync::broadcast;
use tokio_stream::Stream;
use tokio_stream::wrappers::BroadcastStream;
use tokio_stream::wrappers::errors::BroadcastStreamRecvError;

/// Maximum number of events that a slow subscriber may lag behind before it loses some.
///
/// Results may be large, so this also bounds the memory that a subscriber that never reads costs the host.
const BACKLOG: usize = 256;

/// A channel that sends every event to every subscriber and never waits for one.
pub(crate) struct Bus {
    sender: broadcast::Sender<Event>,
    /// The number of subscribers. Without any, no event is created.
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
        EventStream { stream: BroadcastStream::new(self.sender.subscribe()), watchers: Arc::clone(&self.watchers) }
    }

    pub(crate) fn send(&self, event: impl FnOnce() -> Event) {
        if self.is_watched() {
            // It fails only if the last subscriber has just been dropped.
            let _ = self.sender.send(event());
        }
    }
}

/// An observer that sends everything about one call to the subscribers of its host, and to a second observer.
pub(crate) struct CallEvents {
    pub(crate) bus: Arc<Bus>,
    pub(crate) id: String,
    pub(crate) also: Option<Arc<dyn Observer>>,
}

impl Observer for CallEvents {
    fn log(&self, level: Level, message: &str) {
        self.also.iter().for_each(|also| also.log(level, message));
        self.bus.send(|| Event::Log { id: self.id.clone(), level, message: message.into() });
    }

    fn progress(&self, progress: Progress) {
        self.also.iter().for_each(|also| also.progress(progress.clone()));
        self.bus.send(|| Event::Progress { id: self.id.clone(), progress });
    }

    fn admitted(&self, deadline: Duration) {
        self.also.iter().for_each(|also| also.admitted(deadline));
    }

    fn usage(&self, usage: Usage) {
        self.also.iter().for_each(|also| also.usage(usage));
    }

    fn request(&self, request: RequestReport) {
        self.also.iter().for_each(|also| also.request(request.clone()));
        self.bus.send(|| Event::Request { id: self.id.clone(), request });
    }
}

/// The events of one host, from the moment of [`crate::Host::subscribe`] on: a [`Stream`] that ends once the host is
/// dropped. For calls that were already running it has the end, but neither log lines nor progress.
///
/// ```
/// use fumehood::{Event, Host, Load, Observed};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
/// let host = Host::builder().build()?;
/// let mut events = host.subscribe();
/// host.load(Load::path(path)).await?;
/// match events.next().await {
///     Some(Observed::Event(Event::Loaded { component, .. })) => assert_eq!(component, "calculator"),
///     other => panic!("unexpected {other:?}"),
/// }
/// // There is no further event yet.
/// assert!(events.try_next().is_none());
/// # host.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
pub struct EventStream {
    stream: BroadcastStream<Event>,
    watchers: Arc<AtomicUsize>,
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream").finish_non_exhaustive()
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An item of a subscription.
///
/// ```
/// use fumehood::{Call, Host, Observed};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Host::builder().build()?;
/// let mut events = host.subscribe();
/// for _ in 0..1_000 {
///     host.call(Call::new("unknown__tool", "{}")).await;
/// }
/// // Calls do not wait for a slow subscriber.
/// assert!(matches!(events.next().await, Some(Observed::Lost(1..))));
/// assert!(matches!(events.next().await, Some(Observed::Event(_))));
/// # host.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub enum Observed {
    /// An event of the host.
    Event(Event),
    /// The subscriber was too slow and missed this many events.
    Lost(u64),
}

impl Stream for EventStream {
    type Item = Observed;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Observed>> {
        Pin::new(&mut self.stream).poll_next(cx).map(|item| {
            item.map(|received| match received {
                Ok(event) => Observed::Event(event),
                Err(BroadcastStreamRecvError::Lagged(lost)) => Observed::Lost(lost),
            })
        })
    }
}

impl EventStream {
    /// Waits for the next event; `None` once the host is dropped.
    pub async fn next(&mut self) -> Option<Observed> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Returns the next event if there is one already.
    pub fn try_next(&mut self) -> Option<Observed> {
        match Pin::new(self).poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(item) => item,
            Poll::Pending => None,
        }
    }
}
