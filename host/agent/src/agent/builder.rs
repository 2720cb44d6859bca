//! Puts an agent together out of its parts.

use std::sync::Arc;

use fumehood_core::chat::Model;
use fumehood_core::record::{Durability, NullRecorder, Recorder};

use super::cancel::CancelHandle;
use super::events::Tap;
use super::ledger::Ledger;
use super::run::Agent;
use super::texts::Texts;
use crate::approver::Approver;
use crate::budget::TenantFuel;
use crate::clock::{Clock, SystemClock};
use crate::driver::Driver;
use crate::executor::{Scope, ToolExecutor};
use crate::session::{Session, SessionConfig};

/// An agent in the making. Nothing is kept and nobody is asked unless said so; the clock is the system's.
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

/// Why there is no agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Nobody decides.
    #[error("the agent has no driver to take replies for decisions; give it one with `with_driver`")]
    NoDriver,
    /// Nobody runs calls.
    #[error("the agent has no executor to run calls; give it one with `with_executor`")]
    NoExecutor,
    /// There is nobody to ask.
    #[error("the session is to ask a person for more turns, and there is none; give it one with `with_approver`")]
    NoApprover,
    /// The system has no random numbers.
    #[error("the system gave no random bytes to name the session with; name it yourself in `SessionConfig::id`")]
    NoRandom,
}

/// Makes up a name for a session.
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

    /// Who takes replies for decisions. Replaces the one before.
    #[must_use]
    pub fn with_driver(mut self, driver: impl Driver + 'static) -> Self {
        self.driver = Some(Box::new(driver));
        self
    }

    /// Who runs calls. Replaces the one before.
    #[must_use]
    pub fn with_executor(mut self, executor: Arc<dyn ToolExecutor>) -> Self {
        self.executor = Some(executor);
        self
    }

    /// What the session is set up with. An empty id is replaced by a new one.
    #[must_use]
    pub fn with_config(mut self, config: SessionConfig) -> Self {
        self.config = config;
        self
    }

    /// Actor, skill, envelope, state and parent of every batch. The rest of a scope is filled in by the loop.
    #[must_use]
    pub fn with_scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Where records are kept.
    #[must_use]
    pub fn with_recorder(self, recorder: Arc<dyn Recorder>) -> Self {
        self.with_tap(Arc::new(Tap::new(recorder)))
    }

    /// Where records are kept, behind a tap that the executor shares.
    #[must_use]
    pub fn with_tap(mut self, tap: Arc<Tap>) -> Self {
        self.tap = Some(tap);
        self
    }

    /// How long to wait for each record.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// What tells the time.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Whom to ask for more turns when they have run out.
    #[must_use]
    pub fn with_approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = Some(approver);
        self.config.ask_for_turns = true;
        self
    }

    /// Fuel that the session shares with others.
    #[must_use]
    pub fn with_tenant_fuel(mut self, fuel: Arc<TenantFuel>) -> Self {
        self.tenant = Some(fuel);
        self
    }

    /// Keeps every input of the session in memory, so that it can be replayed.
    #[must_use]
    pub fn keep_inputs(mut self) -> Self {
        self.keep_inputs = true;
        self
    }

    /// Keeps in the records what the model is told and what it says, besides what calls are given and give: that is the
    /// executor's to keep. Without this only sizes are kept, and messages of the user and answers.
    #[must_use]
    pub fn keep_texts(mut self) -> Self {
        self.keep_texts = true;
        self
    }

    /// The agent.
    ///
    /// # Errors
    /// If a part is missing that nothing can stand in for.
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
            name: Arc::from(id.as_str()),
            ledger: Ledger::new(id, actor),
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
            texts: self.keep_texts.then(Texts::default),
            inputs: self.keep_inputs.then(Vec::new),
            closed: false,
        })
    }
}
