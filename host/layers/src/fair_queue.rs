//! The order in which calls of tenants run: a pure state machine, without clocks and wakers.
//!
//! A free place goes to the tenant with the fewest running calls, and among these to the one that was served the longest
//! ago. So each tenant that waits gets the same number of places over time, however many calls it sends and however long
//! they take. Once there are several tenants, an eighth of the places is kept for those that have no running call, so
//! that one that fills the others does not make them wait for the end of a call.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Fraction of the places that is kept for tenants without a running call.
const RESERVED_FRACTION: usize = 8;

/// The number of a waiting call.
pub type Ticket = u64;

/// The answer to a call that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// It has a place.
    Runs,
    /// It waits. If the queue was full, a call of the tenant with the most waiting ones has lost its place in it.
    Waits {
        /// The number of the call.
        ticket: Ticket,
        /// The number of the call that no longer waits.
        evicted: Option<Ticket>,
    },
    /// The queue is full, and no tenant has more calls in it.
    Full,
}

/// Places for running calls, and the calls that wait for one.
#[derive(Debug)]
pub struct FairQueue {
    places: usize,
    max_waiting: usize,
    running: usize,
    waiting: usize,
    next_ticket: Ticket,
    served: u64,
    tenants: BTreeMap<Arc<str>, Share>,
}

/// The calls of one tenant.
#[derive(Debug, Default)]
struct Share {
    running: usize,
    waiting: VecDeque<Ticket>,
    /// The number of calls that were served before its last one, of all tenants.
    served: u64,
}

impl FairQueue {
    /// Creates a queue with this many places, at least one, in which at most `max_waiting` calls wait.
    #[must_use]
    pub fn new(places: usize, max_waiting: usize) -> Self {
        let running = 0;
        let waiting = 0;
        let next_ticket = 0;
        let served = 0;
        Self { places: places.max(1), max_waiting, running, waiting, next_ticket, served, tenants: BTreeMap::new() }
    }

    /// Returns the number of places, and the maximum number of waiting calls.
    #[must_use]
    pub fn capacity(&self) -> (usize, usize) {
        (self.places, self.max_waiting)
    }

    /// Adds a call of a tenant.
    pub fn arrive(&mut self, tenant: &Arc<str>) -> Arrival {
        let share = self.tenants.entry(Arc::clone(tenant)).or_default();
        let own_running = share.running;
        let own_waiting = share.waiting.len();
        if own_waiting == 0 && self.has_place_for(own_running) {
            self.serve(tenant);
            return Arrival::Runs;
        }
        let evicted = if self.waiting < self.max_waiting {
            None
        } else {
            match self.evict_for(own_waiting) {
                Some(evicted) => Some(evicted),
                None => return Arrival::Full,
            }
        };
        Arrival::Waits { ticket: self.wait(tenant), evicted }
    }

    /// Adds a call of a tenant that waits even if there is a free place, for [`FairQueue::grant`].
    pub fn wait(&mut self, tenant: &Arc<str>) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting += 1;
        self.tenants.entry(Arc::clone(tenant)).or_default().waiting.push_back(ticket);
        ticket
    }

    /// Returns whether a call runs.
    #[must_use]
    pub fn has_running(&self) -> bool {
        self.running > 0
    }

    /// Returns whether no call runs or waits.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.running == 0 && self.waiting == 0
    }

    /// Frees the place of a call, and returns the calls that have a place now.
    pub fn finish(&mut self, tenant: &str) -> Vec<Ticket> {
        let Some(share) = self.tenants.get_mut(tenant).filter(|share| share.running > 0) else { return Vec::new() };
        share.running -= 1;
        self.running -= 1;
        self.grant()
    }

    /// Gives the free places to waiting calls, and returns those that have one now.
    pub fn grant(&mut self) -> Vec<Ticket> {
        let mut granted = Vec::new();
        while let Some(ticket) = self.serve_next() {
            granted.push(ticket);
        }
        granted
    }

    /// Removes a waiting call. Does nothing if it does not wait any more.
    pub fn leave(&mut self, tenant: &str, ticket: Ticket) {
        let Some(share) = self.tenants.get_mut(tenant) else { return };
        let before = share.waiting.len();
        share.waiting.retain(|waiting| *waiting != ticket);
        self.waiting -= before - share.waiting.len();
    }

    /// Returns whether a tenant with this many running calls may have one more.
    fn has_place_for(&self, own_running: usize) -> bool {
        let reserved = if self.tenants.len() > 1 { self.places / RESERVED_FRACTION } else { 0 };
        let free = self.places.saturating_sub(self.running);
        free > reserved || (free > 0 && own_running == 0)
    }

    fn serve(&mut self, tenant: &str) {
        self.served += 1;
        self.running += 1;
        if let Some(share) = self.tenants.get_mut(tenant) {
            share.running += 1;
            share.served = self.served;
        }
    }

    /// Gives a free place to the tenant whose turn it is.
    fn serve_next(&mut self) -> Option<Ticket> {
        let waits = self.tenants.iter().filter(|(_, share)| !share.waiting.is_empty());
        let (tenant, share) = waits.min_by_key(|(_, share)| (share.running, share.served))?;
        if !self.has_place_for(share.running) {
            return None;
        }
        let tenant = Arc::clone(tenant);
        let ticket = self.tenants.get_mut(&tenant)?.waiting.pop_front()?;
        self.waiting -= 1;
        self.serve(&tenant);
        Some(ticket)
    }

    /// Removes the newest call of the tenant with the most waiting ones, for one of a tenant that has at least two fewer.
    fn evict_for(&mut self, own_waiting: usize) -> Option<Ticket> {
        let longest = self.tenants.values_mut().max_by_key(|share| share.waiting.len())?;
        if longest.waiting.len() < own_waiting + 2 {
            return None;
        }
        let evicted = longest.waiting.pop_back()?;
        self.waiting -= 1;
        Some(evicted)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::{BinaryHeap, HashMap};

    use super::*;

    fn name(tenant: &str) -> Arc<str> {
        Arc::from(tenant)
    }

    fn waits(ticket: u64) -> Arrival {
        Arrival::Waits { ticket, evicted: None }
    }

    #[test]
    fn serves_the_tenant_with_the_fewest_running_calls() {
        let mut queue = FairQueue::new(2, 10);
        let greedy = name("greedy");
        let modest = name("modest");
        let third = name("third");
        assert_eq!([queue.arrive(&greedy), queue.arrive(&greedy)], [Arrival::Runs; 2]);
        assert_eq!([queue.arrive(&greedy), queue.arrive(&greedy)], [waits(0), waits(1)]);
        assert_eq!([queue.arrive(&modest), queue.arrive(&modest)], [waits(2), waits(3)]);
        assert_eq!(queue.finish("greedy"), [2]);
        assert_eq!(queue.finish("greedy"), [0]);
        assert_eq!(queue.arrive(&third), waits(4));
        queue.leave("modest", 3);
        assert_eq!(queue.finish("modest"), [4]);
        assert_eq!(queue.finish("third"), [1]);
        assert!(queue.finish("greedy").is_empty() && queue.finish("greedy").is_empty());
        assert_eq!((queue.running, queue.waiting), (0, 0));
        // A place that nobody has is not freed.
        assert!(queue.finish("greedy").is_empty() && queue.finish("nobody").is_empty());
        assert_eq!(queue.running, 0);
    }

    #[test]
    fn keeps_places_for_those_without_a_running_call() {
        let mut queue = FairQueue::new(16, 0);
        let greedy = name("greedy");
        let modest = name("modest");
        assert!((0..16).all(|_| queue.arrive(&greedy) == Arrival::Runs), "alone it has them all");
        assert_eq!(queue.arrive(&modest), Arrival::Full);
        assert!((0..3).all(|_| queue.finish("greedy").is_empty()));
        assert_eq!(queue.arrive(&greedy), Arrival::Runs);
        assert_eq!(queue.arrive(&greedy), Arrival::Full, "the last two are kept");
        assert_eq!([queue.arrive(&modest), queue.arrive(&modest)], [Arrival::Runs, Arrival::Full]);
    }

    #[test]
    fn a_full_queue_evicts_of_the_tenant_with_the_most() {
        let mut queue = FairQueue::new(1, 3);
        let greedy = name("greedy");
        let modest = name("modest");
        let waits = |ticket, evicted| Arrival::Waits { ticket, evicted };
        assert_eq!(queue.arrive(&greedy), Arrival::Runs);
        assert_eq!([0, 1, 2].map(|_| queue.arrive(&greedy)), [waits(0, None), waits(1, None), waits(2, None)]);
        assert_eq!(queue.arrive(&greedy), Arrival::Full);
        assert_eq!(queue.arrive(&modest), waits(3, Some(2)));
        assert_eq!(queue.arrive(&modest), Arrival::Full, "one more than the other is no reason");
        assert_eq!(queue.waiting, 3);
    }

    /// Simulates calls of fixed times: one tenant always has `pressure` calls in the queue, the other sends one at a time,
    /// with pauses. Returns the 99th percentile of the other's latencies.
    fn p99_of_modest(places: usize, pressure: usize) -> u64 {
        const CALL: u64 = 100;
        let greedy = name("greedy");
        let modest = name("modest");
        let mut queue = FairQueue::new(places, 10_000);
        let mut random = 1_u64;
        let mut next = move |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        // The ends of running calls, and the time of the other's next call.
        let mut ends = BinaryHeap::new();
        let mut arrived = None;
        let mut latencies = Vec::new();
        let mut owners: HashMap<Ticket, bool> = HashMap::new();
        let mut now = 0;
        let mut next_call = 50;
        let mut greedy_calls = 0;
        while latencies.len() < 2000 {
            while greedy_calls < pressure {
                greedy_calls += 1;
                match queue.arrive(&greedy) {
                    Arrival::Runs => ends.push(Reverse((now + CALL, false))),
                    Arrival::Waits { ticket, .. } => drop(owners.insert(ticket, false)),
                    Arrival::Full => panic!("it has room for all"),
                }
            }
            let end = ends.peek().map_or(u64::MAX, |Reverse((end, _))| *end);
            if arrived.is_none() && next_call <= end {
                now = next_call;
                arrived = Some(now);
                match queue.arrive(&modest) {
                    Arrival::Runs => ends.push(Reverse((now + CALL, true))),
                    Arrival::Waits { ticket, .. } => drop(owners.insert(ticket, true)),
                    Arrival::Full => panic!("it has room for all"),
                }
                continue;
            }
            let Some(Reverse((end, is_modest))) = ends.pop() else { panic!("nothing runs") };
            now = end;
            if is_modest {
                latencies.push(now - arrived.take().unwrap());
                next_call = now + 1 + next(300);
            } else {
                greedy_calls -= 1;
            }
            let granted = queue.finish(if is_modest { "modest" } else { "greedy" });
            ends.extend(granted.into_iter().map(|ticket| Reverse((now + CALL, owners.remove(&ticket).unwrap()))));
        }
        latencies.sort_unstable();
        latencies[latencies.len() * 99 / 100]
    }

    #[test]
    fn a_tenant_at_a_hundred_times_its_share_leaves_others_their_latency() {
        for places in [1, 2, 4, 8, 32] {
            let idle = p99_of_modest(places, 0);
            let busy = p99_of_modest(places, places * 100 / 2);
            assert!(busy <= 2 * idle, "{places} places: {busy} beside {idle}");
        }
    }
}
