//! Calls that wait for a person's answer: the batch is suspended until they are answered and resumed.

use fumehood_core::time::Timestamp;
use serde::Serialize;

use super::input::{Action, Input, StepError};
use super::machine::{Session, Waiting};
use super::pending::Pending;
use super::transcript::{Ending, WaitingCall};
use crate::deferred::{CallAnswer, DeferredCall, GivenAnswer};

/// A call that waits for the answer of a person.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PendingCall {
    /// The id by which it is answered: the id of the session, a colon and a number. A call that is asked about again
    /// because it changed has another one.
    pub id: String,
    /// The call, and the question about it.
    #[serde(flatten)]
    pub deferred: DeferredCall,
    /// The time since which it waits.
    pub asked_at: Timestamp,
    /// The answer, which takes effect once the session goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<GivenAnswer>,
}

impl PendingCall {
    /// Returns the call as it may be shown wherever its records may be.
    #[must_use]
    pub fn to_waiting(&self) -> WaitingCall {
        let DeferredCall { call, tool, recorded, from, question, .. } = self.deferred.clone();
        WaitingCall { id: self.id.clone(), call, tool, arguments: recorded, from, question }
    }
}

/// Errors of answering a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// No call of this id ever waited.
    #[error("no call `{0}` is waiting for approval")]
    Unknown(String),
    /// It has an answer.
    #[error("the call `{id}` was already answered with {}, at {at_ms} ms since 1970", if *yes { "yes" } else { "no" })]
    Answered {
        /// The id of the call.
        id: String,
        /// The answer.
        yes: bool,
        /// The time of the answer, in milliseconds since 1970.
        at_ms: u64,
    },
    /// It is not pending any more: its run ended, or it was asked about again because something about it changed.
    #[error("the call `{0}` is no longer waiting: its run has ended, or it needs a new approval under another id")]
    Withdrawn(String),
}

/// The calls of a session that a person was asked about.
#[derive(Debug, Default)]
pub(super) struct AskedCalls(Vec<AskedCall>);

#[derive(Debug)]
struct AskedCall {
    id: String,
    answer: Option<(bool, Timestamp)>,
}

impl AskedCalls {
    /// Adds a call, and returns its id.
    fn add(&mut self, session: &str) -> String {
        let id = format!("{session}:{}", self.0.len().saturating_add(1));
        self.0.push(AskedCall { id: id.clone(), answer: None });
        id
    }

    fn answer(&mut self, id: &str, yes: bool, now: Timestamp) {
        if let Some(asked) = self.0.iter_mut().find(|asked| asked.id == id) {
            asked.answer = Some((yes, now));
        }
    }
}

/// Returns whether two questions are about the same call: of the same tool, with the same power and arguments.
fn is_same(one: &DeferredCall, other: &DeferredCall) -> bool {
    one.call == other.call && one.inner == other.inner && one.binding == other.binding
}

impl Session {
    /// Returns the calls that wait for an answer of a person, those that have one and were not resumed yet included.
    #[must_use]
    pub fn waiting_calls(&self) -> &[PendingCall] {
        match &self.waiting {
            Waiting::Answers(pending) => &pending.asked,
            _ => &[],
        }
    }

    /// Returns the answers to the calls that run now.
    #[must_use]
    pub fn call_answers(&self) -> Vec<CallAnswer> {
        match &self.waiting {
            Waiting::Tools(pending) => pending.answers.clone(),
            _ => Vec::new(),
        }
    }

    /// Forgets the answers that allow calls of the model. Those that allow calls of programs are kept: their records say
    /// whether they had begun.
    pub(crate) fn drop_approvals(&mut self) {
        if let Waiting::Tools(pending) = &mut self.waiting {
            pending.answers.retain(|answer| !answer.given.yes || answer.inner.is_some());
        }
    }

    /// Returns whether the call of this id only runs to be refused: every answer to it is no.
    pub(crate) fn is_denied(&self, call: &str) -> bool {
        let answers = self.call_answers();
        let mut of_call = answers.iter().filter(|answer| answer.call == call).peekable();
        of_call.peek().is_some() && of_call.all(|answer| !answer.given.yes)
    }

    /// Returns the call of this id if it can be answered.
    ///
    /// # Errors
    /// If it never waited, does not wait any more, or has an answer.
    pub fn check_answer(&self, id: &str) -> Result<&PendingCall, AnswerError> {
        let asked = self.questions.0.iter().find(|asked| asked.id == id);
        let asked = asked.ok_or_else(|| AnswerError::Unknown(id.to_owned()))?;
        if let Some((yes, at)) = asked.answer {
            return Err(AnswerError::Answered { id: id.to_owned(), yes, at_ms: at.0 });
        }
        let waiting = self.waiting_calls().iter().find(|pending| pending.id == id);
        waiting.ok_or_else(|| AnswerError::Withdrawn(id.to_owned()))
    }

    /// Waits until calls of the batch are answered.
    pub(super) fn await_answers(
        &mut self,
        mut pending: Pending,
        deferred: Vec<DeferredCall>,
        now: Timestamp,
    ) -> Action {
        for deferred in deferred {
            if !pending.waits_for(&deferred.call) {
                continue;
            }
            let former = pending
                .former
                .iter()
                .position(|former| former.answer.is_none() && is_same(&former.deferred, &deferred));
            let (id, asked_at) = match former.map(|position| pending.former.swap_remove(position)) {
                Some(former) => (former.id, former.asked_at),
                None => (self.questions.add(&self.config.id), now),
            };
            pending.asked.push(PendingCall { id, deferred, asked_at, answer: None });
        }
        pending.former.clear();
        pending.waits_since = now;
        let action = Action::AwaitAnswers(pending.asked.clone());
        self.waiting = Waiting::Answers(Box::new(pending));
        action
    }

    /// Processes an input while calls wait for answers.
    pub(super) fn step_with_answers(&mut self, input: Input, now: Timestamp) -> Result<Action, StepError> {
        let mut pending = match std::mem::replace(&mut self.waiting, Waiting::User) {
            Waiting::Answers(pending) => pending,
            waiting => {
                let error = StepError::Unexpected { expected: waiting.describe(), found: input.name() };
                self.waiting = waiting;
                return Err(error);
            }
        };
        match input {
            Input::CallAnswered { id, answer } if pending.can_answer(&id) => {
                self.questions.answer(&id, answer.yes, now);
                pending.answer(&id, answer);
                Ok(self.keep_waiting(pending))
            }
            Input::CallsResumed { calls } if !calls.is_empty() && calls.iter().all(|call| pending.waits_for(call)) => {
                // No limit counts the time in which a person was waited for.
                self.spent.since = self.spent.since.saturating_add(now.since(pending.waits_since));
                pending.resume(&calls);
                let calls = pending.calls();
                self.waiting = Waiting::Tools(pending);
                Ok(Action::RunTools(calls))
            }
            Input::Resumed { .. } => Ok(self.keep_waiting(pending)),
            Input::Cancelled => {
                self.interrupt_batch(*pending, None, now);
                Ok(self.finish(Ending::Cancelled, now))
            }
            input => {
                self.waiting = Waiting::Answers(pending);
                Err(StepError::Unexpected { expected: self.waiting.describe(), found: input.name() })
            }
        }
    }

    fn keep_waiting(&mut self, pending: Box<Pending>) -> Action {
        let action = Action::AwaitAnswers(pending.asked.clone());
        self.waiting = Waiting::Answers(pending);
        action
    }
}
