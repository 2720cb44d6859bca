//! What a rule sees and says. Rules are pure: no clock, no file, no waiting.

use std::sync::Arc;

use fumehood_core::definition::Annotations;
use serde_json::Value;

/// A call that wants to run. Its arguments fit the schema and its actor may make it.
#[derive(Debug, Clone)]
pub struct Proposed {
    /// The full name of the tool.
    pub tool: String,
    /// What the tool promises about its effects.
    pub annotations: Annotations,
    /// The arguments, as earlier rules left them.
    pub arguments: Value,
    /// On whose behalf; `None` for guests.
    pub actor: Option<Arc<str>>,
    /// Which skill is in use.
    pub skill: Option<Arc<str>>,
    /// Which session.
    pub session: String,
}

/// What a rule, a judge or a person says.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// It may run.
    Allow,
    /// It may run with these arguments instead.
    Modify {
        /// All the arguments.
        arguments: Value,
        /// What was changed, for the model.
        note: String,
    },
    /// It must not run.
    Deny {
        /// Why, for the model.
        reason: String,
    },
    /// A person has to say.
    Ask {
        /// What to ask them.
        question: String,
    },
}

impl Verdict {
    /// The word for it in records.
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

/// One rule.
pub trait Rule: Send + Sync {
    /// What it is called in records.
    fn name(&self) -> &str;

    /// What it says about a call. Must not block.
    fn evaluate(&self, proposed: &Proposed) -> Verdict;
}

/// A rule of the host's own.
pub struct RuleFn<F> {
    name: String,
    evaluate: F,
}

impl<F: Fn(&Proposed) -> Verdict + Send + Sync> RuleFn<F> {
    /// A rule of this name that says what `evaluate` says.
    pub fn new(name: impl Into<String>, evaluate: F) -> Self {
        Self { name: name.into(), evaluate }
    }
}

impl<F: Fn(&Proposed) -> Verdict + Send + Sync> Rule for RuleFn<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn evaluate(&self, proposed: &Proposed) -> Verdict {
        (self.evaluate)(proposed)
    }
}

/// Denies calls whose arguments are larger than this many bytes of JSON.
#[derive(Debug, Clone, Copy)]
pub struct ArgumentBytes(
    /// The most bytes.
    pub usize,
);

impl Rule for ArgumentBytes {
    fn name(&self) -> &str {
        "size_cap"
    }

    fn evaluate(&self, proposed: &Proposed) -> Verdict {
        let found = proposed.arguments.to_string().len();
        if found <= self.0 {
            return Verdict::Allow;
        }
        let reason = format!("the arguments are {found} bytes; at most {} are allowed: send less at a time", self.0);
        Verdict::Deny { reason }
    }
}
