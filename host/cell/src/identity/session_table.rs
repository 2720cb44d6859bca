//! The sessions of a node, bounded for each peer.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use super::session::{ExchangeKey, Session, SessionError, session_id};

/// Maximum number of sessions of a peer that has shown that it has the keys.
const MAX_CONFIRMED: usize = 4;
/// Maximum number of sessions of a peer that has not: exchanges that were recorded on the bus and are sent again make
/// only such.
const MAX_UNCONFIRMED: usize = 2;

/// Maximum number of exchanges that are remembered, so that one that is sent again costs little.
const MAX_ANSWERED: usize = 4096;

/// Sessions by their id.
#[derive(Debug, Default)]
pub(crate) struct SessionTable {
    answered: HashSet<ExchangeKey>,
    /// The exchanges of `answered`, the oldest first.
    answers: VecDeque<ExchangeKey>,
    by_id: HashMap<u64, Arc<Session>>,
    /// The sessions of each peer, the oldest first.
    of_peer: BTreeMap<Arc<str>, VecDeque<Arc<Session>>>,
}

impl SessionTable {
    /// Notes that an exchange with this key of the other side is answered. Returns whether it is the first time.
    pub(crate) fn begin(&mut self, key: ExchangeKey) -> bool {
        let is_new = self.answered.insert(key);
        if is_new {
            self.answers.push_back(key);
        }
        while self.answers.len() > MAX_ANSWERED {
            if let Some(oldest) = self.answers.pop_front() {
                self.answered.remove(&oldest);
            }
        }
        is_new
    }

    /// Adds a session. One with the id of another is left out.
    pub(crate) fn insert(&mut self, session: Arc<Session>) {
        if self.by_id.contains_key(&session.id()) {
            return;
        }
        self.by_id.insert(session.id(), Arc::clone(&session));
        let peer = Arc::clone(session.peer());
        self.of_peer.entry(Arc::clone(&peer)).or_default().push_back(session);
        self.evict(&peer);
    }

    /// Returns the session that a frame says it is of.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn of_frame(&self, frame: &[u8]) -> Result<Arc<Session>, SessionError> {
        let id = session_id(frame).ok_or(SessionError::Malformed)?;
        self.by_id.get(&id).cloned().ok_or(SessionError::Unknown)
    }

    /// Returns the newest session with a run of a peer that frames can be sent in.
    #[must_use]
    pub(crate) fn latest(&self, peer: &str, run: u64) -> Option<&Arc<Session>> {
        self.usable(peer, |session| session.peer_run() == run)
    }

    /// Returns the newest session with the run of a peer that [`Session::peer_id`] names.
    #[must_use]
    pub(crate) fn latest_of(&self, peer_id: &str) -> Option<&Arc<Session>> {
        let (peer, _) = peer_id.split_once(':')?;
        self.usable(peer, |session| &**session.peer_id() == peer_id)
    }

    /// Returns the newest session with a peer, even a retired one.
    #[must_use]
    pub(crate) fn newest(&self, peer: &str) -> Option<&Arc<Session>> {
        self.of_peer.get(peer)?.iter().rev().find(|session| session.is_confirmed())
    }

    fn usable(&self, peer: &str, is_meant: impl Fn(&Session) -> bool) -> Option<&Arc<Session>> {
        let is_usable = |session: &&Arc<Session>| is_meant(session) && session.is_confirmed() && !session.is_retired();
        self.of_peer.get(peer)?.iter().rev().find(is_usable)
    }

    /// Notes that the peer of a session has its keys.
    pub(crate) fn confirm(&mut self, session: &Session) {
        if session.confirm() {
            self.evict(&Arc::clone(session.peer()));
        }
    }

    fn evict(&mut self, peer: &Arc<str>) {
        let Some(sessions) = self.of_peer.get_mut(peer) else { return };
        // Counted apart, so that exchanges that are sent again never displace a session in use.
        for (is_confirmed, max) in [(true, MAX_CONFIRMED), (false, MAX_UNCONFIRMED)] {
            let is_of_kind = |session: &Arc<Session>| session.is_confirmed() == is_confirmed;
            while sessions.iter().filter(|session| is_of_kind(session)).count() > max {
                let oldest = sessions.iter().position(is_of_kind).and_then(|index| sessions.remove(index));
                if let Some(oldest) = oldest {
                    self.by_id.remove(&oldest.id());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::NodeKey;
    use crate::identity::session::{Exchange, Party, Side};

    fn session(run: u64) -> Arc<Session> {
        let own = Exchange::generate().unwrap();
        let other = Exchange::generate().unwrap();
        let key = NodeKey::generate().unwrap().0.public();
        let gateway = Party { name: "g".to_owned(), key, run, exchange: other.public() };
        let worker = Party { name: "w".to_owned(), key, run: 1, exchange: own.public() };
        Arc::new(Session::derive(own, Side::Worker, "cell", &gateway, &worker).unwrap())
    }

    #[test]
    fn exchanges_that_nobody_completes_displace_no_session() {
        let mut table = SessionTable::default();
        let used = session(1);
        table.insert(Arc::clone(&used));
        assert!(table.latest("g", 1).is_none(), "not before the peer has the keys");
        table.confirm(&used);
        for _ in 0..50 {
            table.insert(session(1));
        }
        assert_eq!(table.latest("g", 1).map(|session| session.id()), Some(used.id()));
        assert_eq!(table.by_id.len(), 1 + MAX_UNCONFIRMED);
        used.retire();
        assert!(table.latest("g", 1).is_none());
    }

    #[test]
    fn an_exchange_is_answered_once() {
        let mut table = SessionTable::default();
        let first = Exchange::generate().unwrap().public();
        assert!(table.begin(first) && !table.begin(first));
        for _ in 0..MAX_ANSWERED {
            assert!(table.begin(Exchange::generate().unwrap().public()));
        }
        assert_eq!((table.answered.len(), table.answers.len()), (MAX_ANSWERED, MAX_ANSWERED));
    }

    #[test]
    fn a_peer_that_starts_again_and_again_has_few_sessions() {
        let mut table = SessionTable::default();
        for run in 0..20 {
            let started = session(run);
            table.insert(Arc::clone(&started));
            table.confirm(&started);
        }
        assert_eq!(table.by_id.len(), MAX_CONFIRMED);
        assert!(table.latest("g", 19).is_some() && table.latest("g", 0).is_none());
    }
}
