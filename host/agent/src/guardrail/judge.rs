//! Judges, whose word has to be waited for, and what a person is asked about a call.

use std::collections::BTreeSet;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::Usage;

use super::rule::{Proposed, Verdict};

/// What a judge says, and what it took to find out.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// What it says.
    pub verdict: Verdict,
    /// Tokens that it used. They count towards the session's budget, once the batch of the call has ended.
    pub usage: Usage,
}

impl From<Verdict> for Judgement {
    /// A verdict that took no tokens.
    fn from(verdict: Verdict) -> Self {
        Self { verdict, usage: Usage::default() }
    }
}

/// Judges calls: another model, a service, a callback.
pub trait Judge: Send + Sync {
    /// What it says about a call that every rule let through.
    fn judge<'a>(&'a self, proposed: &'a Proposed) -> BoxFuture<'a, Judgement>;
}

/// Which calls are judged. Unless said otherwise: those of tools that do not promise to be read-only.
///
/// What a tool promises is its own word. Name the tools of strangers in `always`.
#[derive(Debug, Clone, Default)]
pub struct JudgePolicy {
    /// The full names of tools whose calls are judged whatever they promise.
    pub always: BTreeSet<String>,
    /// The full names of tools whose calls are never judged. `always` goes before it.
    pub never: BTreeSet<String>,
}

impl JudgePolicy {
    /// Whether this call is judged.
    #[must_use]
    pub fn applies(&self, proposed: &Proposed) -> bool {
        let reads = proposed.annotations.read_only == Some(true);
        self.always.contains(&proposed.tool) || !(reads || self.never.contains(&proposed.tool))
    }
}

/// What a person is asked about a call that waits.
#[derive(Debug, Clone)]
pub struct CallQuestion {
    /// Who wants to know: the name of a rule, or `judge`.
    pub from: String,
    /// What.
    pub question: String,
    /// The call that waits.
    pub proposed: Proposed,
}
