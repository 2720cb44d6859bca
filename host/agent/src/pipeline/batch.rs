//! What the calls of one batch have in common.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::chat::Usage;

use super::parts::Parts;
use crate::allowlist::Effective;
use crate::executor::Scope;

/// One batch within one scope.
pub(super) struct Batch<'a> {
    pub(super) scope: &'a Scope,
    pub(super) allowed: Effective,
    state: Mutex<State>,
}

struct State {
    text: Option<Arc<str>>,
    changed: bool,
    spent: Usage,
}

impl<'a> Batch<'a> {
    /// The envelope is checked here, once for each batch and never earlier.
    pub(super) fn new(parts: &Parts, scope: &'a Scope) -> Self {
        let (skill, envelope) = (scope.skill.as_ref(), scope.envelope.as_deref());
        let allowed = parts.allowlists.effective(skill, envelope, parts.clock.now());
        Self {
            scope,
            allowed,
            state: Mutex::new(State { text: scope.state.clone(), changed: false, spent: Usage::default() }),
        }
    }

    /// Whether errors are in a channel's own words.
    pub(super) fn is_channel(&self) -> bool {
        self.allowed.is_channel(self.scope.envelope.is_some())
    }

    /// The agent's state, as the hooks of this batch have left it so far.
    pub(super) fn state(&self) -> Option<Arc<str>> {
        self.lock().text.clone()
    }

    /// A hook changed the state. Calls of one batch have no order: the last change counts.
    pub(super) fn set_state(&self, text: Option<Arc<str>>) {
        let mut state = self.lock();
        (state.text, state.changed) = (text, true);
    }

    /// Something on the path of a call used tokens.
    pub(super) fn spend(&self, usage: Usage) {
        self.lock().spent += usage;
    }

    /// The tokens that were used so far.
    pub(super) fn spent(&self) -> Usage {
        self.lock().spent
    }

    /// The state, if a hook changed it.
    pub(super) fn changed_state(&self) -> Option<Arc<str>> {
        let state = self.lock();
        if state.changed { state.text.clone() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
