//! State that the calls of one batch share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::chat::Usage;

use super::allowlist::EffectiveAllowlist;
use super::config::PipelineConfig;
use crate::executor::Scope;

/// A batch of calls within one scope.
pub(super) struct Batch<'a> {
    pub(super) scope: &'a Scope,
    pub(super) allowed: EffectiveAllowlist,
    state: Mutex<State>,
}

struct State {
    text: Option<Arc<str>>,
    changed: bool,
    usage: Usage,
}

impl<'a> Batch<'a> {
    /// Starts a batch and resolves its allowlist: the envelope is checked once for each batch and never earlier.
    pub(super) fn new(config: &PipelineConfig, scope: &'a Scope) -> Self {
        let (skill, envelope) = (scope.skill.as_ref(), scope.envelope.as_deref());
        let allowed = config.allowlists.resolve(skill, envelope, config.clock.now());
        Self {
            scope,
            allowed,
            state: Mutex::new(State { text: scope.state.clone(), changed: false, usage: Usage::default() }),
        }
    }

    /// Returns whether errors use the wording for channels.
    pub(super) fn is_channel(&self) -> bool {
        self.allowed.is_channel(self.scope.envelope.is_some())
    }

    /// Returns the agent's state as the hooks of this batch have left it so far.
    pub(super) fn state(&self) -> Option<Arc<str>> {
        self.lock().text.clone()
    }

    /// Replaces the state that a hook changed. Calls of one batch have no order: the last change counts.
    pub(super) fn set_state(&self, text: Option<Arc<str>>) {
        let mut state = self.lock();
        (state.text, state.changed) = (text, true);
    }

    /// Adds tokens that were used on the path of a call.
    pub(super) fn add_usage(&self, usage: Usage) {
        self.lock().usage += usage;
    }

    /// Returns the tokens that were used so far.
    pub(super) fn usage(&self) -> Usage {
        self.lock().usage
    }

    /// Returns the state if a hook changed it.
    pub(super) fn changed_state(&self) -> Option<Arc<str>> {
        let state = self.lock();
        if state.changed { state.text.clone() } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
