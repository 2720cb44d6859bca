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
use crate::session::{Action, Input, PendingCall, SAVED_VERSION, SavedHead, SavedInput};

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
    /// A random name of this program, so that no other writes equal entries: only one of them can go on.
    pub(super) writer: Arc<str>,
}

impl Saving {
    /// Creates the saving of a session that has this number of entries.
    pub(super) fn new(store: Arc<dyn SessionStore>, next: u64, resumed: Option<Timestamp>, writer: Arc<str>) -> Self {
        Self { store, next, resumed, has_failed: false, writer }
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
    /// A request that was not answered is sent again. Calls that wait for a person go on with the answers that were given
    /// ([`Agent::answer_call`]); without any, the run goes on waiting. Calls that had begun are told to the model as interrupted, except
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
        self.saving.as_ref().map(|saving| SavedInput {
            input: input.clone(),
            state: state.map(str::to_owned),
            writer: saving.writer.to_string(),
        })
    }

    /// Steps into a run that was under way, and returns its next action.
    pub(super) async fn step_into_resumed(&mut self, seen: usize) -> Result<Action, RunError> {
        let now = self.clock.now();
        if let waiting @ [_, ..] = self.session.waiting_calls() {
            let waiting = waiting.to_vec();
            return self.take_up(waiting, seen).await;
        }
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

    /// Lets calls go on that wait: those that are answered, and all if a person can be asked now. If there is none, the
    /// session goes on waiting, and nothing is saved.
    async fn take_up(&mut self, waiting: Vec<PendingCall>, seen: usize) -> Result<Action, RunError> {
        let can_ask = self.executor.can_ask();
        let ready = waiting.iter().filter(|call| can_ask || call.answer.is_some());
        let mut calls: Vec<String> = ready.map(|call| call.deferred.call.clone()).collect();
        // A program may wait for several answers.
        calls.sort_unstable();
        calls.dedup();
        if calls.is_empty() {
            return Ok(Action::AwaitAnswers(waiting));
        }
        let opening = self.opening_records(self.clock.now());
        self.step_with(opening, Input::CallsTakenUp { calls }, seen).await
    }

    /// Makes those calls again that may be repeated, and those that are only made to be refused. Gives up the others.
    async fn repeat_calls(&mut self, calls: Vec<ToolIntent>) -> Input {
        let may_repeat = |call: &ToolIntent| self.repeat.as_ref().is_some_and(|repeat| repeat(call));
        let repeated: Vec<ToolIntent> =
            calls.into_iter().filter(|call| self.session.is_denied(&call.id) || may_repeat(call)).collect();
        if repeated.is_empty() {
            return Input::ToolsInterrupted { outcome: BatchOutcome::new(Vec::new(), None), blocked: Duration::ZERO };
        }
        // An approval holds for one attempt: a call that may have run is asked about again.
        self.session.drop_approvals();
        match self.run_tools(repeated).await {
            Input::ToolsFinished { outcome, blocked } => Input::ToolsInterrupted { outcome, blocked },
            stopped => stopped,
        }
    }
}
