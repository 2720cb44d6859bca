//! The session itself: what it holds, which input it waits for, and how it asks.

use std::num::NonZeroU32;
use std::sync::Arc;

use fumehood_core::chat::{DeltaSink, Message, Request, Response, ToolChoice, ToolSpec, Usage};
use fumehood_core::time::Timestamp;

use super::batch::Pending;
use super::compile;
use super::config::SessionConfig;
use super::input::{Action, BudgetQuestion, Input, Recorded, StepError};
use super::repetition::Streaks;
use crate::breaker::Breaker;
use crate::budget::{BudgetKind, BudgetUsage};
use crate::driver::{Driver, ToolRuntime};
use crate::execution::ToolExecution;
use crate::transcript::{Ending, RequestDelta, Run, Step, StepKind, Transcript};

/// A pure session. One driver, one transcript, one thing that it waits for.
pub struct Session {
    pub(super) config: SessionConfig,
    pub(super) driver: Box<dyn Driver>,
    pub(super) spent: BudgetUsage,
    pub(super) streaks: Streaks,
    pub(super) breaker: Breaker,
    /// What this run has said since its message.
    pub(super) trace: Vec<Message>,
    /// Whether the limit on calls was reached, so that only prose is left to the model.
    pub(super) prose_only: bool,
    /// Whether the provider was found not to know tools. That does not change within a session.
    pub(super) toolless: bool,
    pub(super) draft: Draft,
    pub(super) run: Option<Run>,
    pub(super) waiting: Waiting,
    /// The last request of the step before this one.
    asked: Option<Arc<Request>>,
    transcript: Transcript,
    conversation: Vec<Message>,
    made_up: u64,
}

/// Which input a session waits for.
pub(super) enum Waiting {
    /// A user message.
    User,
    /// The model's answer.
    Model {
        /// Whether the answer is the final one whatever it says.
        final_answer: bool,
    },
    /// The results of a batch.
    Tools(Box<Pending>),
    /// A person's answer.
    Approver,
}

impl Waiting {
    fn for_what(&self) -> &'static str {
        match self {
            Self::User => "a user message",
            Self::Model { .. } => "an answer of the model",
            Self::Tools(_) => "the results of a batch",
            Self::Approver => "a person's answer",
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

/// How a step ends.
pub(super) struct Closing {
    pub(super) response: Option<Response>,
    pub(super) text: String,
    pub(super) executions: Vec<ToolExecution>,
    pub(super) own: Vec<usize>,
    pub(super) output: Vec<Message>,
    pub(super) kind: StepKind,
}

impl Closing {
    /// A step that came to nothing.
    pub(super) fn error(message: impl Into<String>) -> Self {
        let (executions, own, output) = (Vec::new(), Vec::new(), Vec::new());
        let kind = StepKind::Error(message.into());
        Self { response: None, text: String::new(), executions, own, output, kind }
    }
}

/// How many failed batches in a row end a run; 0: however many.
fn failed_batches(config: &SessionConfig) -> u32 {
    config.failed_batches.map_or(0, NonZeroU32::get)
}

impl Session {
    /// A session that waits for its first user message.
    #[must_use]
    pub fn new(config: SessionConfig, driver: Box<dyn Driver>) -> Self {
        Self {
            breaker: Breaker::new(failed_batches(&config)),
            config,
            driver,
            spent: BudgetUsage::default(),
            streaks: Streaks::default(),
            trace: Vec::new(),
            prose_only: false,
            toolless: false,
            draft: Draft::default(),
            run: None,
            waiting: Waiting::User,
            asked: None,
            transcript: Transcript::default(),
            conversation: Vec::new(),
            made_up: 0,
        }
    }

    /// Starts over under another id: everything but the configuration and the driver is forgotten.
    pub fn reset(&mut self, id: String) {
        self.breaker = Breaker::new(failed_batches(&self.config));
        self.config.id = id;
        self.spent = BudgetUsage::default();
        self.streaks = Streaks::default();
        self.trace.clear();
        self.prose_only = false;
        self.draft = Draft::default();
        self.run = None;
        self.waiting = Waiting::User;
        self.asked = None;
        self.transcript = Transcript::default();
        self.conversation.clear();
        self.made_up = 0;
    }

    /// What the session was set up with.
    #[must_use]
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// See [`Driver::filter_deltas`].
    pub(crate) fn filter_deltas<'a>(&self, sink: &'a mut dyn DeltaSink) -> Box<dyn DeltaSink + 'a> {
        self.driver.filter_deltas(sink)
    }

    /// Whether a message is one of those by which the driver tells of calls of the current run.
    pub(crate) fn is_traced(&self, message: &Message) -> bool {
        self.trace.contains(message)
    }

    /// The runs that have ended.
    #[must_use]
    pub fn transcript(&self) -> &Transcript {
        &self.transcript
    }

    /// The run that has not ended, if there is one.
    #[must_use]
    pub fn current(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// The id of the run that the next user message begins.
    #[must_use]
    pub fn next_run(&self) -> String {
        format!("{}/{}", self.config.id, self.transcript.runs.len().saturating_add(1))
    }

    /// What has been used.
    #[must_use]
    pub fn spent(&self) -> &BudgetUsage {
        &self.spent
    }

    /// Takes what has just happened; gives what to do next. Never waits, and takes no time of its own.
    ///
    /// # Errors
    /// If the input is not one that the session waits for; it is then unchanged.
    pub fn step(&mut self, input: Input, now: Timestamp) -> Result<Action, StepError> {
        match (std::mem::replace(&mut self.waiting, Waiting::User), input) {
            (Waiting::User, Input::UserMessage { text, tools }) => Ok(self.begin(text, tools, now)),
            (Waiting::Model { final_answer }, Input::ModelAnswered { mut response, streamed }) => {
                self.spent.streamed = self.spent.streamed.saturating_add(streamed);
                self.count(response.usage);
                if let Some(run) = &mut self.run {
                    run.warnings.append(&mut response.notices);
                }
                Ok(self.answered(final_answer, response, now))
            }
            (Waiting::Model { .. }, Input::ModelFailed { error, streamed }) => {
                self.spent.streamed = self.spent.streamed.saturating_add(streamed);
                Ok(self.model_failed(error, now))
            }
            (Waiting::Model { .. }, Input::RanOut { budget, text, after }) => {
                self.spent.streamed = self.spent.streamed.saturating_add(after);
                self.close(Closing { text, ..Closing::error(format!("the limit on {budget} was reached")) }, now);
                Ok(self.exhausted(budget, now))
            }
            (Waiting::Tools(pending), Input::ToolsFinished { outcome, blocked }) => {
                self.spent.blocked = self.spent.blocked.saturating_add(blocked);
                Ok(self.executed(*pending, outcome, now))
            }
            (Waiting::Tools(pending), Input::RanOut { budget, after, .. }) => {
                self.spent.blocked = self.spent.blocked.saturating_add(after);
                self.cut_off(*pending, Some(budget), now);
                Ok(self.exhausted(budget, now))
            }
            (Waiting::Approver, Input::ApproverAnswered { yes: true }) => {
                self.spent.granted_turns = self.spent.granted_turns.saturating_add(self.config.budget.turns.max(1));
                Ok(self.ask(now))
            }
            (Waiting::Approver, Input::ApproverAnswered { yes: false }) => Ok(self.exhausted(BudgetKind::Turns, now)),
            (Waiting::Tools(pending), Input::Cancelled) => {
                self.cut_off(*pending, None, now);
                Ok(self.finish(Ending::Cancelled, now))
            }
            (Waiting::Model { .. }, Input::Interrupted { text, after }) => {
                self.spent.streamed = self.spent.streamed.saturating_add(after);
                self.close(Closing { text, ..Closing::error("cancelled") }, now);
                Ok(self.finish(Ending::Cancelled, now))
            }
            (Waiting::Model { .. } | Waiting::Approver, Input::Cancelled) => {
                self.close(Closing::error("cancelled"), now);
                Ok(self.finish(Ending::Cancelled, now))
            }
            (waiting, input) => {
                let error = StepError::Unexpected { expected: waiting.for_what(), found: input.name() };
                self.waiting = waiting;
                Err(error)
            }
        }
    }

    fn begin(&mut self, text: String, tools: Vec<ToolSpec>, now: Timestamp) -> Action {
        let run = Run::new(self.next_run(), text, now);
        self.spent.begin(now);
        self.streaks = Streaks::default();
        self.breaker = Breaker::new(failed_batches(&self.config));
        self.trace.clear();
        self.prose_only = false;
        self.draft = Draft::default();
        self.driver.bind(ToolRuntime { tools });
        let prompt = self.config.prompt.text();
        let freshness = self.config.replay_freshness;
        self.conversation = compile::conversation(prompt, &self.transcript, freshness, &run, self.driver.as_ref());
        self.run = Some(run);
        self.ask(now)
    }

    /// The next request of the driver, if the budget allows one.
    pub(super) fn ask(&mut self, now: Timestamp) -> Action {
        if let Some(budget) = self.config.budget.check_request(&self.spent, now) {
            return self.no_more_requests(budget, now);
        }
        let request = self.driver.request(&self.conversation, &self.trace);
        self.send(request, self.prose_only, false, now)
    }

    /// One request whose answer is the final one, without tools, if the budget allows it.
    pub(super) fn ask_for_final_answer(&mut self, request: Request, now: Timestamp) -> Action {
        match self.config.budget.check_request(&self.spent, now) {
            // No question to a person here: their yes would ask the driver again, not send this request.
            Some(budget) => {
                self.close_unanswered(budget, now);
                self.exhausted(budget, now)
            }
            None => self.send(request, true, true, now),
        }
    }

    fn send(&mut self, mut request: Request, without_calls: bool, final_answer: bool, now: Timestamp) -> Action {
        if without_calls || self.toolless {
            request.tool_choice = ToolChoice::None;
            // Some providers refuse a conversation with calls in it if the tools are not described.
            let tells_of_calls = request.messages.iter().any(|message| !message.tool_calls.is_empty());
            if self.toolless || !tells_of_calls {
                request.tools.clear();
            }
        }
        // A limit that somebody set gives way to what is left. None is made up: a model refuses one above its own.
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

    fn no_more_requests(&mut self, budget: BudgetKind, now: Timestamp) -> Action {
        if budget == BudgetKind::Turns && self.config.ask_for_turns {
            self.waiting = Waiting::Approver;
            let turns = self.config.budget.turns.max(1);
            let used = self.spent.turns;
            let text = format!("The model was asked {used} times and has not finished. Allow {turns} more requests?");
            return Action::AskApprover(BudgetQuestion { about: budget, text });
        }
        self.close_unanswered(budget, now);
        self.exhausted(budget, now)
    }

    fn close_unanswered(&mut self, budget: BudgetKind, now: Timestamp) {
        self.close(Closing::error(format!("no {budget} left to ask again")), now);
    }

    pub(super) fn count(&mut self, usage: Usage) {
        self.spent.usage += usage;
        self.draft.usage += usage;
    }

    /// Ends the step that has begun, if one has.
    pub(super) fn close(&mut self, closing: Closing, now: Timestamp) {
        let draft = std::mem::take(&mut self.draft);
        let (Some(run), Some(request)) = (&mut self.run, draft.input) else {
            return;
        };
        let input = RequestDelta::new(&request, self.asked.as_deref());
        self.asked = Some(request);
        let Closing { response, text, executions, own, output, kind } = closing;
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

    /// Ends the run for want of budget, with the last thing that the model said.
    pub(super) fn exhausted(&mut self, budget: BudgetKind, now: Timestamp) -> Action {
        let said = self.run.iter().flat_map(|run| run.steps.iter().rev()).map(|step| step.text.as_str());
        let text = said.into_iter().find(|text| !text.trim().is_empty()).unwrap_or_default().to_owned();
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

    /// A new id for an execution that no executor made.
    pub(super) fn own_id(&mut self) -> String {
        self.made_up = self.made_up.saturating_add(1);
        format!("{}/own-{}", self.config.id, self.made_up)
    }
}

/// Goes through recorded inputs once more; gives the actions.
///
/// # Errors
/// At the first input that the session does not wait for: the record is of another session, or not whole.
pub fn replay(session: &mut Session, inputs: Vec<Recorded>) -> Result<Vec<Action>, StepError> {
    inputs.into_iter().map(|recorded| session.step(recorded.input, recorded.at)).collect()
}
