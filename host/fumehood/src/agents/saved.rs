//! Setters of an agent whose session is saved, or goes on after it was saved.

use std::sync::Arc;

use fumehood_agent::session::SavedSession;
use fumehood_core::saved_session::SessionStore;

use super::builder::AgentBuilder;

impl AgentBuilder {
    /// Saves the session: see [`LoopBuilder::save_to`](fumehood_agent::agent::LoopBuilder::save_to). An
    /// [`EventLog`](crate::event_log::EventLog) is a store; one that is the recorder, too, has each part of a session in
    /// one transaction with its records.
    pub fn save_to(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.agent = self.agent.save_to(store);
        self
    }

    /// Saves settings of the program with the session: see
    /// [`LoopBuilder::saved_settings`](fumehood_agent::agent::LoopBuilder::saved_settings).
    pub fn saved_settings(mut self, settings: impl Into<Arc<str>>) -> Self {
        self.agent = self.agent.saved_settings(settings);
        self
    }

    /// Goes on with a session that was saved, with its own prompt, budget and limits. The driver and the actor have to be
    /// the same. [`Agent::resume`](fumehood_agent::agent::Agent::resume) ends the run that was under way.
    pub fn resume(mut self, session: SavedSession) -> Self {
        self.agent = self.agent.resume(session);
        self
    }

    /// Makes calls that were under way when the program stopped again if their tools say that they are read-only or
    /// idempotent. It is the word of their authors. Without this, the model is told that they were interrupted.
    ///
    /// It applies to tools of components.
    pub fn repeat_idempotent(mut self) -> Self {
        let host = self.host.clone();
        self.agent = self.agent.repeat_interrupted(Arc::new(move |call| {
            host.tool(&call.name).is_some_and(|tool| {
                let claims = &tool.definition().annotations;
                claims.read_only == Some(true) || claims.idempotent == Some(true)
            })
        }));
        self
    }
}
