//! The decision of a policy.

use crate::call::Arguments;
use crate::call::content::Content;
use crate::call::error_kind::ErrorKind;
use crate::call::result::CallError;
use crate::chat::Usage;
use crate::text::untrusted::PrintableText;

/// The name of a denial in records.
pub(super) const DENY: &str = "deny";
/// The name of a change in records.
pub(super) const MODIFY: &str = "modify";

/// The decision on a call, or on its result. `T` is what can be rewritten: the [arguments](Arguments) before a call, and its
/// [outcome](Outcome) after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision<T> {
    /// Lets it pass as it is.
    Allow,
    /// Lets it pass with a change, which is validated against the schemas of the tool.
    Rewrite {
        /// All the arguments, or the whole outcome.
        to: T,
        /// A description of the change, for the model.
        note: Option<String>,
    },
    /// Refuses the call, or withholds its result.
    Deny {
        /// The error, for the caller.
        error: CallError,
    },
    /// Asks a person about the call. A result cannot be asked about: it is withheld.
    Ask {
        /// The question.
        question: String,
    },
}

/// Other content in place of a result, or the message of another failure.
pub type Outcome = Result<Vec<Content>, String>;

/// A decision on a call, and the cost of making it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruling {
    /// The decision.
    pub decision: Decision<Arguments>,
    /// Tokens that a model used. They count towards the budget of the session.
    pub usage: Usage,
}

impl<T> Decision<T> {
    /// Creates a denial for this reason.
    pub fn deny(reason: impl Into<PrintableText>) -> Self {
        Self::Deny { error: CallError::new(ErrorKind::Denied, reason) }
    }

    /// Creates a question.
    pub fn ask(question: impl Into<String>) -> Self {
        Self::Ask { question: question.into() }
    }

    /// Returns the name of the decision in records.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Rewrite { .. } => MODIFY,
            Self::Deny { .. } => DENY,
            Self::Ask { .. } => "ask",
        }
    }
}

impl From<Decision<Arguments>> for Ruling {
    /// Converts a decision that used no tokens.
    fn from(decision: Decision<Arguments>) -> Self {
        Self { decision, usage: Usage::default() }
    }
}
