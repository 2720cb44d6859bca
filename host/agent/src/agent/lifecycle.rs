//! The lifecycle of an agent's session: its end, and the start of the next one.

use std::sync::Arc;

use fumehood_core::chat::ToolSpec;
use fumehood_core::record::{Record, RecordError, RecordKind, Recorder as _};
use serde_json::json;

use super::builder::new_session_id;
use super::outcome::ResetError;
use super::record_factory::{RecordFactory, RequestTexts};
use super::run::Agent;
use crate::session::transcript::Ending;

impl Agent {
    /// Returns the tools that the model may call now.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.executor.specs(&self.scope_for(self.session.next_run_id(), 1))
    }

    /// Ends the session and starts a new one with the same parts and an empty conversation. The scope, with its state,
    /// is unchanged.
    ///
    /// # Errors
    /// If the end of the session cannot be recorded, or the system has no random bytes for the id of the next one.
    pub async fn reset(&mut self) -> Result<(), ResetError> {
        let id = new_session_id()?;
        if let Some(record) = self.final_record() {
            self.record(record).await?;
        }
        let actor = self.scope.actor.as_deref().map(str::to_owned);
        self.session_id = Arc::from(id.as_str());
        self.records = RecordFactory::new(id.clone(), actor);
        self.session.reset(id);
        self.texts = self.texts.is_some().then(RequestTexts::default);
        self.inputs = self.inputs.is_some().then(Vec::new);
        self.is_closed = false;
        self.initial_state = self.scope.state.clone();
        if let Some(saving) = &mut self.saving {
            *saving = Arc::new(saving.of_next_session(Arc::clone(&self.session_id)));
        }
        Ok(())
    }

    /// Ends the session and waits until its end is recorded. Dropping the agent ends the session without waiting.
    ///
    /// # Errors
    /// If the end of the session cannot be recorded.
    pub async fn close(mut self) -> Result<(), RecordError> {
        match self.final_record() {
            Some(record) => self.tap.record(record, self.durability).await,
            None => Ok(()),
        }
    }

    /// Creates the record of the session's end. Returns `None` if it exists already, or the session never began.
    fn final_record(&mut self) -> Option<Record> {
        if self.is_closed || self.records.is_empty() {
            return None;
        }
        self.is_closed = true;
        let runs = &self.session.transcript().runs;
        let status = match self.session.waiting_calls() {
            [] if self.session.current_run().is_some() => Some("suspended"),
            [] => runs.last().and_then(|run| run.ending.as_ref()).map(Ending::as_str),
            [_, ..] => Some("waiting_for_approval"),
        };
        let body = json!({ "runs": runs.len(), "spent": self.session.budget_usage() });
        let now = self.clock.now();
        Some(self.records.create(RecordKind::SessionFinished, status, now, body))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(record) = self.final_record() {
            drop(self.tap.record(record, self.durability));
        }
    }
}
