//! The open sessions of all tenants.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::call::CancellationToken;
use fumehood_core::opaque_numbers::OpaqueNumbers;
use fumehood_core::time::Timestamp;
use serde::Serialize;
use tokio::sync::{Mutex as AgentLock, OnceCell};
use utoipa::ToSchema;

use super::approvals::SessionApprovals;
use super::port::SessionAgent;
use crate::now;

/// Maximum number of open sessions of one tenant.
pub(crate) const MAX_SESSIONS: usize = 64;
/// Maximum number of messages that are listed; older ones are left out.
const MAX_LISTED_MESSAGES: usize = 100;

/// A session in a list.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct SessionSummary {
    /// The id of the session.
    id: String,
    /// `idle`, or `running` while a message is answered.
    status: &'static str,
    /// The time of its creation, in milliseconds since 1970.
    created_at_ms: u64,
    /// The number of messages of the user.
    messages: u64,
}

/// One text of a conversation.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct SessionMessage {
    /// `user` or `assistant`.
    role: &'static str,
    /// The text.
    text: String,
}

/// A session with the newest texts of its conversation.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct SessionDetail {
    /// The session.
    #[serde(flatten)]
    summary: SessionSummary,
    /// The conversation, at most the newest 100 texts.
    conversation: Vec<SessionMessage>,
}

/// An open session.
pub(crate) struct Session {
    pub(crate) id: String,
    pub(crate) tenant: Arc<str>,
    created_at: Timestamp,
    /// Locked while a message is answered.
    pub(crate) agent: Arc<AgentLock<Box<dyn SessionAgent>>>,
    pub(crate) approvals: SessionApprovals,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    messages: u64,
    conversation: Vec<SessionMessage>,
    /// Cancels the message that is being answered.
    running: Option<CancellationToken>,
    is_closed: bool,
}

impl Session {
    pub(crate) fn new(id: String, tenant: Arc<str>, agent: Box<dyn SessionAgent>, approvals: SessionApprovals) -> Self {
        let agent = Arc::new(AgentLock::new(agent));
        Self { id, tenant, created_at: now(), agent, approvals, state: Mutex::default() }
    }

    /// Sets what was saved of the session.
    pub(crate) fn restored(self, created_at: Timestamp, conversation: Vec<(String, Option<String>)>) -> Self {
        let mut state = State::default();
        for (message, answer) in conversation {
            state.messages = state.messages.saturating_add(1);
            state.add("user", &message);
            answer.iter().for_each(|answer| state.add("assistant", answer));
        }
        Self { created_at, state: Mutex::new(state), ..self }
    }

    /// Begins a message, or goes on with one that waits. Returns the token that cancels it; `None` if the session was closed.
    pub(crate) fn begin(&self, text: Option<&str>) -> Option<CancellationToken> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let cancelled = CancellationToken::new();
        if let Some(text) = text {
            state.messages = state.messages.saturating_add(1);
            state.add("user", text);
        }
        state.running = Some(cancelled.clone());
        Some(cancelled)
    }

    /// Takes back a message that was not begun.
    pub(crate) fn take_back(&self) {
        let mut state = self.lock();
        state.messages = state.messages.saturating_sub(1);
        if let Some(last) = state.conversation.iter().rposition(|message| message.role == "user") {
            state.conversation.remove(last);
        }
    }

    /// Ends a message with this text.
    pub(crate) fn end(&self, text: &str) {
        let mut state = self.lock();
        state.running = None;
        if !text.is_empty() {
            state.add("assistant", text);
        }
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.running.take().inspect(CancellationToken::cancel);
    }

    pub(crate) fn summary(&self) -> SessionSummary {
        let state = self.lock();
        let status = if state.running.is_some() { "running" } else { "idle" };
        SessionSummary { id: self.id.clone(), status, created_at_ms: self.created_at.0, messages: state.messages }
    }

    pub(crate) fn detail(&self) -> SessionDetail {
        SessionDetail { summary: self.summary(), conversation: self.lock().conversation.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that holds the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, role: &'static str, text: &str) {
        if self.conversation.len() >= MAX_LISTED_MESSAGES {
            self.conversation.remove(0);
        }
        self.conversation.push(SessionMessage { role, text: text.to_owned() });
    }
}

/// The open sessions.
#[derive(Default)]
pub(crate) struct Sessions {
    prefix: u64,
    /// Numbers as ids have them, so that a tenant does not learn how many sessions others open.
    numbers: OpaqueNumbers,
    open: Mutex<OpenSessions>,
    /// Set for each tenant whose saved sessions are among the open ones.
    restored: Mutex<BTreeMap<Arc<str>, Arc<OnceCell<()>>>>,
}

#[derive(Default)]
struct OpenSessions {
    last: u64,
    sessions: BTreeMap<u64, Arc<Session>>,
}

impl Sessions {
    /// Creates an empty set. The ids of its sessions begin with `prefix`.
    pub(crate) fn new(prefix: u64) -> Self {
        Self { prefix, ..Self::default() }
    }

    /// Returns the cell to be set once the saved sessions of a tenant are among the open ones. Other tenants do not wait for it.
    pub(crate) fn restore_cell(&self, tenant: &Arc<str>) -> Arc<OnceCell<()>> {
        // No code that holds the lock can panic half-way.
        let mut restored = self.restored.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(restored.entry(Arc::clone(tenant)).or_default())
    }

    /// Adds a session that was saved before this server began.
    pub(crate) fn add_saved(&self, session: Arc<Session>) {
        let mut open = self.lock();
        open.last = open.last.saturating_add(1);
        let number = open.last;
        open.sessions.insert(number, session);
    }

    /// Returns the number and the id of the next session of a tenant; `None` if it has too many.
    pub(crate) fn reserve(&self, tenant: &str) -> Option<(u64, String)> {
        let mut open = self.lock();
        if open.sessions.values().filter(|session| *session.tenant == *tenant).count() >= MAX_SESSIONS {
            return None;
        }
        open.last = open.last.saturating_add(1);
        Some((open.last, format!("s{:016x}-{:016x}", self.prefix, self.numbers.encode(open.last))))
    }

    pub(crate) fn add(&self, number: u64, session: Arc<Session>) {
        self.lock().sessions.insert(number, session);
    }

    /// Returns the sessions of a tenant, the newest first.
    pub(crate) fn list(&self, tenant: &str) -> Vec<Arc<Session>> {
        let open = self.lock();
        open.sessions.values().rev().filter(|session| *session.tenant == *tenant).cloned().collect()
    }

    /// Returns a session, if it is one of this tenant.
    pub(crate) fn find(&self, tenant: &str, id: &str) -> Option<Arc<Session>> {
        self.list(tenant).into_iter().find(|session| session.id == id)
    }

    /// Closes a session of this tenant, and cancels the message that is being answered. Returns the session.
    pub(crate) fn remove(&self, tenant: &str, id: &str) -> Option<Arc<Session>> {
        let session = self.find(tenant, id)?;
        self.lock().sessions.retain(|_, other| !Arc::ptr_eq(other, &session));
        session.close();
        Some(session)
    }

    fn lock(&self) -> MutexGuard<'_, OpenSessions> {
        // No code that holds the lock can panic half-way.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
