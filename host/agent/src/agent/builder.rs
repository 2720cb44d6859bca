//! The builder of an agent.

use std::fmt;
use std::sync::Arc;

use fumehood_core::chat::Model;
use fumehood_core::policy::call::Approver;
use fumehood_core::record::{Durability, NullRecorder, Recorder};
use fumehood_core::saved_session::{SessionStore, is_session_id};

use super::agent_tool::ParentSession;
use super::events::Tap;
use super::record_factory::{RecordFactory, RequestTexts};
use super::run::Agent;
use super::saving::{RepeatCall, Saving, SavingState};
use super::wait::CancelHandle;
use crate::clock::{Clock, SystemClock};
use crate::drivers::driver::Driver;
use crate::executor::{Scope, ToolExecutor};
use crate::session::budget::TenantFuel;
use crate::session::{Compaction, RestoredSession, SavedSession, SavedSessionError, Session, SessionConfig};

/// A builder of an [`Agent`], made by [`Agent::builder`].
///
/// - The driver and the executor have no default.
/// - Records go to a [`NullRecorder`].
/// - There is no approver.
/// - The clock is the [`SystemClock`].
pub struct LoopBuilder {
    model: Arc<dyn Model>,
    driver: Option<Box<dyn Driver>>,
    executor: Option<Arc<dyn ToolExecutor>>,
    config: SessionConfig,
    scope: Scope,
    tap: Option<Arc<Tap>>,
    durability: Durability,
    clock: Arc<dyn Clock>,
    approver: Option<Arc<dyn Approver>>,
    tenant: Option<Arc<TenantFuel>>,
    keep_inputs: bool,
    keep_texts: bool,
    store: Option<Arc<dyn SessionStore>>,
    resumed: Option<SavedSession>,
    saved_settings: Option<Arc<str>>,
    repeat: Option<RepeatCall>,
    compaction: Option<Arc<dyn Compaction>>,
}

impl fmt::Debug for LoopBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopBuilder").finish_non_exhaustive()
    }
}

/// Errors of [`LoopBuilder::build`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The driver is missing.
    #[error("the agent has no driver; set one with `.driver(…)`")]
    NoDriver,
    /// The executor is missing.
    #[error("the agent has no executor; set one with `.executor(…)`")]
    NoExecutor,
    /// The approver is missing, although the session is to ask for more turns.
    #[error("asking a person for more turns needs an approver; set one with `.approver(…)`")]
    NoApprover,
    /// The system has no random bytes for the id of the session.
    #[error("the system returned no random bytes for a session id; set `SessionConfig::id`")]
    NoRandom,
    /// The id of the session cannot be that of a saved one.
    #[error(
        "invalid session id `{0}`; expected 1 to 64 of `a-z`, `A-Z`, `0-9`, `.`, `_` and `-`, starting with a letter \
         or digit"
    )]
    SessionId(String),
    /// The saved session cannot be resumed.
    #[error("cannot resume session {session}")]
    Resume {
        /// The id of the session.
        session: String,
        /// The reason.
        source: SavedSessionError,
    },
}

/// Generates a random id for a session.
pub(super) fn new_session_id() -> Result<String, BuildError> {
    Ok(format!("s{}", new_writer()?))
}

/// Generates a random name for the program that saves a session.
pub(super) fn new_writer() -> Result<String, BuildError> {
    let random = getrandom::u64().map_err(|_| BuildError::NoRandom)?;
    Ok(format!("{random:016x}"))
}

impl LoopBuilder {
    pub(super) fn new(model: Arc<dyn Model>) -> Self {
        Self {
            model,
            driver: None,
            executor: None,
            config: SessionConfig::default(),
            scope: Scope::default(),
            tap: None,
            durability: Durability::default(),
            clock: Arc::new(SystemClock),
            approver: None,
            tenant: None,
            keep_inputs: false,
            keep_texts: false,
            store: None,
            resumed: None,
            saved_settings: None,
            repeat: None,
            compaction: None,
        }
    }

    /// Sets the driver, which reads decisions from replies. Replaces the one before.
    #[must_use]
    pub fn driver(mut self, driver: impl Driver + 'static) -> Self {
        self.driver = Some(Box::new(driver));
        self
    }

    /// Sets the executor of calls. Replaces the one before.
    #[must_use]
    pub fn executor(mut self, executor: Arc<dyn ToolExecutor>) -> Self {
        self.executor = Some(executor);
        self
    }

    /// Sets the configuration of the session. An empty id is replaced by a new one.
    #[must_use]
    pub fn config(mut self, config: SessionConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the actor, skill, envelope, state and parent of every batch. The loop fills in the rest of the scope.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Makes the agent part of the session that calls it as a tool: see [`AgentTool`](super::AgentTool). Its budget is
    /// at most what is left of that session's, and its actor is the same. Its records go to the same recorder unless it
    /// has one.
    ///
    /// Call this after [`Self::config`] and [`Self::scope`], which it changes.
    #[must_use]
    pub fn child_of(mut self, parent: &ParentSession) -> Self {
        self.config.budget = parent.reserve(&self.config.budget);
        parent.adopt(&mut self.scope);
        match &self.tap {
            Some(_) => self,
            None => self.recorder(parent.recorder()),
        }
    }

    /// Sets the recorder.
    #[must_use]
    pub fn recorder(self, recorder: Arc<dyn Recorder>) -> Self {
        self.tap(Arc::new(Tap::new(recorder)))
    }

    /// Sets a tap as the recorder, to be shared with the executor. Replaces [`Self::recorder`].
    #[must_use]
    pub fn tap(mut self, tap: Arc<Tap>) -> Self {
        self.tap = Some(tap);
        self
    }

    /// Sets how long to wait for each record.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets the clock. The default is the [`SystemClock`].
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the approver, who is asked for more turns when they have run out.
    #[must_use]
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self.config.ask_for_turns = true;
        self
    }

    /// Sets the compaction of what requests repeat. There is none by default.
    #[must_use]
    pub fn compaction(mut self, compaction: Arc<dyn Compaction>) -> Self {
        self.compaction = Some(compaction);
        self
    }

    /// Sets the fuel that the session shares with others.
    #[must_use]
    pub fn tenant_fuel(mut self, fuel: Arc<TenantFuel>) -> Self {
        self.tenant = Some(fuel);
        self
    }

    /// Keeps every input of the session in memory, so that it can be replayed.
    #[must_use]
    pub fn keep_inputs(mut self) -> Self {
        self.keep_inputs = true;
        self
    }

    /// Records the texts of requests and replies.
    ///
    /// Arguments and results of calls are left out, because the executor records them. Without this, only sizes are
    /// recorded, and the messages of the user and the answers.
    #[must_use]
    pub fn keep_texts(mut self) -> Self {
        self.keep_texts = true;
        self
    }

    /// Saves the session entry by entry, each before what follows from it is done. An entry has what the model saw, the
    /// results of calls included.
    #[must_use]
    pub fn save_to(mut self, store: Arc<dyn SessionStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Saves settings of the program with a session that begins, in a format of its own, for
    /// [`SavedSession::settings`]. Secrets do not belong there.
    #[must_use]
    pub fn saved_settings(mut self, settings: impl Into<Arc<str>>) -> Self {
        self.saved_settings = Some(settings.into());
        self
    }

    /// Goes on with a session that was saved, with its own configuration. The agent has the same driver and actor.
    /// [`Agent::resume`] ends the run that was under way, if there was one.
    #[must_use]
    pub fn resume(mut self, session: SavedSession) -> Self {
        self.resumed = Some(session);
        self
    }

    /// Sets which calls that were under way when the program stopped are made again. By default none is, because it may
    /// have had its effect.
    #[must_use]
    pub fn repeat_interrupted(mut self, repeat: RepeatCall) -> Self {
        self.repeat = Some(repeat);
        self
    }

    /// Builds the agent.
    ///
    /// # Errors
    /// If the driver or the executor is missing, the session is to ask for more turns without an approver, the system has
    /// no random bytes for the id of the session, or the saved session does not fit.
    pub fn build(mut self) -> Result<Agent, BuildError> {
        let driver = self.driver.ok_or(BuildError::NoDriver)?;
        let executor = self.executor.ok_or(BuildError::NoExecutor)?;
        if self.approver.is_some() {
            self.config.ask_for_turns = true;
        } else if self.config.ask_for_turns {
            return Err(BuildError::NoApprover);
        }
        let actor = self.scope.actor.as_deref().map(str::to_owned);
        let RestoredSession { session, state, entries, last, programs, is_withheld, .. } = match self.resumed {
            Some(saved) => restore(saved, driver, self.compaction, actor.as_deref())?,
            None => RestoredSession::begin(begin(self.config, driver)?.with_compaction(self.compaction)),
        };
        let id = session.config().id.clone();
        if self.store.is_some() && !is_session_id(&id) {
            return Err(BuildError::SessionId(id));
        }
        if let Some(state) = state {
            self.scope.state = Some(Arc::from(state));
        }
        let records = match entries {
            0 => RecordFactory::new(id.clone(), actor),
            entries => RecordFactory::resumed(id.clone(), actor, entries),
        };
        let saving = match self.store {
            Some(store) => {
                let state = SavingState::new(entries, last, programs).withheld(is_withheld);
                let session = Arc::from(id.as_str());
                let writer = new_writer()?.into();
                let clock = Arc::clone(&self.clock);
                let repeat = self.repeat.clone();
                let saving = Saving::new(store, session, writer, clock, repeat, state);
                let saving = saving.withholds(executor.withheld_tools());
                Some(Arc::new(saving.settings(self.saved_settings)))
            }
            None => None,
        };
        Ok(Agent {
            session_id: Arc::from(id),
            records,
            session,
            model: self.model,
            executor,
            initial_state: self.scope.state.clone(),
            scope: self.scope,
            tap: self.tap.unwrap_or_else(|| Arc::new(Tap::new(Arc::new(NullRecorder)))),
            durability: self.durability,
            clock: self.clock,
            approver: self.approver,
            tenant: self.tenant,
            cancel: CancelHandle::new(),
            texts: self.keep_texts.then(RequestTexts::default),
            inputs: self.keep_inputs.then(Vec::new),
            is_closed: false,
            saving,
            repeat: self.repeat,
            running: None,
        })
    }
}

fn begin(mut config: SessionConfig, driver: Box<dyn Driver>) -> Result<Session, BuildError> {
    if config.id.is_empty() {
        config.id = new_session_id()?;
    }
    Ok(Session::new(config, driver))
}

/// Makes a saved session again, for the same actor.
fn restore(
    saved: SavedSession,
    driver: Box<dyn Driver>,
    compaction: Option<Arc<dyn Compaction>>,
    actor: Option<&str>,
) -> Result<RestoredSession, BuildError> {
    let session = saved.id().to_owned();
    let refuse = |source| BuildError::Resume { session: session.clone(), source };
    if saved.actor() != actor {
        let found = quote_actor(saved.actor());
        return Err(refuse(SavedSessionError::Actor { found, expected: quote_actor(actor) }));
    }
    saved.restore(driver, compaction).map_err(refuse)
}

fn quote_actor(actor: Option<&str>) -> String {
    actor.map_or_else(|| "nobody".to_owned(), |actor| format!("`{actor}`"))
}
