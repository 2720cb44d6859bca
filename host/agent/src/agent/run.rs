//! The agent: carries out the actions of its session one by one, and passes their outcomes back to the session.
//!
//! It needs a tokio runtime with timers. Dropping the future of a run, or an iteration, drops the current work (the
//! request or the calls) and ends the run as cancelled; a [`CancelHandle`] does the same from elsewhere.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::call::history::{CallHistory, PastCall};
use fumehood_core::chat::{Model, ModelError, ModelFailure, Request, Response, ToolIntent, ToolSpec};
use fumehood_core::policy::call::{Answer, Approver, Question};
use fumehood_core::record::{Durability, Record, RecordError, RecordKind, Recorder};
use fumehood_core::telemetry;
use fumehood_core::time::Timestamp;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::builder::{LoopBuilder, new_session_id};
use super::events::{AgentEvent, Tap};
use super::iteration::Iteration;
use super::outcome::{Outcome, ResetError, RunError};
use super::record_factory::{RecordFactory, RequestTexts};
use super::saving::{RepeatCall, Saving};
use super::wait::{
    AnswerSink, CancelHandle, Interruption, WaitOutcome, wait_for_wall_time, wait_for_writing_time, wait_until,
};
use super::writing_time::{TimedSink, WritingTime};
use crate::allowance::CallAllowance;
use crate::clock::Clock;
use crate::executor::{Scope, StoppedBatch, ToolExecutor};
use crate::output_schema::OutputSchema;
use crate::session::budget::{BudgetKind, TenantFuel};
use crate::session::transcript::Ending;
use crate::session::{Action, BudgetQuestion, Input, RecordedInput, Session, StepError};
use fumehood_core::panic::catch_panic;

/// A conversation: a model, a driver, an executor, and a session that continues from message to message.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood_agent::agent::Agent;
/// use fumehood_agent::native::NativeDriver;
/// use fumehood_agent::pipeline::PipelineBuilder;
/// use fumehood_core::chat::{Model, Request, Response};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let count = |request: &Request| Ok(Response::text(format!("{} messages", request.messages.len())));
/// let model: Arc<dyn Model> = Arc::new(count);
/// let pipeline = Arc::new(PipelineBuilder::default().build()?);
/// let mut agent = Agent::builder(model).driver(NativeDriver::default()).executor(pipeline).build()?;
/// assert_eq!(agent.run("Hello.").await?.text(), "1 messages");
///
/// // The next message continues the conversation. Each step is one request to the model.
/// let mut run = agent.iterate("And now?");
/// while let Some(step) = run.next().await? {
///     assert_eq!(step.text, "3 messages");
/// }
/// drop(run);
/// assert_eq!(agent.session().transcript().runs.len(), 2);
/// # Ok(())
/// # }
/// ```
pub struct Agent {
    pub(super) session_id: Arc<str>,
    pub(super) session: Session,
    pub(super) model: Arc<dyn Model>,
    pub(super) executor: Arc<dyn ToolExecutor>,
    pub(super) scope: Scope,
    pub(super) tap: Arc<Tap>,
    pub(super) durability: Durability,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) tenant: Option<Arc<TenantFuel>>,
    pub(super) cancel: CancelHandle,
    pub(super) records: RecordFactory,
    /// `Some` if the texts of requests and replies are recorded.
    pub(super) texts: Option<RequestTexts>,
    pub(super) inputs: Option<Vec<RecordedInput>>,
    pub(super) is_closed: bool,
    /// `Some` if the session is saved.
    pub(super) saving: Option<Arc<Saving>>,
    /// The agent's state at the start of the session.
    pub(super) initial_state: Option<Arc<str>>,
    pub(super) repeat: Option<RepeatCall>,
    /// `Some` while a batch runs, and until its end is an input of the session.
    pub(super) running: Option<RunningBatch>,
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").finish_non_exhaustive()
    }
}

impl Agent {
    /// Creates a builder of an agent for this model. It still needs a driver and an executor.
    pub fn builder(model: Arc<dyn Model>) -> LoopBuilder {
        LoopBuilder::new(model)
    }

    /// Runs one user message to its end.
    ///
    /// # Errors
    /// If a record cannot be written. Failures of the model and of tools are part of the outcome.
    pub async fn run(&mut self, message: impl Into<String>) -> Result<Outcome, RunError> {
        self.iterate(message).finish().await
    }

    /// Runs one user message step by step. Nothing happens before the first [`Iteration::next`].
    pub fn iterate(&mut self, message: impl Into<String>) -> Iteration<'_> {
        Iteration::begin(self, message.into(), None)
    }

    /// Returns the session: its transcript, budget and current run.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the tap, to subscribe to events.
    #[must_use]
    pub fn tap(&self) -> &Arc<Tap> {
        &self.tap
    }

    /// Returns a handle that cancels runs of this agent.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// Returns the scope of later runs, such as their actor and state, for changes.
    pub fn scope_mut(&mut self) -> &mut Scope {
        &mut self.scope
    }

    /// Returns the inputs so far; none unless [`LoopBuilder::keep_inputs`] was set.
    #[must_use]
    pub fn inputs(&self) -> &[RecordedInput] {
        self.inputs.as_deref().unwrap_or_default()
    }

    pub(super) async fn record(&self, record: Record) -> Result<(), RecordError> {
        self.tap.record(record, self.durability).await
    }

    /// Begins a run. Its answer has to match `output` unless the skill or the session has a schema.
    pub(super) async fn begin_run(&mut self, text: String, output: Option<OutputSchema>) -> Result<Action, RunError> {
        if !self.session.waiting_calls().is_empty() {
            return Err(RunError::Waiting);
        }
        let now = self.clock.now();
        let mut opening = self.opening_records(now);
        let run = self.session.next_run_id();
        let body = json!({ "run": run, "text": text });
        opening.push(self.records.create(RecordKind::UserMessage, None, now, body));
        let scope = self.scope_for(run, 1);
        let mut settings = self.executor.run_settings(&text, &scope);
        if settings.output.is_none() && self.session.config().output.is_none() {
            settings.output = output;
        }
        // A skill that a tool implements asks no model, so no tools are offered.
        let tools = if settings.call.is_some() { Vec::new() } else { self.executor.specs(&scope) };
        self.step_with(opening, Input::UserMessage { text, tools, settings }, 0).await
    }

    pub(super) fn scope_for(&self, run: String, step: usize) -> Scope {
        Scope {
            session: self.session.config().id.clone(),
            execution: run,
            step: u32::try_from(step).unwrap_or(u32::MAX),
            cause: self.records.last(),
            shown: self.session.shown_tools().into(),
            history: Arc::default(),
            ..self.scope.clone()
        }
    }

    /// Passes an input to the session and records the steps that it ends; `seen` steps are recorded already.
    pub(super) async fn step(&mut self, input: Input, seen: usize) -> Result<Action, RunError> {
        self.step_with(Vec::new(), input, seen).await
    }

    /// Like [`Self::step`], with records that come first.
    pub(super) async fn step_with(
        &mut self,
        mut records: Vec<Record>,
        input: Input,
        seen: usize,
    ) -> Result<Action, RunError> {
        let now = self.clock.now();
        let saved = self.to_saved(&input);
        let (action, of_steps) = self.apply(input, seen, now)?;
        if let Some(saving) = &self.saving {
            saving.settle_programs(&self.session);
        }
        records.extend(of_steps);
        self.commit(saved, records, now).await?;
        Ok(action)
    }

    fn apply(&mut self, input: Input, seen: usize, now: Timestamp) -> Result<(Action, Vec<Record>), StepError> {
        if let Some(inputs) = &mut self.inputs {
            inputs.push(RecordedInput { at: now, input: input.clone() });
        }
        let answered = match &input {
            Input::CallAnswered { id, answer } => Some((id.clone(), answer.clone())),
            _ => None,
        };
        let warned = self.session.current_run().map_or(0, |run| run.warnings.len());
        let action = self.session.step(input, now)?;
        if let Action::AwaitAnswers(calls) = &action {
            let run = self.session.current_run().map(|run| run.id.clone()).unwrap_or_default();
            let record = match answered {
                Some((id, answer)) => self.records.for_answer(&id, calls, &answer, now),
                None => self.records.for_waiting(&run, calls, now),
            };
            return Ok((action, vec![record]));
        }
        let ended = matches!(action, Action::Finish(_));
        let last = self.session.transcript().runs.last().map(Arc::as_ref);
        let Some(run) = (if ended { last } else { self.session.current_run() }) else {
            return Ok((action, Vec::new()));
        };
        for message in run.warnings.iter().skip(warned) {
            self.tap.notify(AgentEvent::Warning { session: Arc::clone(&self.session_id), message: message.clone() });
        }
        Ok((action, self.records.for_steps(run, seen, now)))
    }

    /// Carries out an action. Returns `None` if the run is suspended in the meantime.
    pub(super) async fn perform(&mut self, action: Action) -> Result<Option<Input>, RunError> {
        match action {
            Action::AskModel(request) => self.ask_model(request).await,
            Action::RunTools(calls) => Ok(self.run_tools(calls).await),
            Action::AskApprover(question) => Ok(self.ask_approver(&question).await),
            // Both end an iteration before they get here.
            Action::AwaitAnswers(_) | Action::Finish(_) => Ok(Some(Input::Cancelled)),
        }
    }

    /// Returns whether an interruption leaves the run under way.
    fn suspends(&self, interruption: Interruption) -> bool {
        interruption == Interruption::Suspend && self.saving.is_some()
    }

    /// Creates the record of a request, with its new messages if texts are recorded.
    fn request_record(&mut self, request: &Arc<Request>, now: Timestamp) -> Record {
        let run = self.session.current_run().map(|run| run.id.clone()).unwrap_or_default();
        let turn = self.session.budget_usage().turns;
        let mut record = self.records.for_request(request, self.model.name(), &run, turn, now);
        if let (Some(texts), Value::Object(body)) = (&mut self.texts, &mut record.body) {
            body.insert("said".to_owned(), texts.new_messages(request, |message| self.session.is_traced(message)));
        }
        record
    }

    async fn ask_model(&mut self, request: Arc<Request>) -> Result<Option<Input>, RunError> {
        let now = self.clock.now();
        // Recorded before it is sent, so that the log lacks no request.
        let record = self.request_record(&request, now);
        self.record(record).await?;
        let budget = &self.session.config().budget;
        let spent = self.session.budget_usage();
        let writing = WritingTime::new();
        let stream = budget.remaining_stream_time(spent);
        let wall = budget.remaining_wall_time(spent, now);
        let time_up = wait_for_writing_time(&writing, stream, wall);
        let mut answer = AnswerSink { tap: &self.tap, session: &self.session_id, text: String::new() };
        let started = Instant::now();
        let ended = {
            // Parts of a reply that are not for the user (thoughts and calls within the text) reach neither subscribers
            // nor the text of an interrupted answer.
            let mut filtered = self.session.filter_deltas(&mut answer);
            let mut timed = TimedSink { time: &writing, inner: &mut *filtered };
            // The call itself may panic before there is a future.
            let response = catch_panic(async { self.model.chat(&request, &mut timed).await });
            wait_until(&self.cancel, time_up, async { response.await.unwrap_or_else(panic_error) }).await
        };
        let text = answer.text;
        let took = started.elapsed();
        let streamed = writing.total();
        let now = self.clock.now();
        let recorded_text = self.texts.is_some().then(|| Value::from(text.as_str()));
        let (mut record, input) = match ended {
            WaitOutcome::Done(Ok(mut response)) => {
                self.session.settle_reply(&mut response);
                (self.records.for_response(&response, took, now), Some(Input::ModelAnswered { response, streamed }))
            }
            WaitOutcome::Done(Err(error)) => {
                let body = json!({ "failure": error.failure, "message": error.message, "status": error.status });
                (self.records.for_failure("error", took, body, now), Some(Input::ModelFailed { error, streamed }))
            }
            WaitOutcome::TimeUp(budget) => {
                let body = json!({ "budget": budget, "bytes": text.len() });
                let record = self.records.for_failure("budget_exhausted", took, body, now);
                (record, Some(Input::RanOut { budget, text, after: streamed }))
            }
            // It is sent again when the run goes on.
            WaitOutcome::Interrupted(interruption) if self.suspends(interruption) => {
                let body = json!({ "bytes": text.len() });
                (self.records.for_failure("suspended", took, body, now), None)
            }
            WaitOutcome::Interrupted(_) => {
                let body = json!({ "bytes": text.len() });
                let record = self.records.for_failure("cancelled", took, body, now);
                (record, Some(Input::Interrupted { text, after: streamed }))
            }
        };
        if let (Some(text), Value::Object(body)) = (recorded_text, &mut record.body) {
            body.insert("text".to_owned(), text);
        }
        self.record(record).await?;
        Ok(input)
    }

    /// Runs the calls of a batch. Returns `None` if the run is suspended in the meantime.
    pub(super) async fn run_tools(&mut self, calls: Vec<ToolIntent>) -> Option<Input> {
        if self.tenant.as_ref().is_some_and(|fuel| fuel.remaining() == 0) {
            return Some(Input::RanOut { budget: BudgetKind::TenantFuel, text: String::new(), after: Duration::ZERO });
        }
        let (run, steps) = self.session.current_run().map(|run| (run.id.clone(), run.steps.len())).unwrap_or_default();
        let mut scope = self.scope_for(run, steps.saturating_add(1));
        let allowance = Arc::new(self.allowance());
        let history = Arc::new(self.session.history(calls.len()));
        scope.allowance = Some(Arc::clone(&allowance));
        scope.history = Arc::clone(&history);
        self.running = Some(RunningBatch { allowance: Arc::clone(&allowance), history, started: Instant::now() });
        scope.answers = self.session.call_answers().into();
        scope.programs = self.saving.clone().map(|saving| saving as _);
        let limit = self.session.config().budget.remaining_wall_time(self.session.budget_usage(), self.clock.now());
        let started = Instant::now();
        match wait_until(&self.cancel, wait_for_wall_time(limit), self.executor.execute(calls, &scope)).await {
            WaitOutcome::Done(outcome) => {
                let fuel = outcome.executions.iter().map(|execution| execution.result.metadata.fuel_used);
                if let Some(tenant) = &self.tenant {
                    // The rest was taken while the calls ran.
                    tenant.spend(fuel.fold(0, u64::saturating_add).saturating_sub(allowance.used_fuel()));
                }
                self.running = None;
                Some(Input::ToolsFinished { outcome, blocked: started.elapsed() })
            }
            WaitOutcome::TimeUp(budget) => Some(self.stop_batch(Some(budget))),
            WaitOutcome::Interrupted(interruption) if self.suspends(interruption) => {
                // Without an ending input, the saved session resumes as if the process had been killed.
                self.running = None;
                None
            }
            WaitOutcome::Interrupted(_) => Some(self.stop_batch(None)),
        }
    }

    /// Returns the input for the stop of the batch that is running.
    fn stop_batch(&mut self, budget: Option<BudgetKind>) -> Input {
        let Some(running) = self.running.take() else { return Input::Cancelled };
        let past = &self.session.transcript().first_calls;
        Input::ToolsStopped { batch: running.usage(past), budget, blocked: running.started.elapsed() }
    }

    /// Returns what programs of the next batch may use. The calls of the batch itself are counted already.
    fn allowance(&self) -> CallAllowance {
        let budget = &self.session.config().budget;
        let spent = self.session.budget_usage();
        let tokens_in = remaining_tokens(budget.tokens_in, spent.usage.input);
        let tokens_out = remaining_tokens(budget.tokens_out, spent.usage.output);
        CallAllowance::new(budget.remaining_calls(spent), budget.remaining_fuel(spent))
            .with_tokens(tokens_in, tokens_out)
            .tenant(self.tenant.clone())
    }

    async fn ask_approver(&mut self, question: &BudgetQuestion) -> Option<Input> {
        let Some(approver) = &self.approver else {
            return Some(Input::ApproverAnswered { yes: false });
        };
        let answer = catch_panic(approver.ask(Question::Budget(&question.text)));
        match wait_until(&self.cancel, wait_for_wall_time(None), answer).await {
            // An approver that panicked counts as no.
            WaitOutcome::Done(answer) => {
                let yes = answer == Ok(Answer::Allow);
                telemetry::emit_session_approval(&self.session_id, yes);
                Some(Input::ApproverAnswered { yes })
            }
            WaitOutcome::Interrupted(interruption) if self.suspends(interruption) => None,
            WaitOutcome::TimeUp(_) | WaitOutcome::Interrupted(_) => Some(Input::Cancelled),
        }
    }

    /// Cancels a run whose future was dropped, unless it waits for a person. Its records are handed to the recorder
    /// without waiting for them.
    pub(super) fn abandon(&mut self, seen: usize) {
        if self.session.current_run().is_none() || !self.session.waiting_calls().is_empty() {
            return;
        }
        let now = self.clock.now();
        let input = self.stop_batch(None);
        let saved = self.to_saved(&input);
        if let Ok((_, records)) = self.apply(input, seen, now) {
            if saved.is_some() {
                // The first poll hands it over, which is enough to keep it.
                drop(self.commit(saved, records, now).now_or_never());
                return;
            }
            for record in records {
                drop(self.tap.record(record, self.durability));
            }
        }
    }

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

/// Returns the tokens that are left of a limit; [`u64::MAX`] without one.
fn remaining_tokens(limit: Option<u64>, used: u64) -> u64 {
    limit.map_or(u64::MAX, |limit| limit.saturating_sub(used))
}

fn panic_error(message: String) -> Result<Response, ModelError> {
    Err(ModelError::new(ModelFailure::Unavailable, format!("the client of the model panicked: {message}")))
}

/// A batch that runs, and what is known of it if it is stopped.
#[derive(Debug)]
pub(super) struct RunningBatch {
    allowance: Arc<CallAllowance>,
    history: Arc<CallHistory>,
    started: Instant,
}

impl RunningBatch {
    /// Returns the usage of the batch so far. `before` are the first calls of the session before it.
    fn usage(&self, before: &[PastCall]) -> StoppedBatch {
        let mut first_calls = self.history.past();
        first_calls.retain(|call| !before.contains(call));
        let program_calls = self.allowance.used_calls();
        let fuel = self.allowance.used_fuel();
        StoppedBatch { program_calls, fuel, first_calls }
    }
}
