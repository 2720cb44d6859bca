//! State that the calls of one batch share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fumehood_core::call::SessionStep;
use fumehood_core::call::history::{CallHistory, PastCall};
use fumehood_core::chat::Usage;
use fumehood_core::flow::FlowPolicy;

use super::allowlist::EffectiveAllowlist;
use super::config::PipelineConfig;
use crate::code::{OpenQuestion, OpenQuestions};
use crate::executor::Scope;

/// A batch of calls within one scope.
pub(super) struct Batch<'a> {
    pub(super) scope: &'a Scope,
    pub(super) allowed: Arc<EffectiveAllowlist>,
    /// The program that makes the calls; `None` for calls that a model makes directly.
    program: Option<&'a RunningProgram>,
    /// The calls of the session before this batch.
    past: Vec<PastCall>,
    /// The step of the session that the batch is.
    pub(super) step: SessionStep,
    state: Arc<Mutex<State>>,
}

/// The state that the calls of one program share.
#[derive(Debug)]
pub(super) struct RunningProgram {
    /// The id of the model's call that runs it.
    pub(super) call: String,
    /// The questions about its calls.
    pub(super) questions: OpenQuestions,
    /// The calls that it made.
    history: CallHistory,
}

impl RunningProgram {
    /// Creates a program that has made no calls, for this call of the model.
    pub(super) fn new(call: &str) -> Self {
        Self { call: call.to_owned(), questions: OpenQuestions::default(), history: CallHistory::default() }
    }
}

struct State {
    usage: Usage,
    program_calls: u32,
    answer: Option<String>,
}

impl<'a> Batch<'a> {
    /// Starts a batch and resolves its allowlist: the envelope is checked once for each batch and never earlier.
    pub(super) fn new(config: &PipelineConfig, scope: &'a Scope) -> Self {
        let skill = scope.skill.as_ref();
        let actor = scope.actor.as_deref();
        let envelope = scope.envelope.as_deref();
        let allowed = config.allowlists.resolve(skill, actor, envelope, config.clock.now());
        let usage = Usage::default();
        let state = State { usage, program_calls: 0, answer: None };
        let past = scope.history.past();
        let state = Arc::new(Mutex::new(state));
        let session = scope.session.as_str().into();
        let execution = scope.execution.as_str().into();
        let step = SessionStep { session, execution, number: scope.step, skill: scope.skill.clone() };
        Self { scope, allowed: Arc::new(allowed), program: None, past, step, state }
    }

    /// Starts the batch of one call of a program, which shares the state of the batch that the program is part of.
    pub(super) fn of_program(
        config: &PipelineConfig,
        scope: &'a Scope,
        outer: &Batch<'_>,
        program: &'a RunningProgram,
    ) -> Self {
        Self { program: Some(program), state: Arc::clone(&outer.state), ..Self::new(config, scope) }
    }

    /// Returns whether a program makes the calls.
    pub(super) fn is_program(&self) -> bool {
        self.program.is_some()
    }

    /// Returns the id of the model's call that runs the program; `None` for calls that a model makes directly.
    pub(super) fn program_call(&self) -> Option<&'a str> {
        self.program.map(|program| program.call.as_str())
    }

    /// Notes that a person is asked about a call of a program, until the returned value is dropped.
    pub(super) fn open_question(&self) -> Option<OpenQuestion<'a>> {
        self.program.map(|program| program.questions.open())
    }

    /// Returns whether the program that this call of the model runs was stopped before.
    pub(super) fn has_record(&self, call: &str) -> bool {
        self.scope.programs.as_ref().is_some_and(|programs| programs.record(call).has_begun())
    }

    /// Adds a call, which starts now, to the history of the session, and of the program if one makes it.
    pub(super) fn start_call(&self, tool: &str) {
        let number = self.scope.history.start(tool);
        if let Some(program) = self.program {
            program.history.add(tool, number);
        }
    }

    /// Returns the calls whose results may be part of the arguments of a call that is about to start.
    ///
    /// A model writes all direct calls of a batch before it sees a result of one. A program sees its results at once,
    /// and through what tools keep perhaps those of other calls.
    pub(super) fn calls_before(&self, policy: &FlowPolicy) -> Vec<PastCall> {
        match self.program {
            None => self.past.clone(),
            Some(program) if policy.is_per_program() => program.history.past(),
            Some(_) => self.scope.history.past(),
        }
    }

    /// Returns the first calls of tools that were not called before this batch.
    pub(super) fn first_calls(&self) -> Vec<PastCall> {
        let mut first = self.scope.history.past();
        first.retain(|call| !self.past.contains(call));
        first
    }

    pub(super) fn count_program_call(&self) {
        let mut state = self.lock();
        state.program_calls = state.program_calls.saturating_add(1);
    }

    /// Returns the number of calls that programs made so far.
    pub(super) fn program_calls(&self) -> u32 {
        self.lock().program_calls
    }

    /// Returns whether the tool of this name was shown to the model before this batch.
    pub(super) fn was_shown(&self, name: &str) -> bool {
        self.scope.shown.iter().any(|shown| shown == name)
    }

    /// Returns whether errors use the wording for channels.
    pub(super) fn is_channel(&self) -> bool {
        self.allowed.is_channel(self.scope.envelope.is_some())
    }

    /// Adds tokens that were used on the path of a call.
    pub(super) fn add_usage(&self, usage: Usage) {
        self.lock().usage += usage;
    }

    /// Adds what a tool with a session of its own has used: tokens and calls.
    pub(super) fn add_account(&self, usage: Usage, calls: u32) {
        let mut state = self.lock();
        state.usage += usage;
        state.program_calls = state.program_calls.saturating_add(calls);
    }

    /// Sets the answer of the skill that no model runs.
    pub(super) fn set_answer(&self, answer: String) {
        self.lock().answer = Some(answer);
    }

    /// Returns the answer of the skill that no model runs.
    pub(super) fn take_answer(&self) -> Option<String> {
        self.lock().answer.take()
    }

    /// Returns the tokens that were used so far.
    pub(super) fn usage(&self) -> Usage {
        self.lock().usage
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
