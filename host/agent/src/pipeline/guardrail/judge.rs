//! Judges, which decide asynchronously, and questions about a call for the approver.

use std::collections::BTreeSet;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::Usage;

use super::rule::{ProposedCall, Verdict};

/// The verdict of a judge, and the tokens that it used.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Tokens that the judge used. They count towards the session's budget once the batch of the call has ended.
    pub usage: Usage,
}

impl From<Verdict> for Judgement {
    /// Converts a verdict that used no tokens.
    fn from(verdict: Verdict) -> Self {
        Self { verdict, usage: Usage::default() }
    }
}

/// A judge of calls: another model, a service, a callback.
pub trait Judge: Send + Sync {
    /// Judges a call that every rule allowed.
    fn judge<'a>(&'a self, proposed: &'a ProposedCall) -> BoxFuture<'a, Judgement>;
}

/// The selection of calls that are judged. Default: those of tools whose annotations do not say that they are
/// read-only.
///
/// Annotations are claims of the tool. List tools that are not trusted in `always`.
#[derive(Debug, Clone, Default)]
pub struct JudgePolicy {
    /// The names of tools whose calls are judged regardless of their annotations.
    pub always: BTreeSet<String>,
    /// The full names of tools whose calls are not judged. `always` takes precedence.
    pub never: BTreeSet<String>,
}

impl JudgePolicy {
    /// Returns whether the call is judged.
    #[must_use]
    pub fn applies(&self, proposed: &ProposedCall) -> bool {
        let is_read_only = proposed.annotations.read_only == Some(true);
        proposed.is_named_in(&self.always) || !(is_read_only || self.never.contains(&proposed.tool))
    }
}

/// A question for the approver about a call that waits for the answer.
#[derive(Debug, Clone)]
pub struct CallQuestion {
    /// The source of the question: the name of a rule, or `judge`.
    pub from: String,
    /// The question.
    pub question: String,
    /// The call that waits.
    pub proposed: ProposedCall,
}
