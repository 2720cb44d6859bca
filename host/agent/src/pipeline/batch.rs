//! What the calls of one batch have in common.

use std::sync::{Arc, Mutex, PoisonError};

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
}

impl<'a> Batch<'a> {
    /// The envelope is checked here, once for each batch and never earlier.
    pub(super) fn new(parts: &Parts, scope: &'a Scope) -> Self {
        let (skill, envelope) = (scope.skill.as_ref(), scope.envelope.as_deref());
        let allowed = parts.allowlists.effective(skill, envelope, parts.clock.now());
        Self { scope, allowed, state: Mutex::new(State { text: scope.state.clone(), changed: false }) }
    }

    /// Whether errors are in a channel's own words.
    pub(super) fn is_channel(&self) -> bool {
        self.allowed.is_channel(self.scope.envelope.is_some())
    }

    /// The agent's state, as the hooks of this batch have left it so far.
    pub(super) fn state(&self) -> Option<Arc<str>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).text.clone()
    }

    /// A hook changed the state. Calls of one batch have no order: the last change counts.
    pub(super) fn set_state(&self, text: Option<Arc<str>>) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State { text, changed: true };
    }

    /// The state, if a hook changed it.
    pub(super) fn changed_state(&self) -> Option<Arc<str>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.changed { state.text.clone() } else { None }
    }
}
