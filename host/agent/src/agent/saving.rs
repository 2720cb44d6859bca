//! Saving a session while it runs, and going on with one that was saved.

use std::sync::Arc;
use std::time::Duration;

use fumehood_core::chat::ToolIntent;
use fumehood_core::record::{Record, RecordError, RecordKind};
use fumehood_core::saved_session::{SessionEntry, SessionStore};
use fumehood_core::time::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::iteration::Iteration;
use super::outcome::RunError;
use super::run::Agent;
use crate::executor::BatchOutcome;
use crate::session::{Action, Input, SAVED_VERSION, SavedHead, SavedInput};

/// Decides whether a call that was under way when the program stopped is made again.
pub type RepeatCall = Arc<dyn Fn(&ToolIntent) -> bool + Send + Sync>;

/// The saving of a session.
pub(super) struct Saving {
    pub(super) store: Arc<dyn SessionStore>,
    /// The number of the next entry.
    pub(super) next: u64,
    /// The time of the last entry before this program, if the session was resumed and nothing was saved since.
    pub(super) resumed: Option<Timestamp>,
    /// True if an entry could not be stored. Later ones would leave a gap.
    pub(super) has_failed: bool,
}

impl Saving {
    /// Creates the saving of a session that has this number of entries.
    pub(super) fn new(store: Arc<dyn SessionStore>, next: u64, resumed: Option<Timestamp>) -> Self {
        Self { store, next, resumed, has_failed: false }
    }

    /// Creates the next entry.
    fn entry(&mut self, session: &str, at: Timestamp, content: &impl Serialize) -> Result<SessionEntry, RecordError> {
        let content = serde_json::to_string(content);
        let content = content.map_err(|error| RecordError(format!("the session cannot be saved: {error}")))?;
        let number = self.next;
        self.next = number.saturating_add(1);
        self.resumed = None;
        Ok(SessionEntry { session: session.to_owned(), number, at, content })
    }
}

impl Agent {
    /// Goes on with the run that was under way when the program of a [resumed](super::LoopBuilder::resume) session
    /// stopped, step by step. Returns `None` if there is none: the session waits for a message.
    ///
    /// A request that was not answered is sent again. Calls that had begun are told to the model as interrupted, except
    /// those that [`LoopBuilder::repeat_interrupted`](super::LoopBuilder::repeat_interrupted) chooses, which are made
    /// again.
    pub fn resume(&mut self) -> Option<Iteration<'_>> {
        let seen = self.session.current_run()?.steps.len();
        Some(Iteration::resume(self, seen))
    }

    /// Returns the first records of a session, or of its resumption.
    pub(super) fn opening_records(&mut self, now: Timestamp) -> Vec<Record> {
        if !self.records.is_empty() {
            return Vec::new();
        }
        let status = self.saving.as_ref().and_then(|saving| saving.resumed).map(|_| "resumed");
        let body = json!({ "parent_session": self.scope.parent_session, "skill": self.scope.skill.as_deref() });
        vec![self.records.create(RecordKind::SessionStarted, status, now, body)]
    }

    /// Records what an input led to, and saves the input with that if the session is saved.
    pub(super) async fn commit(
        &mut self,
        input: Option<SavedInput>,
        records: Vec<Record>,
        now: Timestamp,
    ) -> Result<(), RecordError> {
        let (Some(saving), Some(input)) = (&mut self.saving, input) else {
            for record in records {
                self.record(record).await?;
            }
            return Ok(());
        };
        if saving.has_failed {
            return Err(RecordError("an earlier part of the session could not be saved".to_owned()));
        }
        if saving.next == 0 {
            let head = SavedHead {
                version: SAVED_VERSION,
                config: self.session.config().clone(),
                driver: self.session.driver_name().to_owned(),
                actor: self.scope.actor.as_deref().map(str::to_owned),
                state: self.initial_state.as_deref().map(str::to_owned),
            };
            let entry = saving.entry(&self.session_id, now, &head)?;
            // The one behind it is waited for.
            drop(saving.store.append(entry, Vec::new()));
        }
        let entry = saving.entry(&self.session_id, now, &input)?;
        let saved = saving.store.append(entry, records.clone());
        self.tap.notify_records(records);
        let outcome = saved.await;
        saving.has_failed = outcome.is_err();
        outcome
    }

    /// Returns what is saved of an input, before it is used up.
    pub(super) fn to_saved(&self, input: &Input) -> Option<SavedInput> {
        let state = match input {
            Input::ToolsFinished { outcome, .. } | Input::ToolsInterrupted { outcome, .. } => outcome.state.as_deref(),
            _ => None,
        };
        self.saving.as_ref().map(|_| SavedInput { input: input.clone(), state: state.map(str::to_owned) })
    }

    /// Steps into a run that was under way, and returns its next action.
    pub(super) async fn step_into_resumed(&mut self, seen: usize) -> Result<Action, RunError> {
        let now = self.clock.now();
        let before = self.saving.as_ref().and_then(|saving| saving.resumed).unwrap_or(now);
        let opening = self.opening_records(now);
        let action = self.step_with(opening, Input::Resumed { away: now.since(before) }, seen).await?;
        match action {
            Action::RunTools(calls) => {
                let input = self.repeat_calls(calls).await;
                self.step(input, seen).await
            }
            action => Ok(action),
        }
    }

    /// Makes those calls again that may be repeated, and gives up the others.
    async fn repeat_calls(&mut self, calls: Vec<ToolIntent>) -> Input {
        let repeated: Vec<ToolIntent> = match &self.repeat {
            Some(repeat) => calls.into_iter().filter(|call| repeat(call)).collect(),
            None => Vec::new(),
        };
        if repeated.is_empty() {
            return Input::ToolsInterrupted { outcome: BatchOutcome::new(Vec::new(), None), blocked: Duration::ZERO };
        }
        match self.run_tools(repeated).await {
            Input::ToolsFinished { outcome, blocked } => Input::ToolsInterrupted { outcome, blocked },
            stopped => stopped,
        }
    }
}
