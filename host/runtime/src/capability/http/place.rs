//! A place among the requests that run at once, those of a call and those of all calls, in the order in which they were
//! made.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// A place among the requests of a call, and one among those of all calls.
pub(super) struct Places {
    of_call: Place,
    /// Not before there is one among those of the call: whoever waits for its own call must not keep others waiting.
    of_all: Option<Place>,
    all: Arc<Semaphore>,
}

/// Both places, for as long as a request runs.
pub(super) struct RequestPermit {
    _of_call: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// Why there is no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoPlace {
    /// The call has ended.
    Ended,
    /// All calls together have as many requests running as they may.
    Busy,
}

impl Places {
    /// Stands in line for both from now on, whenever they are awaited.
    pub(super) fn in_line(of_call: &Arc<Semaphore>, all: &Arc<Semaphore>) -> Self {
        let of_call = Place::in_line(of_call);
        // At once where that is possible, so that the order is that of asking here, too.
        let of_all = matches!(of_call, Place::Given(_)).then(|| Place::in_line(all));
        Self { of_call, of_all, all: Arc::clone(all) }
    }

    /// The places, once it is this one's turn. Among the requests of all calls it waits no longer than `patience`.
    pub(super) async fn taken(self, patience: impl FnOnce() -> Duration) -> Result<RequestPermit, NoPlace> {
        // They close only together with the call.
        let of_call = self.of_call.taken().await.map_err(|_| NoPlace::Ended)?;
        let of_all = self.of_all.unwrap_or_else(|| Place::in_line(&self.all));
        match timeout(patience(), of_all.taken()).await {
            Ok(Ok(of_all)) => Ok(RequestPermit { _of_call: of_call, _of_all: of_all }),
            Ok(Err(_)) => Err(NoPlace::Ended),
            Err(_late) => Err(NoPlace::Busy),
        }
    }
}

/// A place, or one in the line for it.
///
/// The order matters: a tool that makes many requests and then reads their responses one after the other would wait for
/// ever if later ones, whose responses it does not read yet, could hold all places before the first has one.
enum Place {
    Given(Result<OwnedSemaphorePermit, AcquireError>),
    Awaited(Waiting),
}

impl Place {
    /// Stands in line from now on, whenever it is awaited.
    fn in_line(places: &Arc<Semaphore>) -> Self {
        let mut waiting: Waiting = Box::pin(Arc::clone(places).acquire_owned());
        // Asked once, so that it is in line. Whoever awaits it asks again, and is woken then.
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(given) => Self::Given(given),
            Poll::Pending => Self::Awaited(waiting),
        }
    }

    /// The place, once it is this one's turn.
    ///
    /// # Errors
    /// If there are no more places, because the call has ended.
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
    async fn places_are_given_in_the_order_of_asking_not_of_waiting() {
        let places = Arc::new(Semaphore::new(1));
        let first = Place::in_line(&places);
        let [second, third] = [Place::in_line(&places), Place::in_line(&places)];
        let third = tokio::spawn(third.taken());
        tokio::task::yield_now().await;
        drop(first.taken().await.unwrap());
        // The third waits already, and the second is given the place all the same.
        let second = second.taken().await.unwrap();
        assert!(!third.is_finished());
        drop(second);
        drop(third.await.unwrap().unwrap());
    }

    #[tokio::test]
    async fn whoever_waits_for_its_own_call_keeps_nobody_else_waiting() {
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
    async fn where_all_places_are_taken_it_waits_for_a_while() {
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
