//! Rules about calls, and verdicts. Rules are pure: no clock, no file, no waiting.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use fumehood_core::tool::definition::Annotations;
use fumehood_core::tool::is_named;
use serde_json::Value;

/// A call that rules decide on. Its arguments fit the schema and its actor may make it.
#[derive(Debug, Clone)]
pub struct ProposedCall {
    /// The full name of the tool.
    pub tool: String,
    /// The name that models and clients may be given instead.
    pub alias: Option<String>,
    /// The tool's claims about its effects.
    pub annotations: Annotations,
    /// The arguments, as earlier rules left them.
    pub arguments: Value,
    /// The actor on whose behalf the call is made; `None` for guests.
    pub actor: Option<Arc<str>>,
    /// The skill in use.
    pub skill: Option<Arc<str>>,
    /// The id of the session.
    pub session: String,
}

impl ProposedCall {
    /// Returns whether a list that restricts tools names that of the call: see [`is_named`].
    #[must_use]
    pub fn is_named_in(&self, tools: &BTreeSet<String>) -> bool {
        is_named(tools, &self.tool, self.alias.as_deref())
    }
}

/// The decision of a rule, a judge or a person on a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Lets the call run.
    Allow,
    /// Lets the call run with other arguments.
    Modify {
        /// All the arguments.
        arguments: Value,
        /// A description of the change, for the model.
        note: String,
    },
    /// Refuses the call.
    Deny {
        /// The reason, for the model.
        reason: String,
    },
    /// Leaves the decision to a person.
    Ask {
        /// The question for the person.
        question: String,
    },
}

impl Verdict {
    /// Returns the name of the verdict in records.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Modify { .. } => "modify",
            Self::Deny { .. } => "deny",
            Self::Ask { .. } => "ask",
        }
    }
}

/// A rule that decides on calls.
pub trait Rule: Send + Sync {
    /// Returns the name of the rule in records.
    fn name(&self) -> &str;

    /// Decides on a call. Must not block.
    fn evaluate(&self, proposed: &ProposedCall) -> Verdict;
}

/// A rule made of a function.
pub struct RuleFn<F> {
    name: String,
    evaluate: F,
}

impl<F> fmt::Debug for RuleFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleFn").finish_non_exhaustive()
    }
}

impl<F: Fn(&ProposedCall) -> Verdict + Send + Sync> RuleFn<F> {
    /// Creates a rule that returns the verdict of `evaluate`.
    pub fn new(name: impl Into<String>, evaluate: F) -> Self {
        Self { name: name.into(), evaluate }
    }
}

impl<F: Fn(&ProposedCall) -> Verdict + Send + Sync> Rule for RuleFn<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn evaluate(&self, proposed: &ProposedCall) -> Verdict {
        (self.evaluate)(proposed)
    }
}

/// A rule that denies calls with more than this many bytes of arguments, as JSON.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentBytes(
    /// The maximum, in bytes.
    pub usize,
);

impl Rule for ArgumentBytes {
    fn name(&self) -> &str {
        "size_cap"
    }

    fn evaluate(&self, proposed: &ProposedCall) -> Verdict {
        let bytes = proposed.arguments.to_string().len();
        if bytes <= self.0 {
            return Verdict::Allow;
        }
        let reason = format!("the arguments are {bytes} bytes; at most {} are allowed: send less at a time", self.0);
        Verdict::Deny { reason }
    }
}
