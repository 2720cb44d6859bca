//! The open connections of a listener: their limits, and the choice of the connection that is dropped for a new one.
//!
//! No connection waits to be accepted. Above a limit, the connection that has stalled the longest is dropped. There is
//! no limit per peer address: on loopback, and behind a proxy, all clients have the same one.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio_util::sync::CancellationToken;

use crate::token_verifier::Identity;

/// Limits on open connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    /// Maximum number of connections without a request that passed the guard.
    pub(crate) pending: usize,
    /// Maximum number of connections with such a request.
    pub(crate) authenticated: usize,
}

/// The phase of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for the head of a request: the first one, or another one.
    Head,
    /// Waiting for the rest of a request's body.
    Body,
    /// A request is handled, or its response is sent.
    Response,
    /// Open for messages of the server, for hours perhaps.
    Stream,
}

/// All open connections of a listener. Cheap to clone; clones share their state.
#[derive(Clone)]
pub(crate) struct Connections {
    capacity: Capacity,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    /// Sorted by the order in which they were accepted.
    open: BTreeMap<u64, Entry>,
    next: u64,
}

struct Entry {
    /// The tenant and its credential, once a request on the connection passed the guard.
    identity: Option<Identity>,
    phase: Phase,
    /// True while the response is a stream of events.
    is_streaming: bool,
    /// The time at which this phase began.
    since: Instant,
    /// The time since which the peer has not taken any of what is sent to it.
    blocked: Option<Instant>,
    close: CancellationToken,
}

impl Entry {
    /// Returns the name of the tenant, once there is one.
    fn tenant(&self) -> Option<&Arc<str>> {
        self.identity.as_ref().map(|identity| &identity.tenant)
    }

    /// Returns the time since which the connection waits for its peer, if it does.
    fn stalled(&self) -> Option<Instant> {
        self.blocked.or_else(|| matches!(self.phase, Phase::Head | Phase::Body).then_some(self.since))
    }
}

impl Connections {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { capacity, table: Arc::default() }
    }

    /// Adds a connection that was just accepted. If too many are unauthenticated, the oldest of these is dropped. If half
    /// of the files that the process may open are connections, one is dropped, too: calls need the others, for example
    /// to start a worker process.
    pub(crate) fn add(&self) -> Connection {
        let mut table = self.lock();
        if fumehood_platform::limits::max_open_files().is_some_and(|files| table.open.len() as u64 >= files / 2) {
            table.make_room();
        }
        let pending = table.open.values().filter(|entry| entry.identity.is_none()).count();
        if pending >= self.capacity.pending.max(1) {
            table.drop_oldest_pending();
        }
        let id = table.next;
        let close = CancellationToken::new();
        table.next += 1;
        let since = Instant::now();
        let close_entry = close.clone();
        let entry =
            Entry { identity: None, phase: Phase::Head, is_streaming: false, since, blocked: None, close: close_entry };
        table.open.insert(id, entry);
        Connection {
            id,
            close,
            tenant: Mutex::new(Arc::from("")),
            is_idle: AtomicBool::new(true),
            connections: self.clone(),
        }
    }

    /// Drops a connection because the process has no room for another one: the oldest unauthenticated one, or else the
    /// one that has stalled the longest. Returns false if there is none.
    pub(crate) fn shed(&self) -> bool {
        self.lock().make_room()
    }

    /// Drops the connections with a stream of events whose credential is not accepted any more.
    pub(crate) fn end_streams(&self, is_accepted: impl Fn(&Identity) -> bool) {
        let mut table = self.lock();
        let streaming = table.open.iter().filter(|(_, entry)| entry.is_streaming);
        let ended: Vec<u64> = streaming
            .filter(|(_, entry)| entry.identity.as_ref().is_some_and(|identity| !is_accepted(identity)))
            .map(|(id, _)| *id)
            .collect();
        ended.into_iter().for_each(|id| table.remove(id));
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // No code that holds the lock can panic half-way.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn remove(&mut self, id: u64) {
        if let Some(entry) = self.open.remove(&id) {
            entry.close.cancel();
        }
    }

    fn make_room(&mut self) -> bool {
        self.drop_oldest_pending() || self.drop_stalled(|_, entry| entry.stalled().is_some())
    }

    fn drop_oldest_pending(&mut self) -> bool {
        let oldest = self.open.iter().find(|(_, entry)| entry.identity.is_none()).map(|(id, _)| *id);
        oldest.inspect(|id| self.remove(*id)).is_some()
    }

    /// Drops the connection that has stalled the longest among those that may be chosen. Streams come last, because
    /// nothing shows whether they have stalled.
    fn drop_stalled(&mut self, may_be_chosen: impl Fn(u64, &Entry) -> bool) -> bool {
        let candidates = self.open.iter().filter(|(id, entry)| may_be_chosen(**id, entry));
        let chosen = candidates
            .min_by_key(|(_, entry)| (entry.stalled().is_none(), entry.stalled().unwrap_or(entry.since)))
            .map(|(id, _)| *id);
        chosen.inspect(|id| self.remove(*id)).is_some()
    }

    /// Drops a connection of the tenant with the most, and never one of another tenant that has no more than
    /// `tenant`.
    fn make_room_for(&mut self, tenant: &Arc<str>) -> bool {
        let mut held: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for holder in self.open.values().filter_map(|entry| entry.tenant().cloned()) {
            *held.entry(holder).or_default() += 1;
        }
        let own = held.get(tenant).copied().unwrap_or_default();
        let mut holders: Vec<(Arc<str>, usize)> =
            held.into_iter().filter(|(holder, number)| holder == tenant || *number > own).collect();
        holders.sort_by_key(|(_, number)| Reverse(*number));
        holders.into_iter().any(|(holder, _)| {
            self.drop_stalled(|_, entry| {
                entry.tenant() == Some(&holder) && (entry.stalled().is_some() || entry.phase == Phase::Stream)
            })
        })
    }
}

/// One open connection. Dropping it frees its slot.
pub(crate) struct Connection {
    id: u64,
    close: CancellationToken,
    /// The tenant of the last request with a valid token; empty before there is one.
    tenant: Mutex<Arc<str>>,
    /// Set while no request is handled.
    is_idle: AtomicBool,
    connections: Connections,
}

impl Connection {
    /// Waits until the connection has to make room for another one.
    pub(crate) async fn dropped(&self) {
        self.close.cancelled().await;
    }

    /// Assigns the connection to a tenant, since the head of a request on it passed the guard. If there are too many
    /// of these, one that has stalled is dropped; of a tenant with many connections sooner than of one with few.
    ///
    /// Returns false if there is none to drop. The connection then stays among the unauthenticated ones.
    pub(crate) fn authenticate(&self, identity: Identity) -> bool {
        let mut table = self.connections.lock();
        let Some(entry) = table.open.get(&self.id) else { return false };
        // Only the first request of a connection has to look at all the others.
        if entry.identity.is_none() {
            let authenticated = table.open.values().filter(|entry| entry.identity.is_some()).count();
            let is_full = authenticated >= self.connections.capacity.authenticated.max(1);
            if is_full && !table.make_room_for(&identity.tenant) {
                return false;
            }
        }
        let Some(entry) = table.open.get_mut(&self.id) else { return false };
        (entry.identity, entry.phase, entry.since) = (Some(identity), Phase::Body, Instant::now());
        self.is_idle.store(false, Ordering::Relaxed);
        true
    }

    /// Sets the tenant whose turns the connection is served in.
    pub(crate) fn set_tenant(&self, tenant: &Arc<str>) {
        self.lock_tenant().clone_from(tenant);
    }

    /// Returns the tenant whose turns the connection is served in; it is empty for connections without a valid token.
    pub(crate) fn tenant(&self) -> Arc<str> {
        Arc::clone(&self.lock_tenant())
    }

    fn lock_tenant(&self) -> MutexGuard<'_, Arc<str>> {
        // No code that holds the lock can panic half-way.
        self.tenant.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the connection of a tenant that has waited longest for a body, or for its peer to take a response.
    pub(crate) fn make_room_among_requests(&self, tenant: &Arc<str>) -> bool {
        let mut table = self.connections.lock();
        table.drop_stalled(|id, entry| {
            id != self.id && entry.tenant() == Some(tenant) && entry.phase != Phase::Head && entry.stalled().is_some()
        })
    }

    /// Sets the phase of the connection.
    pub(crate) fn enter(&self, phase: Phase) {
        if let Some(entry) = self.connections.lock().open.get_mut(&self.id) {
            (entry.phase, entry.since) = (phase, Instant::now());
            entry.is_streaming &= phase != Phase::Head;
        }
        self.is_idle.store(phase == Phase::Head, Ordering::Relaxed);
    }

    /// Notes that the response is a stream of events, which ends once its credential is not accepted any more.
    pub(crate) fn stream_until(&self, is_accepted: impl Fn(&Identity) -> bool) {
        let mut table = self.connections.lock();
        let Some(entry) = table.open.get_mut(&self.id) else { return };
        entry.is_streaming = true;
        // It may have been revoked since the request was admitted.
        if entry.identity.as_ref().is_some_and(|identity| !is_accepted(identity)) {
            table.remove(self.id);
        }
    }

    /// Returns whether no request is handled: what wakes the connection is another one.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle.load(Ordering::Relaxed)
    }

    /// Sets the time since which the peer takes nothing of what is sent to it; `None` once it does again.
    pub(crate) fn set_blocked(&self, since: Option<Instant>) {
        if let Some(entry) = self.connections.lock().open.get_mut(&self.id) {
            entry.blocked = since;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.connections.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_verifier::Credential;

    fn tenant(number: u8) -> Arc<str> {
        Arc::from(number.to_string())
    }

    fn identity(number: u8) -> Identity {
        Identity { tenant: tenant(number), credential: Credential::Open }
    }

    fn check(connection: &Connection, is_dropped: bool) {
        assert_eq!(connection.close.is_cancelled(), is_dropped, "connection {}", connection.id);
    }

    fn connections(pending: usize, authenticated: usize) -> Connections {
        Connections::new(Capacity { pending, authenticated })
    }

    /// Waits, so that later connections are younger than earlier ones.
    fn later() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }

    #[test]
    fn drops_the_oldest_unauthenticated_connection() {
        let connections = connections(2, 2);
        let [first, second, third] = std::array::from_fn(|_| connections.add());
        check(&first, true);
        assert!(second.authenticate(identity(0)) && !first.authenticate(identity(0)));
        let fourth = connections.add();
        for kept in [&second, &third, &fourth] {
            check(kept, false);
        }
        assert!(connections.shed());
        check(&third, true);
    }

    #[test]
    fn drops_stalled_connections_but_not_busy_ones() {
        let connections = connections(8, 3);
        let [body, busy, stream, newcomer, last] = std::array::from_fn(|_| connections.add());
        for (connection, phase) in [(&body, Phase::Body), (&busy, Phase::Response), (&stream, Phase::Stream)] {
            assert!(connection.authenticate(identity(0)));
            connection.enter(phase);
            later();
        }
        assert!(newcomer.authenticate(identity(0)));
        check(&body, true);
        newcomer.enter(Phase::Response);
        assert!(last.authenticate(identity(0)));
        check(&stream, true);
        last.enter(Phase::Response);
        let refused = connections.add();
        assert!(!refused.authenticate(identity(0)), "all of them are busy");
        // A connection whose peer takes nothing is not busy.
        busy.set_blocked(Some(Instant::now()));
        assert!(refused.authenticate(identity(0)));
        check(&busy, true);
        check(&last, false);
    }

    #[test]
    fn drops_connections_of_the_same_tenant_first() {
        let connections = connections(8, 4);
        let [quiet, a, b, c, newcomer, another] = std::array::from_fn(|_| connections.add());
        assert!(quiet.authenticate(identity(1)));
        for connection in [&a, &b, &c] {
            later();
            assert!(connection.authenticate(identity(0)));
            connection.enter(Phase::Body);
        }
        // The other tenant's connection has stalled for longer, and stays.
        assert!(newcomer.authenticate(identity(0)));
        check(&quiet, false);
        check(&a, true);
        assert!(another.authenticate(identity(1)));
        check(&quiet, false);
        check(&b, true);
        assert!(newcomer.make_room_among_requests(&tenant(0)));
        check(&c, true);
        assert!(!newcomer.make_room_among_requests(&tenant(0)));
    }
}
