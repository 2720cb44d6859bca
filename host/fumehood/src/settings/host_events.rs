//! The events of a host inside another program, in batches: a language that is woken for each one would lag behind.

use tokio::sync::watch;

use crate::events::{EventStream, Observed};

/// Maximum number of events of one batch.
const MAX_BATCH: usize = 64;

/// The events of a host until it is shut down. Those that come while nothing is taken wait, and the oldest are lost if they are too many.
#[derive(Debug)]
pub struct HostEvents {
    stream: EventStream,
    /// Becomes true when the host is shut down.
    ended: watch::Receiver<bool>,
}

impl HostEvents {
    pub(super) fn new(stream: EventStream, ended: watch::Receiver<bool>) -> Self {
        Self { stream, ended }
    }

    /// Waits for events and returns those that are there; `None` once the host was shut down or dropped.
    pub async fn next(&mut self) -> Option<Vec<Observed>> {
        let first = match self.stream.try_next() {
            Some(event) => event,
            None => tokio::select! {
                event = self.stream.next() => event?,
                // It fails if the host was dropped.
                _ended = self.ended.wait_for(|ended| *ended) => self.stream.try_next()?,
            },
        };
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH
            && let Some(event) = self.stream.try_next()
        {
            batch.push(event);
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
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
        end.send(true).unwrap();
        assert_eq!(events.next().await.map(|batch| batch.len()), Some(100 - MAX_BATCH));
        assert!(events.next().await.is_none());
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
