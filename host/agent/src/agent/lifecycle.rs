//! The end of an agent's session, and the beginning of the next one.

use std::sync::Arc;

use fumehood_core::chat::ToolSpec;
use fumehood_core::record::{Record, RecordError, RecordKind, Recorder as _};
use serde_json::json;

use super::builder::new_session_id;
use super::ledger::Ledger;
use super::outcome::ResetError;
use super::run::Agent;
use super::texts::Texts;
use crate::transcript::Ending;

impl Agent {
    /// The tools that the model may call now.
    #[must_use]
    pub fn tools(&self) -> Vec<ToolSpec> {
        self.executor.specs(&self.scope_of(self.session.next_run(), 1))
    }

    /// Ends the session, and begins another with the same parts, whose model knows nothing of this one. What the scope
    /// carries, such as its state, stays.
    ///
    /// # Errors
    /// If the end of the session cannot be recorded, or the system has no random numbers to name the next one with.
    pub async fn reset(&mut self) -> Result<(), ResetError> {
        let id = new_session_id()?;
        if let Some(record) = self.last_record() {
            self.keep(record).await?;
        }
        let actor = self.scope.actor.as_deref().map(str::to_owned);
        self.name = Arc::from(id.as_str());
        self.ledger = Ledger::new(id.clone(), actor);
        self.session.reset(id);
        self.texts = self.texts.is_some().then(Texts::default);
        self.inputs = self.inputs.is_some().then(Vec::new);
        self.closed = false;
        Ok(())
    }

    /// Ends the session, and waits until that is recorded. Dropping the agent ends it as well, without waiting.
    ///
    /// # Errors
    /// If that cannot be recorded.
    pub async fn close(mut self) -> Result<(), RecordError> {
        match self.last_record() {
            Some(record) => self.tap.record(record, self.durability).await,
            None => Ok(()),
        }
    }

    /// The record of the session's end, once; none if the session never began.
    fn last_record(&mut self) -> Option<Record> {
        if self.closed || self.ledger.is_empty() {
            return None;
        }
        self.closed = true;
        let runs = &self.session.transcript().runs;
        let status = runs.last().and_then(|run| run.ending.as_ref()).map(Ending::as_str);
        let body = json!({ "runs": runs.len(), "spent": self.session.spent() });
        let now = self.clock.now();
        Some(self.ledger.make(RecordKind::SessionFinished, status, now, body))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if let Some(record) = self.last_record() {
            drop(self.tap.record(record, self.durability));
        }
    }
}
