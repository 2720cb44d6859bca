//! A run in progress, one step at a time.

use std::fmt;
use std::sync::Arc;

use fumehood_core::telemetry;
use tracing::{Instrument as _, Span};

use super::outcome::{Outcome, RunError};
use super::run::Agent;
use crate::output_schema::OutputSchema;
use crate::session::transcript::{Ending, Step};
use crate::session::{Action, PendingCall, StepError};

/// The start of an iteration.
enum Start {
    /// A message begins a run, whose answer has this schema unless there is another.
    Message(String, Option<OutputSchema>),
    /// A run goes on.
    Resumed,
}

/// A run in progress, one step at a time. Dropping it before its end cancels the run.
pub struct Iteration<'a> {
    agent: &'a mut Agent,
    start: Option<Start>,
    action: Option<Action>,
    seen: usize,
    outcome: Option<Outcome>,
    is_suspended: bool,
    /// Span of the run, or of what is left of it.
    span: Span,
}

impl fmt::Debug for Iteration<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iteration").finish_non_exhaustive()
    }
}

impl<'a> Iteration<'a> {
    /// Creates an iteration that begins a run with this message, and with this schema of its answer if no other has one.
    pub(super) fn begin(agent: &'a mut Agent, message: String, output: Option<OutputSchema>) -> Self {
        Self::new(agent, Start::Message(message, output), 0)
    }

    /// Creates an iteration that goes on with the current run, which has this number of steps.
    pub(super) fn resume(agent: &'a mut Agent, seen: usize) -> Self {
        Self::new(agent, Start::Resumed, seen)
    }

    fn new(agent: &'a mut Agent, start: Start, seen: usize) -> Self {
        let span = telemetry::agent_span(&agent.session_id);
        Self { agent, start: Some(start), action: None, seen, outcome: None, is_suspended: false, span }
    }

    /// Returns the id of the session.
    #[must_use]
    pub fn session_id(&self) -> &str {
        &self.agent.session_id
    }

    /// Continues until a step has ended, and returns that step. Returns `None` once the run has ended.
    ///
    /// # Errors
    /// See [`Agent::run`]. The run has then ended as cancelled.
    pub async fn next(&mut self) -> Result<Option<Arc<Step>>, RunError> {
        let span = self.span.clone();
        let advanced = self.advance().instrument(span).await;
        if advanced.is_err() {
            self.agent.abandon(self.seen);
            self.action = None;
        }
        advanced
    }

    async fn advance(&mut self) -> Result<Option<Arc<Step>>, RunError> {
        loop {
            let seen = self.seen;
            let action = match (self.start.take(), self.action.take()) {
                (Some(Start::Message(message, output)), _) => self.agent.begin_run(message, output).await?,
                (Some(Start::Resumed), _) => {
                    let Some(action) = self.agent.step_into_resumed(seen).await? else { return Ok(self.suspend()) };
                    action
                }
                (None, Some(action)) => {
                    let Some(input) = self.agent.perform(action).await? else { return Ok(self.suspend()) };
                    self.agent.step(input, seen).await?
                }
                (None, None) => return Ok(None),
            };
            if let Action::AwaitAnswers(calls) = &action {
                let waiting = calls.iter().map(PendingCall::to_waiting).collect();
                let run = self.agent.session.current_run().cloned().map(Arc::new);
                self.outcome = run.map(|run| Outcome { ending: Ending::WaitingForApproval { waiting }, run });
                return Ok(None);
            }
            let step = if let Action::Finish(ending) = action {
                let run = self.agent.session.transcript().runs.last().cloned();
                let step = run.as_ref().and_then(|run| run.steps.get(seen).cloned());
                self.outcome = run.map(|run| Outcome { ending, run });
                match step {
                    Some(step) => Some(step),
                    None => return Ok(None),
                }
            } else {
                self.action = Some(action);
                self.agent.session.current_run().and_then(|run| run.steps.get(seen).cloned())
            };
            if step.is_some() {
                self.seen = seen.saturating_add(1);
                return Ok(step);
            }
        }
    }

    /// Ends the iteration, and leaves the run under way.
    fn suspend(&mut self) -> Option<Arc<Step>> {
        let run = self.agent.session.current_run().cloned().map(Arc::new);
        self.outcome = run.map(|run| Outcome { ending: Ending::Suspended, run });
        self.is_suspended = true;
        None
    }

    /// Returns the outcome of the run once it has ended.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Continues to the end of the run.
    ///
    /// # Errors
    /// See [`Agent::run`].
    pub async fn finish(mut self) -> Result<Outcome, RunError> {
        while self.next().await?.is_some() {}
        let unfinished = StepError::Unexpected { expected: "a user message", found: "nothing" };
        self.outcome.take().ok_or(RunError::Step(unfinished))
    }
}

impl Drop for Iteration<'_> {
    fn drop(&mut self) {
        if self.outcome.is_none() && !self.is_suspended {
            self.agent.abandon(self.seen);
        }
    }
}
