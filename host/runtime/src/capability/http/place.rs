//! Permits for running requests, in the order in which the requests were made: one per call and one over all calls.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// The pending permits of one request: one of its call, and one over all calls.
pub(super) struct Places {
    of_call: Place,
    /// Requested only with the permit of the call in hand: a request that waits for its own call must not block others.
    of_all: Option<Place>,
    all: Arc<Semaphore>,
}

/// Both permits, held for as long as a request runs.
pub(super) struct RequestPermit {
    _of_call: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// An error when acquiring permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The call has ended.
    Ended,
    /// All calls together have the maximum number of requests running.
    Busy,
}

impl Places {
    /// Enqueues for both permits now, whenever they are awaited.
    pub(super) fn in_line(of_call: &Arc<Semaphore>, all: &Arc<Semaphore>) -> Self {
        let of_call = Place::in_line(of_call);
        // At once where that is possible, so that the order is that of enqueuing here, too.
        let of_all = matches!(of_call, Place::Given(_)).then(|| Place::in_line(all));
        Self { of_call, of_all, all: Arc::clone(all) }
    }

    /// Waits for both permits, for the one over all calls no longer than `patience`.
    pub(super) async fn taken(self, patience: impl FnOnce() -> Duration) -> Result<RequestPermit, NoPlace> {
        // The semaphore closes only together with the call.
        let of_call = self.of_call.taken().await.map_err(|_| NoPlace::Ended)?;
        let of_all = self.of_all.unwrap_or_else(|| Place::in_line(&self.all));
        match timeout(patience(), of_all.taken()).await {
            Ok(Ok(of_all)) => Ok(RequestPermit { _of_call: of_call, _of_all: of_all }),
            Ok(Err(_)) => Err(NoPlace::Ended),
            Err(_late) => Err(NoPlace::Busy),
        }
    }
}

/// A permit, or a position in the queue for it.
///
/// The order matters: a tool that makes many requests and then reads their responses one after the other would deadlock
/// if later ones, whose responses it does not read yet, could hold all permits before the first has one.
enum Place {
    Given(Result<OwnedSemaphorePermit, AcquireError>),
    Awaited(Waiting),
}

impl Place {
    /// Enqueues now, whenever the permit is awaited.
    fn in_line(places: &Arc<Semaphore>) -> Self {
        let mut waiting: Waiting = Box::pin(Arc::clone(places).acquire_owned());
        // Polled once to enter the queue. Awaiting it polls again, with a waker that works.
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(given) => Self::Given(given),
            Poll::Pending => Self::Awaited(waiting),
        }
    }

    /// Waits for the permit.
    ///
    /// # Errors
    /// If the semaphore is closed, because the call has ended.
    async fn taken(self) -> Result<OwnedSemaphorePermit, AcquireError> {
        match self {
            Self::Given(given) => given,
            Self::Awaited(waiting) => waiting.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn permits_are_granted_in_the_order_of_enqueuing() {
        let places = Arc::new(Semaphore::new(1));
        let first = Place::in_line(&places);
        let [second, third] = [Place::in_line(&places), Place::in_line(&places)];
        let third = tokio::spawn(third.taken());
        tokio::task::yield_now().await;
        drop(first.taken().await.unwrap());
        // The third waits already, and the second is given the permit all the same.
        let second = second.taken().await.unwrap();
        assert!(!third.is_finished());
        drop(second);
        drop(third.await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn waiting_for_the_own_call_blocks_no_other_call() {
        let [one, other, all] = [1, 1, 2].map(|places| Arc::new(Semaphore::new(places)));
        let patience = || Duration::from_millis(20);
        let first = Places::in_line(&one, &all).taken(patience).await;
        let second = tokio::spawn(Places::in_line(&one, &all).taken(patience));
        tokio::task::yield_now().await;
        let of_other = Places::in_line(&other, &all).taken(patience).await;
        assert!(first.is_ok() && of_other.is_ok());
        drop(first);
        assert!(second.await.unwrap().is_ok(), "its own place and one of all are free again");
    }

    #[tokio::test]
    async fn fails_as_busy_after_waiting_for_a_shared_permit() {
        let [one, other, all] = [1, 1, 1].map(|places| Arc::new(Semaphore::new(places)));
        let held = Places::in_line(&one, &all).taken(|| Duration::ZERO).await;
        assert!(held.is_ok());
        let busy = Places::in_line(&other, &all).taken(|| Duration::from_millis(5)).await;
        assert_eq!(busy.map(|_| ()), Err(NoPlace::Busy));
        assert_eq!(other.available_permits(), 1, "and gives its own place back");
        let waiting = tokio::spawn(Places::in_line(&other, &all).taken(|| Duration::from_secs(20)));
        tokio::task::yield_now().await;
        drop(held);
        assert!(waiting.await.unwrap().is_ok());
    }
}
