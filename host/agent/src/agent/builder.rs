//! The builder of an agent.

use std::fmt;
use std::sync::Arc;

use fumehood_core::chat::Model;
use fumehood_core::record::{Durability, NullRecorder, Recorder};

use super::events::Tap;
use super::record_factory::{RecordFactory, RequestTexts};
use super::run::Agent;
use super::wait::CancelHandle;
use crate::clock::{Clock, SystemClock};
use crate::drivers::driver::Driver;
use crate::executor::{Scope, ToolExecutor};
use crate::pipeline::approver::Approver;
use crate::session::budget::TenantFuel;
use crate::session::{Session, SessionConfig};

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
    #[error("the agent has no driver to take replies for decisions; give it one with `.driver(…)`")]
    NoDriver,
    /// The executor is missing.
    #[error("the agent has no executor to run calls; give it one with `.executor(…)`")]
    NoExecutor,
    /// The approver is missing, although the session is to ask for more turns.
    #[error("the session is to ask a person for more turns, and there is none; give it one with `.approver(…)`")]
    NoApprover,
    /// The system has no random bytes for the id of the session.
    #[error("the system gave no random bytes to name the session with; name it yourself in `SessionConfig::id`")]
    NoRandom,
}

/// Generates a random id for a session.
pub(super) fn new_session_id() -> Result<String, BuildError> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|_| BuildError::NoRandom)?;
    Ok(format!("s{:016x}", u64::from_be_bytes(random)))
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

    /// Builds the agent.
    ///
    /// # Errors
    /// If the driver or the executor is missing, the session is to ask for more turns without an approver, or the
    /// system has no random bytes for the id of the session.
    pub fn build(mut self) -> Result<Agent, BuildError> {
        let driver = self.driver.ok_or(BuildError::NoDriver)?;
        let executor = self.executor.ok_or(BuildError::NoExecutor)?;
        if self.approver.is_some() {
            self.config.ask_for_turns = true;
        } else if self.config.ask_for_turns {
            return Err(BuildError::NoApprover);
        }
        if self.config.id.is_empty() {
            self.config.id = new_session_id()?;
        }
        let id = self.config.id.clone();
        let actor = self.scope.actor.as_deref().map(str::to_owned);
        Ok(Agent {
            session_id: Arc::from(id.as_str()),
            records: RecordFactory::new(id, actor),
            session: Session::new(self.config, driver),
            model: self.model,
            executor,
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
        })
    }
}
