//! The port for questions to a person: whether a call may run, and whether a session may continue.

use fumehood_core::boxed::BoxFuture;

use super::guardrail::CallQuestion;
use crate::session::BudgetQuestion;

/// A question for a person, to be answered with yes or no.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// Approval of a call that a rule or a judge does not decide on.
    Call(&'a CallQuestion),
    /// Continuation of a session that reached a limit.
    Budget(&'a BudgetQuestion),
}

impl<'a> Question<'a> {
    /// Returns the text of the question.
    #[must_use]
    pub fn text(&self) -> &'a str {
        match self {
            Self::Call(question) => &question.question,
            Self::Budget(question) => &question.text,
        }
    }
}

/// The answer of a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes: the call may run, or the session may continue.
    Allow,
    /// No.
    Deny {
        /// The reason, for the model, where one gets it. May be empty.
        reason: String,
    },
    /// Nobody can answer now. A call waits, and its run ends with
    /// [`Ending::WaitingForApproval`](crate::transcript::Ending::WaitingForApproval); about anything else it is a no.
    Defer,
}

impl Answer {
    /// Returns a denial without a reason.
    #[must_use]
    pub fn no() -> Self {
        Self::Deny { reason: String::new() }
    }
}

/// A way to ask a person: a prompt, a callback, an API.
pub trait Approver: Send + Sync {
    /// Asks a question and waits for the answer without a timeout; limits on time are checked afterwards. Dropping the
    /// future withdraws the question.
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer>;

    /// Returns whether anybody can be asked now. If not, calls that wait already are not asked about again.
    fn is_available(&self) -> bool {
        true
    }
}

/// An approver for where nobody can be asked: calls wait until they are answered elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeferringApprover;

impl Approver for DeferringApprover {
    fn ask<'a>(&'a self, _: Question<'a>) -> BoxFuture<'a, Answer> {
        Box::pin(std::future::ready(Answer::Defer))
    }

    fn is_available(&self) -> bool {
        false
    }
}
