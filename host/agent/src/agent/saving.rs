//! Saving a session while it runs, and going on with one that was saved.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{Reply, ToolIntent};
use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder as _};
use fumehood_core::saved_session::{SessionEntry, SessionStore};
use fumehood_core::time::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::iteration::Iteration;
use super::outcome::RunError;
use super::run::Agent;
use crate::clock::Clock;
use crate::drivers::reply_part::ReplyPart;
use crate::executor::BatchOutcome;
use crate::program_record::{ProgramEvent, ProgramRecord, ProgramRecords};
use crate::session::{
    Action, Input, PendingCall, Programs, SAVED_VERSION, SavedHead, SavedInput, SavedProgram, Session,
};

/// Decides whether a call that was under way when the program stopped is made again.
pub type RepeatCall = Arc<dyn Fn(&ToolIntent) -> bool + Send + Sync>;

/// An entry that was handed to the store. The future completes once it is stored.
type AppendFuture<'a> = BoxFuture<'a, Result<(), RecordError>>;

/// The saving of a session, and of the programs that it runs.
pub(super) struct Saving {
    store: Arc<dyn SessionStore>,
    session: Arc<str>,
    /// A random name of this program, so that no other writes equal entries: only one of them can go on.
    writer: Arc<str>,
    clock: Arc<dyn Clock>,
    repeat: Option<RepeatCall>,
    /// The settings of the program, for the first entry.
    settings: Option<Arc<str>>,
    /// The names of tools of whose calls nothing may be saved.
    withholds: Arc<[String]>,
    state: Mutex<SavingState>,
}

/// The part of the saving that changes.
#[derive(Default)]
pub(super) struct SavingState {
    /// The number of the next entry.
    pub(super) next: u64,
    /// The time of the last entry before this program, if the session was resumed and nothing was saved since.
    pub(super) resumed: Option<Timestamp>,
    /// The records of programs that the session waits for.
    pub(super) programs: Programs,
    /// True if an entry could not be stored. Later ones would leave a gap.
    has_failed: bool,
    /// True once the model has called a tool of whose calls nothing may be saved: what follows may repeat them.
    is_withheld: bool,
}

impl SavingState {
    /// Creates the state of a session that has this number of entries.
    pub(super) fn new(next: u64, resumed: Option<Timestamp>, programs: Programs) -> Self {
        Self { next, resumed, programs, has_failed: false, is_withheld: false }
    }

    /// Sets whether a part of the session is in memory alone.
    pub(super) fn withheld(self, is_withheld: bool) -> Self {
        Self { is_withheld, ..self }
    }
}

impl fmt::Debug for Saving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saving").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Saving {
    pub(super) fn new(
        store: Arc<dyn SessionStore>,
        session: Arc<str>,
        writer: Arc<str>,
        clock: Arc<dyn Clock>,
        repeat: Option<RepeatCall>,
        state: SavingState,
    ) -> Self {
        let settings = None;
        let withholds = Arc::default();
        Self { store, session, writer, clock, repeat, settings, withholds, state: Mutex::new(state) }
    }

    /// Sets the settings of the program that are saved with the session.
    pub(super) fn settings(self, settings: Option<Arc<str>>) -> Self {
        Self { settings, ..self }
    }

    /// Sets the names of tools of whose calls nothing may be saved.
    pub(super) fn withholds(self, tools: Vec<String>) -> Self {
        Self { withholds: tools.into(), ..self }
    }

    /// Creates the saving of the session that follows, of this id.
    pub(super) fn of_next_session(&self, session: Arc<str>) -> Self {
        let store = Arc::clone(&self.store);
        let writer = Arc::clone(&self.writer);
        let clock = Arc::clone(&self.clock);
        let next = Self::new(store, session, writer, clock, self.repeat.clone(), SavingState::default());
        Self { withholds: Arc::clone(&self.withholds), ..next.settings(self.settings.clone()) }
    }

    fn lock(&self) -> MutexGuard<'_, SavingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands the first entry to the store.
    fn append_head(
        &self,
        state: &mut SavingState,
        at: Timestamp,
        head: &SavedHead,
    ) -> Result<AppendFuture<'_>, RecordError> {
        let entry = self.next_entry(state, at, to_content(head)?)?;
        Ok(self.store.append(entry, Vec::new()))
    }

    /// Hands the next entry to the store. The future completes when it is on disk, or, if nothing of it may be there, when
    /// its placeholder is.
    fn append(
        &self,
        state: &mut SavingState,
        at: Timestamp,
        mut saved: SavedInput,
        records: Vec<Record>,
    ) -> Result<AppendFuture<'_>, RecordError> {
        let mut content = to_content(&saved)?;
        // A message of the user has the names of all tools.
        let is_message = matches!(saved.input, Some(Input::UserMessage { .. }));
        state.is_withheld |= !is_message && self.withholds.iter().any(|name| content.contains(name.as_str()));
        if !state.is_withheld {
            let entry = self.next_entry(state, at, content)?;
            return Ok(self.store.append(entry, records));
        }
        if !saved.is_withheld {
            saved.is_withheld = true;
            content = to_content(&saved)?;
        }
        let placeholder = SavedInput { is_withheld: true, writer: saved.writer, ..SavedInput::default() };
        let placeholder = to_content(&placeholder)?;
        let entry = self.next_entry(state, at, content)?;
        Ok(self.store.append_withheld(entry, placeholder, records))
    }

    fn next_entry(&self, state: &mut SavingState, at: Timestamp, content: String) -> Result<SessionEntry, RecordError> {
        if state.has_failed {
            return Err(RecordError("an earlier part of the session could not be saved".to_owned()));
        }
        let number = state.next;
        state.next = number.saturating_add(1);
        state.resumed = None;
        Ok(SessionEntry { session: self.session.to_string(), number, at, content })
    }

    async fn stored(&self, appended: AppendFuture<'_>) -> Result<(), RecordError> {
        let outcome = appended.await;
        self.lock().has_failed |= outcome.is_err();
        outcome
    }

    /// Forgets the programs that the session does not wait for any more.
    pub(super) fn settle_programs(&self, session: &Session) {
        self.lock().programs.settle(session);
    }

    fn has_program(&self, call: &str) -> bool {
        self.lock().programs.has(call)
    }

    fn resumed(&self) -> Option<Timestamp> {
        self.lock().resumed
    }
}

fn to_content(content: &impl Serialize) -> Result<String, RecordError> {
    serde_json::to_string(content).map_err(|error| RecordError(format!("the session cannot be saved: {error}")))
}

impl ProgramRecords for Saving {
    fn record(&self, call: &str) -> ProgramRecord {
        self.lock().programs.record(call)
    }

    fn append<'a>(&'a self, call: &'a str, events: Vec<ProgramEvent>) -> BoxFuture<'a, Result<(), RecordError>> {
        let program = SavedProgram { call: call.to_owned(), events: events.clone() };
        let saved = SavedInput { program: Some(program), writer: self.writer.to_string(), ..SavedInput::default() };
        let appended = {
            let mut state = self.lock();
            let appended = self.append(&mut state, self.clock.now(), saved, Vec::new());
            state.programs.push(call, events);
            appended
        };
        Box::pin(async move { self.stored(appended?).await })
    }

    fn may_repeat(&self, call: &ToolIntent) -> bool {
        self.repeat.as_ref().is_some_and(|repeat| repeat(call))
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
        let status = self.saving.as_ref().and_then(|saving| saving.resumed()).map(|_| "resumed");
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
        let (Some(saving), Some(input)) = (self.saving.clone(), input) else {
            let count = records.len();
            for (index, record) in records.into_iter().enumerate() {
                // Written together: the last one waits for all.
                let is_last = index.saturating_add(1) == count;
                let durability = if is_last { self.durability } else { Durability::Deferred };
                self.tap.record(record, durability).await?;
            }
            return Ok(());
        };
        let appended = {
            let mut state = saving.lock();
            if state.next == 0 {
                let head = SavedHead {
                    version: SAVED_VERSION,
                    config: self.session.config().clone(),
                    driver: self.session.driver_name().to_owned(),
                    actor: self.scope.actor.as_deref().map(str::to_owned),
                    state: self.initial_state.as_deref().map(str::to_owned),
                    settings: saving.settings.as_deref().map(str::to_owned),
                };
                // The one behind it is waited for.
                drop(saving.append_head(&mut state, now, &head)?);
            }
            saving.append(&mut state, now, input, records.clone())?
        };
        self.tap.notify_records(records);
        saving.stored(appended).await
    }

    /// Returns what is saved of an input, before it is used up.
    pub(super) fn to_saved(&self, input: &Input) -> Option<SavedInput> {
        let saving = self.saving.as_ref()?;
        let (input, reply) = self.split_reply(input.clone());
        let writer = saving.writer.to_string();
        Some(SavedInput { input: Some(input), reply, program: None, state: None, is_withheld: false, writer })
    }

    /// Takes the text out of an answer whose parts are kept instead.
    fn split_reply(&self, mut input: Input) -> (Input, Option<Vec<ReplyPart>>) {
        let Input::ModelAnswered { response, .. } = &mut input else { return (input, None) };
        let parts = self.session.split_reply(response);
        if parts.is_some() {
            response.reply = Reply::Text(String::new());
        }
        (input, parts)
    }

    /// Steps into a run that was under way, and returns its next action; `None` if it is suspended again.
    pub(super) async fn step_into_resumed(&mut self, seen: usize) -> Result<Option<Action>, RunError> {
        let now = self.clock.now();
        if let waiting @ [_, ..] = self.session.waiting_calls() {
            let waiting = waiting.to_vec();
            return self.resume_calls(waiting, seen).await.map(Some);
        }
        let before = self.saving.as_ref().and_then(|saving| saving.resumed()).unwrap_or(now);
        let opening = self.opening_records(now);
        let action = self.step_with(opening, Input::Resumed { away: now.since(before) }, seen).await?;
        match action {
            Action::RunTools(calls) => {
                let Some(input) = self.repeat_calls(calls).await else { return Ok(None) };
                self.step(input, seen).await.map(Some)
            }
            action => Ok(Some(action)),
        }
    }

    /// Lets calls go on that wait: those that are answered, and all if a person can be asked now. If there is none, the
    /// session goes on waiting, and nothing is saved.
    async fn resume_calls(&mut self, waiting: Vec<PendingCall>, seen: usize) -> Result<Action, RunError> {
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
        self.step_with(opening, Input::CallsResumed { calls }, seen).await
    }

    /// Makes those calls again that may be repeated, those that are only made to be refused, and those of programs, which
    /// go on from their records. Gives up the others.
    async fn repeat_calls(&mut self, calls: Vec<ToolIntent>) -> Option<Input> {
        let may_repeat = |call: &ToolIntent| {
            let saving = self.saving.as_ref();
            let is_program = saving.is_some_and(|saving| saving.has_program(&call.id));
            is_program || self.session.is_denied(&call.id) || self.repeat.as_ref().is_some_and(|repeat| repeat(call))
        };
        let repeated: Vec<ToolIntent> = calls.into_iter().filter(may_repeat).collect();
        if repeated.is_empty() {
            let outcome = BatchOutcome::new(Vec::new(), None);
            return Some(Input::ToolsInterrupted { outcome, blocked: Duration::ZERO });
        }
        // An approval holds for one attempt: a call that may have run is asked about again.
        self.session.drop_approvals();
        Some(match self.run_tools(repeated).await? {
            Input::ToolsFinished { outcome, blocked } => Input::ToolsInterrupted { outcome, blocked },
            stopped => stopped,
        })
    }
}
