//! The port for questions to a person: whether a call may run, and whether a session may continue.

use std::sync::Arc;

use serde_json::Value;

use crate::boxed::BoxFuture;
use crate::call::CallContext;
use crate::call::error_kind::ErrorKind;
use crate::call::result::CallError;
use crate::tool::ValidatedCall;
use crate::tool::definition::Annotations;

/// The hint of an error for a call about which nobody can be asked.
pub const NOBODY_TO_ASK: &str = "no person can be asked here; continue without this call";

/// A call as a person sees it who is asked about it.
#[derive(Debug, Clone)]
pub struct ProposedCall {
    /// The full name of the tool.
    pub tool: String,
    /// The tool's claims about its effects.
    pub annotations: Annotations,
    /// The arguments that the tool would get.
    pub arguments: Value,
    /// The actor on whose behalf the call is made; `None` for guests.
    pub actor: Option<Arc<str>>,
    /// The id of the session; empty for calls of no session.
    pub session: String,
}

impl ProposedCall {
    /// Returns the call as a person sees it.
    #[must_use]
    pub fn new(call: &ValidatedCall, context: &CallContext) -> Self {
        Self {
            tool: call.tool().full_name().to_owned(),
            annotations: call.tool().definition().annotations,
            arguments: call.arguments().clone(),
            actor: context.actor.clone(),
            session: context.step.as_ref().map(|step| step.session.to_string()).unwrap_or_default(),
        }
    }
}

/// A question about a call that waits for the answer.
#[derive(Debug, Clone)]
pub struct CallQuestion {
    /// The source of the question, such as the name of a rule, `judge`, or a hook.
    pub from: String,
    /// The question.
    pub question: String,
    /// The call that waits.
    pub proposed: ProposedCall,
}

impl CallQuestion {
    /// Returns the error of a call about which nobody can be asked.
    #[must_use]
    pub fn unanswered(&self) -> CallError {
        CallError::new(ErrorKind::NeedsApproval, format!("this call needs approval: {}", self.question))
            .with_hint(NOBODY_TO_ASK)
    }
}

/// A question for a person, to be answered with yes or no.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// Approval of a call that a policy does not decide on.
    Call(&'a CallQuestion),
    /// Continuation of a session that reached a limit. The text names it.
    Budget(&'a str),
}

impl<'a> Question<'a> {
    /// Returns the text of the question.
    #[must_use]
    pub fn text(&self) -> &'a str {
        match self {
            Self::Call(question) => &question.question,
            Self::Budget(text) => text,
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
    /// Nobody can answer now. A call of a saved session waits, another one is refused. About anything else it is a no.
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
