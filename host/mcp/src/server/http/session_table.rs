//! The use of a tenant's sessions, and the choice of the one that makes room for a new one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The sessions of one tenant by their ids.
#[derive(Default)]
pub(super) struct SessionTable(Mutex<HashMap<Arc<str>, Usage>>);

struct Usage {
    /// The time at which its last request began or ended.
    last: Instant,
    /// Number of its requests and streams that are open.
    open: usize,
}

impl SessionTable {
    /// Adds a session, and forgets those that have ended: `is_alive` returns whether one has not.
    pub(super) fn add(&self, id: &str, is_alive: impl Fn(&str) -> bool) {
        let mut sessions = self.lock();
        sessions.retain(|id, _| is_alive(id));
        sessions.insert(Arc::from(id), Usage { last: Instant::now(), open: 0 });
    }

    /// Notes that a request of a session begins. It lasts until the returned value is dropped.
    pub(super) fn begin(self: &Arc<Self>, id: &str) -> SessionUse {
        if let Some(usage) = self.lock().get_mut(id) {
            usage.open = usage.open.saturating_add(1);
            usage.last = Instant::now();
        }
        SessionUse { table: Arc::clone(self), id: Arc::from(id) }
    }

    /// Removes the session that has been without a request for the longest, and returns its id; `None` if all have one.
    pub(super) fn take_abandoned(&self) -> Option<Arc<str>> {
        let mut sessions = self.lock();
        let idle = sessions.iter().filter(|(_, usage)| usage.open == 0);
        let id = idle.min_by_key(|(_, usage)| usage.last).map(|(id, _)| Arc::clone(id))?;
        sessions.remove(&id);
        Some(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Usage>> {
        // No code that holds the lock can panic half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open request or stream of a session.
pub(super) struct SessionUse {
    table: Arc<SessionTable>,
    id: Arc<str>,
}

impl Drop for SessionUse {
    fn drop(&mut self) {
        if let Some(usage) = self.table.lock().get_mut(&self.id) {
            usage.open = usage.open.saturating_sub(1);
            usage.last = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_the_session_that_was_unused_for_longest() {
        let table = Arc::new(SessionTable::default());
        for id in ["a", "b", "c"] {
            table.add(id, |_| true);
        }
        let streaming = table.begin("a");
        drop(table.begin("b"));
        assert_eq!(table.take_abandoned().as_deref(), Some("c"));
        assert_eq!(table.take_abandoned().as_deref(), Some("b"));
        assert_eq!(table.take_abandoned(), None, "a is in use");
        drop(streaming);
        assert_eq!(table.take_abandoned().as_deref(), Some("a"));
    }

    #[test]
    fn forgets_sessions_that_have_ended() {
        let table = SessionTable::default();
        table.add("a", |_| true);
        table.add("b", |id| id != "a");
        assert_eq!(table.take_abandoned().as_deref(), Some("b"));
        assert_eq!(table.take_abandoned(), None);
    }
}
