//! A place among the requests of a call that run at once, in the order in which they were made.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

type Waiting = Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send>>;

/// A place, or one in the line for it.
///
/// The order matters: a tool that makes many requests and then reads their responses one after the other would wait for
/// ever if later ones, whose responses it does not read yet, could hold all places before the first has one.
pub(super) enum Place {
    Given(Result<OwnedSemaphorePermit, AcquireError>),
    Awaited(Waiting),
}

impl Place {
    /// Stands in line from now on, whenever it is awaited.
    pub(super) fn in_line(places: &Arc<Semaphore>) -> Self {
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
    pub(super) async fn taken(self) -> Result<OwnedSemaphorePermit, AcquireError> {
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
}
