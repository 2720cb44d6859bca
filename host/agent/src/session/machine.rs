//! The session itself: its state, the inputs that it waits for, and its requests.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use fumehood_core::chat::{DeltaSink, Message, Reply, Request, Response, ToolChoice, ToolIntent, ToolSpec, Usage};
use fumehood_core::time::Timestamp;

use super::approval::AskedCalls;
use super::breaker::Breaker;
use super::budget::{BudgetKind, BudgetUsage};
use super::compaction::{Compaction, limit_images};
use super::config::SessionConfig;
use super::conversation::build_conversation;
use super::input::{Action, BudgetQuestion, Input, RecordedInput, StepError};
use super::pending::Pending;
use super::repetition::RepetitionCounter;
use super::transcript::{Ending, RequestDelta, Run, Step, StepKind, Transcript};
use crate::drivers::driver::{Driver, ToolRuntime};
use crate::drivers::reply_part::ReplyPart;
use crate::execution::ToolExecution;
use crate::executor::StoppedBatch;
use crate::output_schema::OutputSchema;
use crate::run_settings::RunSettings;

/// A session without I/O: a state machine with one driver and one transcript, which always waits for one kind of input.
///
/// ```
/// use std::time::Duration;
///
/// use fumehood_agent::native::NativeDriver;
/// use fumehood_agent::run_settings::RunSettings;
/// use fumehood_agent::session::transcript::Ending;
/// use fumehood_agent::session::{Action, Input, Session, SessionConfig, StepError};
/// use fumehood_core::chat::Response;
/// use fumehood_core::time::Timestamp;
///
/// let mut session = Session::new(SessionConfig::default(), Box::new(NativeDriver::default()));
/// let settings = RunSettings::default();
/// let message = Input::UserMessage { text: "What is (3 + 5) * 2?".to_owned(), tools: Vec::new(), settings };
/// assert!(matches!(session.step(message, Timestamp(0))?, Action::AskModel(_)));
///
/// // The caller does what the action says, and reports the outcome.
/// let answer = Input::ModelAnswered { response: Response::text("16"), streamed: Duration::ZERO };
/// let finish = Action::Finish(Ending::Answered { text: "16".to_owned() });
/// assert_eq!(session.step(answer, Timestamp(900))?, finish);
/// # Ok::<(), StepError>(())
/// ```
pub struct Session {
    pub(super) config: SessionConfig,
    pub(super) driver: Box<dyn Driver>,
    pub(super) compaction: Option<Arc<dyn Compaction>>,
    pub(super) spent: BudgetUsage,
    pub(super) streaks: RepetitionCounter,
    pub(super) breaker: Breaker,
    /// The messages of this run after its user message.
    pub(super) trace: Vec<Message>,
    /// True if the limit on calls was reached, so that the model may only write prose.
    pub(super) prose_only: bool,
    /// Number of answers of this run that were sent back to be corrected.
    pub(super) repairs: u32,
    /// True if the provider does not support tools. That does not change within a session.
    pub(super) toolless: bool,
    pub(super) draft: Draft,
    pub(super) run: Option<Run>,
    pub(super) settings: RunSettings,
    pub(super) waiting: Waiting,
    /// The last request of the step before this one.
    asked: Option<Arc<Request>>,
    pub(super) transcript: Transcript,
    pub(super) conversation: Vec<Message>,
    own_executions: u64,
    pub(super) questions: AskedCalls,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

/// The input that a session waits for.
pub(super) enum Waiting {
    /// A user message.
    User,
    /// The model's response.
    Model {
        /// True if the response is the final answer, whatever its form.
        final_answer: bool,
    },
    /// The results of a batch.
    Tools(Box<Pending>),
    /// The approver's answer.
    Approver,
    /// Answers to calls of a batch.
    Answers(Box<Pending>),
}

impl Waiting {
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Self::User => "a user message",
            Self::Model { .. } => "an answer of the model",
            Self::Tools(_) => "the results of a batch",
            Self::Approver => "a person's answer",
            Self::Answers(_) => "a person's answer to calls",
        }
    }
}

/// A step that has not ended.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) input: Option<Arc<Request>>,
    pub(super) attempts: Vec<Response>,
    pub(super) usage: Usage,
    pub(super) started_at: Timestamp,
}

/// The contents of a step at its end.
pub(super) struct StepEnd {
    pub(super) response: Option<Response>,
    pub(super) text: String,
    pub(super) executions: Vec<ToolExecution>,
    pub(super) own: Vec<usize>,
    pub(super) output: Vec<Message>,
    pub(super) kind: StepKind,
}

impl StepEnd {
    /// Creates the end of a step that failed with this message.
    pub(super) fn error(message: impl Into<String>) -> Self {
        let executions = Vec::new();
        let own = Vec::new();
        let output = Vec::new();
        let kind = StepKind::Error(message.into());
        Self { response: None, text: String::new(), executions, own, output, kind }
    }
}

/// Returns the number of consecutive failed batches that ends a run; 0 for no limit.
fn failed_batches(config: &SessionConfig) -> u32 {
    config.failed_batches.map_or(0, NonZeroU32::get)
}

impl Session {
    /// Creates a session that waits for its first user message.
    #[must_use]
    pub fn new(config: SessionConfig, driver: Box<dyn Driver>) -> Self {
        Self {
            breaker: Breaker::new(failed_batches(&config)),
            config,
            driver,
            compaction: None,
            spent: BudgetUsage::default(),
            streaks: RepetitionCounter::default(),
            trace: Vec::new(),
            prose_only: false,
            repairs: 0,
            toolless: false,
            draft: Draft::default(),
            run: None,
            settings: RunSettings::default(),
            waiting: Waiting::User,
            asked: None,
            transcript: Transcript::default(),
            conversation: Vec::new(),
            own_executions: 0,
            questions: AskedCalls::default(),
        }
    }

    /// Sets the compaction of what requests repeat. There is none by default.
    #[must_use]
    pub fn with_compaction(self, compaction: Option<Arc<dyn Compaction>>) -> Self {
        Self { compaction, ..self }
    }

    /// Clears the session, and gives it another id. It keeps the configuration, the driver, and whether the provider
    /// supports tools.
    pub fn reset(&mut self, id: String) {
        self.breaker = Breaker::new(failed_batches(&self.config));
        self.config.id = id;
        self.spent = BudgetUsage::default();
        self.streaks = RepetitionCounter::default();
        self.trace.clear();
        self.prose_only = false;
        self.repairs = 0;
        self.draft = Draft::default();
        self.run = None;
        self.waiting = Waiting::User;
        self.asked = None;
        self.transcript = Transcript::default();
        self.conversation.clear();
        self.own_executions = 0;
        self.questions = AskedCalls::default();
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Returns the name of the driver's protocol.
    pub(crate) fn driver_name(&self) -> &'static str {
        self.driver.name()
    }

    /// Like [`Driver::split_reply`], for the text of a response.
    pub(crate) fn split_reply(&self, response: &Response) -> Option<Vec<ReplyPart>> {
        match &response.reply {
            Reply::Text(text) => self.driver.split_reply(text),
            Reply::ToolCalls { .. } => None,
        }
    }

    /// Replaces the text of a response by that of its parts, as a saved session has it.
    pub(crate) fn settle_reply(&self, response: &mut Response) {
        if let Some(parts) = self.split_reply(response) {
            response.reply = Reply::Text(self.driver.join_reply(&parts));
        }
    }

    /// Like [`Driver::filter_deltas`], for the session's driver.
    pub(crate) fn filter_deltas<'a>(&self, sink: &'a mut dyn DeltaSink) -> Box<dyn DeltaSink + 'a> {
        self.driver.filter_deltas(sink)
    }

    /// Returns whether a message is part of the driver's trace of the current run.
    pub(crate) fn is_traced(&self, message: &Message) -> bool {
        self.trace.contains(message)
    }

    /// Returns the runs that have ended.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// Returns the run in progress, if there is one.
    #[must_use]
    pub fn current_run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// Returns the id of the run that the next user message starts.
    #[must_use]
    pub fn next_run_id(&self) -> String {
        format!("{}/{}", self.config.id, self.transcript.runs.len().saturating_add(1))
    }

    /// Returns the part of the budget that has been used.
    #[must_use]
    pub fn budget_usage(&self) -> &BudgetUsage {
        &self.spent
    }

    /// Processes an input and returns the next action. It never waits and reads no clock.
    ///
    /// # Errors
    /// If the session does not wait for this input. It is then unchanged.
    pub fn step(&mut self, input: Input, now: Timestamp) -> Result<Action, StepError> {
        if matches!(self.waiting, Waiting::Answers(_)) {
            return self.step_with_answers(input, now);
        }
        match (std::mem::replace(&mut self.waiting, Waiting::User), input) {
            (Waiting::User, Input::UserMessage { text, tools, settings }) => Ok(self.begin(text, tools, settings, now)),
            (Waiting::Model { final_answer }, Input::ModelAnswered { mut response, streamed }) => {
                self.spent.streamed = self.spent.streamed.saturating_add(streamed);
                self.add_usage(response.usage);
                self.add_warnings(std::mem::take(&mut response.notices));
                Ok(self.handle_response(final_answer, response, now))
            }
            (Waiting::Model { .. }, Input::ModelFailed { error, streamed }) => {
                self.spent.streamed = self.spent.streamed.saturating_add(streamed);
                Ok(self.handle_model_failure(error, now))
            }
            (Waiting::Model { .. }, Input::RanOut { budget, text, after }) => {
                self.spent.streamed = self.spent.streamed.saturating_add(after);
                self.end_step(StepEnd { text, ..StepEnd::error(format!("the limit on {budget} was reached")) }, now);
                Ok(self.finish_exhausted(budget, now))
            }
            (Waiting::Tools(pending), Input::ToolsFinished { outcome, blocked }) => {
                self.spent.blocked = self.spent.blocked.saturating_add(blocked);
                Ok(self.handle_outcome(*pending, outcome, now))
            }
            (Waiting::Tools(pending), Input::ToolsInterrupted { outcome, blocked }) => {
                self.spent.blocked = self.spent.blocked.saturating_add(blocked);
                Ok(self.handle_interrupted(*pending, outcome, now))
            }
            (Waiting::Tools(pending), Input::ToolsStopped { batch, budget, blocked }) => {
                self.spent.blocked = self.spent.blocked.saturating_add(blocked);
                Ok(self.handle_stopped(*pending, batch, budget, now))
            }
            (Waiting::Tools(pending), Input::RanOut { budget, .. }) => {
                Ok(self.handle_stopped(*pending, StoppedBatch::default(), Some(budget), now))
            }
            (Waiting::Approver, Input::ApproverAnswered { yes: true }) => {
                self.spent.granted_turns = self.spent.granted_turns.saturating_add(self.config.budget.turns.max(1));
                Ok(self.ask(now))
            }
            (Waiting::Approver, Input::ApproverAnswered { yes: false }) => {
                Ok(self.finish_exhausted(BudgetKind::Turns, now))
            }
            (Waiting::Tools(pending), Input::Cancelled) => {
                Ok(self.handle_stopped(*pending, StoppedBatch::default(), None, now))
            }
            (Waiting::Model { .. }, Input::Interrupted { text, after }) => {
                self.spent.streamed = self.spent.streamed.saturating_add(after);
                self.end_step(StepEnd { text, ..StepEnd::error("cancelled") }, now);
                Ok(self.finish(Ending::Cancelled, now))
            }
            (Waiting::Model { .. } | Waiting::Approver, Input::Cancelled) => {
                self.end_step(StepEnd::error("cancelled"), now);
                Ok(self.finish(Ending::Cancelled, now))
            }
            (waiting @ (Waiting::Model { .. } | Waiting::Tools(_) | Waiting::Approver), Input::Resumed { away }) => {
                self.spent.since = self.spent.since.saturating_add(away);
                self.waiting = waiting;
                Ok(self.current_action())
            }
            (waiting, input) => {
                let error = StepError::Unexpected { expected: waiting.describe(), found: input.name() };
                self.waiting = waiting;
                Err(error)
            }
        }
    }

    fn begin(&mut self, text: String, tools: Vec<ToolSpec>, settings: RunSettings, now: Timestamp) -> Action {
        let run = Run::new(self.next_run_id(), text, now);
        self.spent.begin(now);
        self.streaks = RepetitionCounter::default();
        self.breaker = Breaker::new(failed_batches(&self.config));
        self.trace.clear();
        self.prose_only = false;
        self.repairs = 0;
        self.draft = Draft::default();
        self.driver.bind(ToolRuntime { tools });
        self.settings = settings;
        let prompt = self.config.system_prompt(self.output());
        let freshness = self.settings.replay_freshness.unwrap_or(self.config.replay_freshness);
        self.conversation = build_conversation(prompt, &self.transcript, freshness, &run, self.driver.as_ref());
        self.run = Some(run);
        match self.settings.call.clone() {
            Some(call) => self.begin_skill_call(call, now),
            None => self.ask(now),
        }
    }

    /// Returns the schema of the answer of the run.
    pub(super) fn output(&self) -> Option<&OutputSchema> {
        self.settings.output.as_ref().or(self.config.output.as_ref())
    }

    pub(super) fn add_usage(&mut self, usage: Usage) {
        self.spent.usage += usage;
        self.draft.usage += usage;
    }

    /// Ends the step in progress, if there is one.
    pub(super) fn end_step(&mut self, end_of_step: StepEnd, now: Timestamp) {
        let draft = std::mem::take(&mut self.draft);
        let Some(run) = &mut self.run else { return };
        let input = match draft.input {
            Some(request) => {
                let input = RequestDelta::new(&request, self.asked.as_deref());
                self.asked = Some(request);
                Some(input)
            }
            None if self.settings.call.is_some() => None,
            None => return,
        };
        let StepEnd { response, text, executions, own, output, kind } = end_of_step;
        let number = u32::try_from(run.steps.len().saturating_add(1)).unwrap_or(u32::MAX);
        let Draft { attempts, usage, started_at, .. } = draft;
        let step = Step {
            number,
            input,
            attempts,
            response,
            text,
            executions,
            own,
            output,
            kind,
            usage,
            started_at,
            ended_at: now,
        };
        run.steps.push(Arc::new(step));
    }

    /// Ends the run for want of budget, with the last text of the model.
    pub(super) fn finish_exhausted(&mut self, budget: BudgetKind, now: Timestamp) -> Action {
        let texts = self.run.iter().flat_map(|run| run.steps.iter().rev()).map(|step| step.text.as_str());
        let text = texts.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default().to_owned();
        self.finish(Ending::BudgetExhausted { budget, text }, now)
    }

    pub(super) fn finish(&mut self, ending: Ending, now: Timestamp) -> Action {
        if let Some(mut run) = self.run.take() {
            run.end(ending.clone(), now);
            self.transcript.runs.push(Arc::new(run));
        }
        self.waiting = Waiting::User;
        Action::Finish(ending)
    }

    /// Returns a new id for an execution that no executor made.
    pub(super) fn next_own_id(&mut self) -> String {
        self.own_executions = self.own_executions.saturating_add(1);
        format!("{}/own-{}", self.config.id, self.own_executions)
    }

    /// Returns the action for the driver's next request, if the budget allows one.
    pub(super) fn ask(&mut self, now: Timestamp) -> Action {
        if let Some(budget) = self.config.budget.check_request(&self.spent, now) {
            return self.handle_exhausted_requests(budget, now);
        }
        if let Some(compaction) = &self.compaction {
            compaction.compact(&mut self.conversation, &mut self.trace);
        }
        limit_images(&mut self.conversation, &mut self.trace, self.config.image_bytes);
        let request = self.driver.request(&self.conversation, &self.trace);
        self.send(request, self.prose_only, false, now)
    }

    /// Returns the action for the request of the final answer, without tools, if the budget allows one.
    pub(super) fn ask_for_final_answer(&mut self, request: Request, now: Timestamp) -> Action {
        match self.config.budget.check_request(&self.spent, now) {
            // The approver is not asked here: after a yes, the driver would make another request in place of this one.
            Some(budget) => {
                self.end_unanswered_step(budget, now);
                self.finish_exhausted(budget, now)
            }
            None => self.send(request, true, true, now),
        }
    }

    fn send(&mut self, mut request: Request, without_calls: bool, final_answer: bool, now: Timestamp) -> Action {
        if without_calls || self.toolless {
            request.tool_choice = ToolChoice::None;
            // Some providers reject a conversation with calls in it if the request has no tools.
            let tells_of_calls = request.messages.iter().any(|message| !message.tool_calls.is_empty());
            if self.toolless || !tells_of_calls {
                request.tools.clear();
            }
        }
        // Only a limit that the driver set is lowered to the rest of the budget. Without one, none is sent: a model
        // rejects a limit above its own.
        if let (Some(wanted), Some(left)) =
            (request.max_tokens, self.config.budget.remaining_answer_tokens(&self.spent))
        {
            request.max_tokens = Some(wanted.min(left));
        }
        self.spent.turns = self.spent.turns.saturating_add(1);
        if self.draft.input.is_none() {
            self.draft.started_at = now;
        }
        let request = Arc::new(request);
        self.draft.input = Some(Arc::clone(&request));
        self.waiting = Waiting::Model { final_answer };
        Action::AskModel(request)
    }

    fn handle_exhausted_requests(&mut self, budget: BudgetKind, now: Timestamp) -> Action {
        if budget == BudgetKind::Turns && self.config.ask_for_turns {
            self.waiting = Waiting::Approver;
            return Action::AskApprover(self.question());
        }
        self.end_unanswered_step(budget, now);
        self.finish_exhausted(budget, now)
    }

    fn end_unanswered_step(&mut self, budget: BudgetKind, now: Timestamp) {
        self.end_step(StepEnd::error(format!("no {budget} left to ask again")), now);
    }

    /// Returns the calls whose results the session waits for, if it waits for results.
    #[must_use]
    pub fn pending_calls(&self) -> Vec<ToolIntent> {
        match &self.waiting {
            Waiting::Tools(pending) => pending.calls(),
            _ => Vec::new(),
        }
    }

    pub(super) fn question(&self) -> BudgetQuestion {
        let turns = self.config.budget.turns.max(1);
        let used = self.spent.turns;
        let text = format!("The model has not finished after {used} requests. Allow {turns} more?");
        BudgetQuestion { about: BudgetKind::Turns, text }
    }

    /// Returns the action whose outcome the session waits for. Without a run there is none, and it has ended.
    pub(super) fn current_action(&self) -> Action {
        match &self.waiting {
            Waiting::Model { .. } => match &self.draft.input {
                Some(request) => Action::AskModel(Arc::clone(request)),
                None => Action::Finish(Ending::Cancelled),
            },
            Waiting::Tools(pending) => Action::RunTools(pending.calls()),
            Waiting::Approver => Action::AskApprover(self.question()),
            Waiting::Answers(pending) => Action::AwaitAnswers(pending.asked.clone()),
            Waiting::User => Action::Finish(Ending::Cancelled),
        }
    }
}

/// Replays recorded inputs, and returns the actions.
///
/// # Errors
/// At the first input that the session does not wait for: the record belongs to another session, or is incomplete.
pub fn replay(session: &mut Session, inputs: Vec<RecordedInput>) -> Result<Vec<Action>, StepError> {
    inputs.into_iter().map(|recorded| session.step(recorded.input, recorded.at)).collect()
}
