//! The port through which a person is asked: whether a call may run, and whether a session may go on.

use fumehood_core::boxed::BoxFuture;

use crate::guardrail::CallQuestion;
use crate::session::BudgetQuestion;

/// What a person is asked.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// Whether a call may run that a rule or a judge will not decide about.
    Call(&'a CallQuestion),
    /// Whether a session may go on although a limit was reached.
    Budget(&'a BudgetQuestion),
}

impl<'a> Question<'a> {
    /// The question in words. Yes or no is the answer.
    #[must_use]
    pub fn text(&self) -> &'a str {
        match self {
            Self::Call(question) => &question.question,
            Self::Budget(question) => &question.text,
        }
    }
}

/// What a person says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Yes: it may run, it may go on.
    Allow,
    /// No.
    Deny {
        /// Why, for the model where there is one to tell. May be empty.
        reason: String,
    },
}

impl Answer {
    /// No, without a reason.
    #[must_use]
    pub fn no() -> Self {
        Self::Deny { reason: String::new() }
    }
}

/// Asks a person: by a prompt, a callback, an API.
pub trait Approver: Send + Sync {
    /// Waits for the answer, as long as it takes; limits on time are looked at afterwards. Dropping the future takes
    /// the question back.
    fn ask<'a>(&'a self, question: Question<'a>) -> BoxFuture<'a, Answer>;
}
