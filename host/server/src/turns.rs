//! Turns of connections: while several tenants are active, their requests are read in a fair order.
//!
//! The scheduler polls tasks in the order in which they were woken, so that a request of one tenant would wait behind all
//! that a hundred connections of another one have to read, check and answer. A connection with another request waits for
//! a turn instead, which costs next to nothing, and turns go to tenants in the order of [`FairQueue`].

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::connections::Connection;
use fumehood_layers::fair_queue::{FairQueue, Ticket};

/// Time after the last poll of another tenant for which connections wait for turns. Where one tenant is alone, or the
/// only one that is active, none does.
const CONTENTION: Duration = Duration::from_secs(1);

/// The turns of all connections of a listener. Cheap to clone; clones share their state.
#[derive(Clone)]
pub(crate) struct Turns(Arc<Mutex<State>>);

struct State {
    queue: FairQueue,
    /// The connections that wait. One that is missing has its turn.
    waiting: HashMap<Ticket, Waker>,
    /// The tenant that was active last, and the time at which it was another one.
    active: Option<Arc<str>>,
    changed: Option<Instant>,
}

impl State {
    /// Returns whether several tenants are active.
    fn is_contended(&mut self, tenant: &Arc<str>) -> bool {
        let now = Instant::now();
        if self.active.as_ref() != Some(tenant) && self.active.replace(Arc::clone(tenant)).is_some() {
            self.changed = Some(now);
        }
        self.changed.is_some_and(|changed| now.saturating_duration_since(changed) < CONTENTION)
    }

    fn take_wakers(&mut self, granted: &[Ticket]) -> Vec<Waker> {
        granted.iter().filter_map(|ticket| self.waiting.remove(ticket)).collect()
    }
}

impl Turns {
    /// Creates as many turns as there are processors.
    pub(crate) fn new() -> Self {
        Self::with_turns(std::thread::available_parallelism().map_or(1, usize::from))
    }

    fn with_turns(number: usize) -> Self {
        let queue = FairQueue::new(number, usize::MAX);
        Self(Arc::new(Mutex::new(State { queue, waiting: HashMap::new(), active: None, changed: None })))
    }

    /// Returns a future that polls the inner one in the turns of the connection's tenant.
    pub(crate) fn share<F: Future>(&self, connection: Arc<Connection>, inner: F) -> TurnFuture<F> {
        TurnFuture { inner: Box::pin(inner), connection, turn: Turn { turns: self.clone(), standing: TurnState::Free } }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The standing of a connection among those that want a turn.
enum TurnState {
    /// It needs none, or has not asked for one.
    Free,
    Waits(Arc<str>, Ticket),
    Has(Arc<str>),
}

/// The turn of one connection. Dropping it gives it to the next one.
struct Turn {
    turns: Turns,
    standing: TurnState,
}

impl Turn {
    /// Returns whether the connection may be polled now. Otherwise its task is woken once it may.
    fn begin(&mut self, tenant: Arc<str>, waker: &Waker) -> bool {
        let mut state = self.turns.lock();
        let (tenant, ticket) = match &self.standing {
            TurnState::Has(_) => return true,
            TurnState::Free => {
                if !state.is_contended(&tenant) {
                    return true;
                }
                let is_first = state.queue.is_idle();
                let ticket = state.queue.wait(&tenant);
                state.waiting.insert(ticket, waker.clone());
                drop(state);
                if is_first {
                    // The first one hands out the turns, after all that were woken with it had time to ask for theirs.
                    waker.wake_by_ref();
                }
                self.standing = TurnState::Waits(tenant, ticket);
                return false;
            }
            TurnState::Waits(tenant, ticket) => (Arc::clone(tenant), *ticket),
        };
        let granted = if state.queue.has_running() { Vec::new() } else { state.queue.grant() };
        let mut wakers = Vec::new();
        for other in granted {
            let other_waker = state.waiting.remove(&other);
            wakers.extend(other_waker.filter(|_| other != ticket));
        }
        let is_granted = match state.waiting.get_mut(&ticket) {
            Some(waiting) => {
                waiting.clone_from(waker);
                false
            }
            None => true,
        };
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        if is_granted {
            self.standing = TurnState::Has(tenant);
        }
        is_granted
    }

    fn end(&mut self) {
        let mut state = self.turns.lock();
        let granted = match std::mem::replace(&mut self.standing, TurnState::Free) {
            TurnState::Free => return,
            TurnState::Has(tenant) => state.queue.finish(&tenant),
            TurnState::Waits(tenant, ticket) => match state.waiting.remove(&ticket) {
                Some(_) => {
                    state.queue.leave(&tenant, ticket);
                    // It may have been the one to hand them out.
                    if state.queue.has_running() { Vec::new() } else { state.queue.grant() }
                }
                None => state.queue.finish(&tenant),
            },
        };
        let wakers = state.take_wakers(&granted);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}

/// A future of a connection that is polled in turns.
pub(crate) struct TurnFuture<F> {
    inner: Pin<Box<F>>,
    connection: Arc<Connection>,
    turn: Turn,
}

impl<F: Future> Future for TurnFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        // A call that runs needs no turn: others may wait for its place.
        if this.connection.is_idle() && !this.turn.begin(this.connection.tenant(), context.waker()) {
            return Poll::Pending;
        }
        let polled = this.inner.as_mut().poll(context);
        this.turn.end();
        polled
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{Notify, mpsc};
    use tokio::task::yield_now;

    use super::*;
    use crate::connections::{Capacity, Connections};

    const GREEDY: usize = 100;

    fn connection(connections: &Connections, tenant: &str) -> Arc<Connection> {
        let connection = Arc::new(connections.add());
        connection.set_tenant(&Arc::from(tenant));
        connection
    }

    /// Wakes connections at once, those of the greedy tenant first, and returns the tenants in the order in which their
    /// requests are read.
    async fn order(tenants: &[&'static str]) -> Vec<&'static str> {
        let connections = Connections::new(Capacity { pending: GREEDY + 2, authenticated: 1 });
        let turns = Turns::with_turns(1);
        let ready = Arc::new(Notify::new());
        let (sender, mut read) = mpsc::unbounded_channel();
        for tenant in tenants {
            let ready = Arc::clone(&ready);
            let sender = sender.clone();
            let tenant = *tenant;
            let work = async move {
                ready.notified().await;
                sender.send(tenant).unwrap();
            };
            tokio::spawn(turns.share(connection(&connections, tenant), work));
        }
        drop(sender);
        for _ in 0..2 * tenants.len() + 4 {
            yield_now().await;
        }
        ready.notify_waiters();
        let mut order = Vec::new();
        while let Some(tenant) = read.recv().await {
            order.push(tenant);
        }
        order
    }

    #[tokio::test]
    async fn a_request_does_not_wait_behind_those_of_another_tenant() {
        let mut tenants = ["greedy"; GREEDY + 1];
        tenants[GREEDY] = "modest";
        let order = order(&tenants).await;
        let place = order.iter().position(|tenant| *tenant == "modest").unwrap();
        assert!(order.len() == GREEDY + 1 && place < 3, "the {place}th of {}", order.len());
    }

    #[tokio::test]
    async fn connections_of_one_tenant_need_no_turns() {
        assert_eq!(order(&["only"; 3]).await, ["only"; 3]);
    }

    #[tokio::test]
    async fn a_connection_that_ends_leaves_its_turn_to_others() {
        let connections = Connections::new(Capacity { pending: 8, authenticated: 1 });
        let turns = Turns::with_turns(1);
        let waker = Waker::noop();
        let turn = |tenant: &str| {
            let standing = TurnState::Free;
            (Turn { turns: turns.clone(), standing }, connection(&connections, tenant).tenant())
        };
        let [(mut first, one), (mut second, other), (mut third, another)] = [turn("one"), turn("two"), turn("three")];
        assert!(first.begin(one, waker), "it is alone");
        first.end();
        assert!(!second.begin(Arc::clone(&other), waker) && !third.begin(Arc::clone(&another), waker));
        // The one that would have handed out the turns is gone.
        drop(second);
        assert!(third.begin(another, waker));
        let (mut last, tenant) = turn("two");
        assert!(!last.begin(Arc::clone(&tenant), waker), "there is one turn");
        drop(third);
        assert!(last.begin(tenant, waker));
    }
}
