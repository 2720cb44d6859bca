//! Permits for running requests, in the order in which the requests were made: one per call and one over all calls.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

type AcquireFuture = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// The pending permits of one request: one of its call, and one over all calls.
pub(super) struct PendingPermits {
    call_permit: PendingPermit,
    /// Requested only with the permit of the call in hand: a request that waits for its own call must not block others.
    shared_permit: Option<PendingPermit>,
    all: Arc<Semaphore>,
}

/// Both permits, held for as long as a request runs.
pub(super) struct RequestPermits {
    _call_permit: OwnedSemaphorePermit,
    _shared_permit: OwnedSemaphorePermit,
}

/// An error when acquiring permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PermitError {
    /// The call has ended.
    Ended,
    /// All calls together have the maximum number of requests running.
    Busy,
}

impl PendingPermits {
    /// Joins the queue for the permit of the call now, even if it is awaited later. If that permit is free, also joins
    /// the queue for the shared one.
    pub(super) fn enqueue(call: &Arc<Semaphore>, all: &Arc<Semaphore>) -> Self {
        let call_permit = PendingPermit::enqueue(call);
        // At once where that is possible, so that the order is that of enqueuing here, too.
        let shared_permit = matches!(call_permit, PendingPermit::Ready(_)).then(|| PendingPermit::enqueue(all));
        Self { call_permit, shared_permit, all: Arc::clone(all) }
    }

    /// Waits for both permits, for the one over all calls no longer than `patience`.
    pub(super) async fn acquire(self, patience: impl FnOnce() -> Duration) -> Result<RequestPermits, PermitError> {
        // The semaphore closes only together with the call.
        let call_permit = self.call_permit.acquire().await.map_err(|_| PermitError::Ended)?;
        let shared_permit = self.shared_permit.unwrap_or_else(|| PendingPermit::enqueue(&self.all));
        match timeout(patience(), shared_permit.acquire()).await {
            Ok(Ok(shared_permit)) => Ok(RequestPermits { _call_permit: call_permit, _shared_permit: shared_permit }),
            Ok(Err(_)) => Err(PermitError::Ended),
            Err(_late) => Err(PermitError::Busy),
        }
    }
}

/// A permit, or a position in the queue for it.
///
/// The order matters: a tool that makes many requests and then reads their responses one after the other would deadlock
/// if later ones, whose responses it does not read yet, could hold all permits before the first has one.
enum PendingPermit {
    Ready(Result<OwnedSemaphorePermit, AcquireError>),
    Queued(AcquireFuture),
}

impl PendingPermit {
    /// Joins the queue now, even if the permit is awaited later.
    fn enqueue(semaphore: &Arc<Semaphore>) -> Self {
        let mut waiting: AcquireFuture = Box::pin(Arc::clone(semaphore).acquire_owned());
        // Polled once to enter the queue. Awaiting it polls again, with a waker that works.
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Self::Ready(permit),
            Poll::Pending => Self::Queued(waiting),
        }
    }

    /// Waits for the permit.
    ///
    /// # Errors
    /// If the semaphore is closed, because the call has ended.
    async fn acquire(self) -> Result<OwnedSemaphorePermit, AcquireError> {
        match self {
            Self::Ready(permit) => permit,
            Self::Queued(waiting) => waiting.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn permits_are_granted_in_the_order_of_enqueuing() {
        let semaphore = Arc::new(Semaphore::new(1));
        let first = PendingPermit::enqueue(&semaphore);
        let [second, third] = [PendingPermit::enqueue(&semaphore), PendingPermit::enqueue(&semaphore)];
        let third = tokio::spawn(third.acquire());
        tokio::task::yield_now().await;
        drop(first.acquire().await.unwrap());
        // The third waits already, and the second is given the permit all the same.
        let second = second.acquire().await.unwrap();
        assert!(!third.is_finished());
        drop(second);
        drop(third.await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn waiting_for_its_own_call_blocks_no_other_call() {
        let [one, other, all] = [1, 1, 2].map(|permits| Arc::new(Semaphore::new(permits)));
        let patience = || Duration::from_millis(20);
        let first = PendingPermits::enqueue(&one, &all).acquire(patience).await;
        let second = tokio::spawn(PendingPermits::enqueue(&one, &all).acquire(patience));
        tokio::task::yield_now().await;
        let other_permits = PendingPermits::enqueue(&other, &all).acquire(patience).await;
        assert!(first.is_ok() && other_permits.is_ok());
        drop(first);
        assert!(second.await.unwrap().is_ok(), "its own permit and a shared one are free again");
    }

    #[tokio::test]
    async fn fails_as_busy_after_waiting_for_a_shared_permit() {
        let [one, other, all] = [1, 1, 1].map(|permits| Arc::new(Semaphore::new(permits)));
        let held = PendingPermits::enqueue(&one, &all).acquire(|| Duration::ZERO).await;
        assert!(held.is_ok());
        let busy = PendingPermits::enqueue(&other, &all).acquire(|| Duration::from_millis(5)).await;
        assert_eq!(busy.map(|_| ()), Err(PermitError::Busy));
        assert_eq!(other.available_permits(), 1, "and releases its own permit");
        let waiting = tokio::spawn(PendingPermits::enqueue(&other, &all).acquire(|| Duration::from_secs(20)));
        tokio::task::yield_now().await;
        drop(held);
        assert!(waiting.await.unwrap().is_ok());
    }
}
