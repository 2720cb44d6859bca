//! The events of a host inside another program, in batches: a language that is woken for each one would lag behind.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;
use tokio_stream::Stream;

use crate::events::{EventStream, Observed};

/// Maximum number of events of one batch.
const MAX_BATCH: usize = 64;

/// The events of a host until it is shut down. Those that come while nothing is taken wait, and the oldest are lost if they are too many.
#[derive(Debug)]
pub struct HostEvents {
    stream: EventStream,
    /// The event that ended a wait.
    first: Option<Observed>,
    /// Becomes true when the host is shut down.
    ended: watch::Receiver<bool>,
}

impl HostEvents {
    pub(super) fn new(stream: EventStream, ended: watch::Receiver<bool>) -> Self {
        Self { stream, first: None, ended }
    }

    /// Waits for events and returns those that are there; `None` once the host was shut down or dropped.
    pub async fn next(&mut self) -> Option<Vec<Observed>> {
        let mut ended = self.ended.clone();
        tokio::select! {
            biased;
            () = poll_fn(|context| self.poll_ready(context)) => {}
            // It fails if the host was dropped.
            _ended = ended.wait_for(|ended| *ended) => {}
        }
        let batch = self.take();
        (!batch.is_empty()).then_some(batch)
    }

    /// Returns the events that are there, without waiting. Whoever waits in [`Self::poll_ready`] has to poll again after it.
    pub fn take(&mut self) -> Vec<Observed> {
        let first = self.first.take();
        first.into_iter().chain(std::iter::from_fn(|| self.stream.try_next())).take(MAX_BATCH).collect()
    }

    /// Waits until there are events or the host was dropped. A shutdown does not end the wait: see [`Self::has_ended`].
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.first.is_none() {
            let Poll::Ready(event) = Pin::new(&mut self.stream).poll_next(context) else { return Poll::Pending };
            self.first = event;
        }
        Poll::Ready(())
    }

    /// Returns whether the host was shut down, so that nothing comes after the events that are there.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::{Call, Host};

    #[tokio::test]
    async fn events_come_in_batches_and_end_with_the_host() {
        let host = Host::builder().build().unwrap();
        let (end, ended) = watch::channel(false);
        let mut events = HostEvents::new(host.subscribe(), ended);
        for _ in 0..100 {
            host.call(Call::new("unknown__tool", "{}")).await;
        }
        assert_eq!(events.next().await.map(|batch| batch.len()), Some(MAX_BATCH));
        assert!(!events.has_ended());
        end.send(true).unwrap();
        assert!(events.has_ended());
        assert_eq!(events.next().await.map(|batch| batch.len()), Some(100 - MAX_BATCH));
        assert!(events.next().await.is_none());
    }

    #[tokio::test]
    async fn events_are_taken_without_waiting() {
        let host = Host::builder().build().unwrap();
        let (_end, ended) = watch::channel(false);
        let mut events = HostEvents::new(host.subscribe(), ended);
        let poll = |events: &mut HostEvents| events.poll_ready(&mut Context::from_waker(Waker::noop()));
        assert!(poll(&mut events).is_pending() && events.take().is_empty());
        for _ in 0..2 {
            host.call(Call::new("unknown__tool", "{}")).await;
        }
        assert!(poll(&mut events).is_ready() && poll(&mut events).is_ready());
        assert_eq!(events.take().len(), 2);
        assert!(poll(&mut events).is_pending());
    }

    #[tokio::test]
    async fn slow_subscribers_lose_events_and_learn_how_many() {
        let host = Host::builder().build().unwrap();
        let (_end, ended) = watch::channel(false);
        let mut events = HostEvents::new(host.subscribe(), ended);
        for _ in 0..1000 {
            host.call(Call::new("unknown__tool", "{}")).await;
        }
        let batch = events.next().await.unwrap();
        assert!(matches!(batch.first(), Some(Observed::Lost(1..))), "{batch:?}");
    }
}
