//! Places for running calls, shared fairly between tenants: the waiting side of the fair queue.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::fair_queue::{Arrival, FairQueue, Ticket};

/// Places for running calls. Cheap to clone; clones share their state.
#[derive(Clone)]
pub(crate) struct CallPlaces(Arc<Mutex<State>>);

struct State {
    queue: FairQueue,
    /// The waiting calls and their tenants. One whose sender is dropped has lost its place in the queue.
    waiting: HashMap<Ticket, (Arc<str>, oneshot::Sender<CallPlace>)>,
}

/// A place of a running call. Dropping it gives it to the next one.
pub(crate) struct CallPlace {
    places: CallPlaces,
    tenant: Arc<str>,
}

/// A call that has arrived.
enum EntryOutcome {
    Runs(CallPlace),
    Waits(Ticket, oneshot::Receiver<CallPlace>),
    Full,
}

/// A waiting call. Dropping it removes it from the queue.
struct WaitingCall<'a> {
    places: &'a CallPlaces,
    tenant: &'a str,
    ticket: Ticket,
}

impl fmt::Debug for CallPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallPlaces").finish_non_exhaustive()
    }
}

impl CallPlaces {
    /// Creates this many places, for which at most `max_waiting` calls wait.
    pub(crate) fn new(places: usize, max_waiting: usize) -> Self {
        let queue = FairQueue::new(places, max_waiting);
        Self(Arc::new(Mutex::new(State { queue, waiting: HashMap::new() })))
    }

    /// Returns the number of places, and the maximum number of calls that wait for one.
    pub(crate) fn capacity(&self) -> (usize, usize) {
        self.lock().queue.capacity()
    }

    /// Waits for a place; `None` if too many calls wait already.
    pub(crate) async fn enter(&self, tenant: &Arc<str>) -> Option<CallPlace> {
        match self.arrive(tenant) {
            EntryOutcome::Runs(place) => Some(place),
            EntryOutcome::Full => None,
            EntryOutcome::Waits(ticket, place) => {
                let _waiting = WaitingCall { places: self, tenant, ticket };
                place.await.ok()
            }
        }
    }

    fn arrive(&self, tenant: &Arc<str>) -> EntryOutcome {
        let mut state = self.lock();
        match state.queue.arrive(tenant) {
            Arrival::Runs => EntryOutcome::Runs(self.place(tenant)),
            Arrival::Full => EntryOutcome::Full,
            Arrival::Waits { ticket, evicted } => {
                let (sender, place) = oneshot::channel();
                state.waiting.insert(ticket, (Arc::clone(tenant), sender));
                let lost = evicted.and_then(|evicted| state.waiting.remove(&evicted));
                drop(state);
                drop(lost);
                EntryOutcome::Waits(ticket, place)
            }
        }
    }

    fn place(&self, tenant: &Arc<str>) -> CallPlace {
        CallPlace { places: self.clone(), tenant: Arc::clone(tenant) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallPlace {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        let granted = state.queue.finish(&self.tenant);
        let granted: Vec<_> = granted.iter().filter_map(|ticket| state.waiting.remove(ticket)).collect();
        // A place that nobody takes is dropped by the channel, which locks the state again.
        drop(state);
        for (tenant, sender) in granted {
            let _left = sender.send(self.places.place(&tenant));
        }
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        let mut state = self.places.lock();
        state.queue.leave(self.tenant, self.ticket);
        let sender = state.waiting.remove(&self.ticket);
        drop(state);
        drop(sender);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_place_goes_to_the_next_that_still_waits() {
        let places = CallPlaces::new(1, 2);
        let one = Arc::<str>::from("one");
        let two = Arc::<str>::from("two");
        let running = places.enter(&one).await.unwrap();
        let mut left = Box::pin(places.enter(&one));
        assert!(futures_util::poll!(left.as_mut()).is_pending());
        let mut waiting = Box::pin(places.enter(&two));
        assert!(futures_util::poll!(waiting.as_mut()).is_pending());
        assert!(places.enter(&two).await.is_none(), "the queue is full");
        drop(left);
        drop(running);
        let place = waiting.await.unwrap();
        // One that has a place and does not know it yet gives it back.
        let mut granted = Box::pin(places.enter(&one));
        assert!(futures_util::poll!(granted.as_mut()).is_pending());
        drop(place);
        drop(granted);
        assert!(places.enter(&two).await.is_some());
    }

    #[tokio::test]
    async fn a_call_that_is_evicted_is_told() {
        let places = CallPlaces::new(1, 2);
        let one = Arc::<str>::from("one");
        let two = Arc::<str>::from("two");
        let running = places.enter(&one).await.unwrap();
        let mut first = Box::pin(places.enter(&one));
        let mut second = Box::pin(places.enter(&one));
        assert!(futures_util::poll!(first.as_mut()).is_pending() && futures_util::poll!(second.as_mut()).is_pending());
        let mut modest = Box::pin(places.enter(&two));
        assert!(futures_util::poll!(modest.as_mut()).is_pending());
        assert!(second.await.is_none());
        drop(running);
        drop(modest.await.unwrap());
        assert!(first.await.is_some());
    }
}
