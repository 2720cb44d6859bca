//! Remedies for failed calls, before the model gets the error: retry, other arguments, escalation, or the end of the
//! run.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::call::error_kind::{ErrorKind, Stage};
use fumehood_core::call::result::CallError;
use fumehood_core::text::sanitize::truncate_str;
use serde_json::Value;

/// Maximum delay between two attempts, also if the tool requests a longer one.
const MAX_DELAY: Duration = Duration::from_secs(5);

/// The kind of failure that a remedy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The arguments are not JSON, or do not match the schema.
    InvalidArguments,
    /// The arguments match the schema, but not the tool's own type.
    Deserialization,
    /// The tool ran and failed.
    Execution,
}

/// The severity of an escalated failure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The failure is worth a note.
    Low,
    /// The task becomes harder.
    Medium,
    /// The task cannot continue as planned.
    #[default]
    High,
    /// A person has to intervene.
    Critical,
}

/// An error for a text that is not a severity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a severity; expected low, medium, high or critical")]
pub struct SeverityError(String);

impl FromStr for Severity {
    type Err = SeverityError;

    fn from_str(text: &str) -> Result<Self, SeverityError> {
        match text.to_ascii_lowercase().as_str() {
            "low" => Ok(Self::Low),
            "medium" => Ok(Self::Medium),
            "high" => Ok(Self::High),
            "critical" => Ok(Self::Critical),
            _ => Err(SeverityError(truncate_str(text, 80).to_owned())),
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Critical => "critical",
        })
    }
}

/// The number and the delay of retries of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts after the first.
    pub max_retries: u32,
    /// The delay before the second attempt. It doubles with each attempt, up to 5 seconds.
    pub initial_delay: Duration,
    /// True to also retry tools that are not annotated as idempotent or read-only.
    pub even_if_not_idempotent: bool,
}

impl RetryPolicy {
    /// Creates a policy of at most `max_retries` retries, without delay, and only of idempotent tools.
    #[must_use]
    pub fn new(max_retries: u32) -> Self {
        Self { max_retries, initial_delay: Duration::ZERO, even_if_not_idempotent: false }
    }

    /// Returns the delay after attempt `attempt` (from 1) failed; `None` if it is not retried.
    #[must_use]
    pub fn delay_after(&self, attempt: u32, is_idempotent: bool, error: &CallError) -> Option<Duration> {
        // A refused call would be refused again, and a caller who cancelled does not want a retry.
        let is_final = error.kind.stage() == Stage::Refused || error.kind == ErrorKind::Cancelled;
        if attempt > self.max_retries || is_final || !(is_idempotent || self.even_if_not_idempotent) {
            return None;
        }
        let doubled = self.initial_delay.saturating_mul(1 << (attempt - 1).min(16));
        Some(doubled.max(error.retry_after.unwrap_or_default()).min(MAX_DELAY))
    }
}

/// A function that returns other arguments, given the text of a model and the error; `None` if it cannot.
type Fix = Arc<dyn Fn(&str, &CallError) -> Option<Value> + Send + Sync>;

/// The reaction to a failed call.
#[derive(Clone)]
pub enum Remedy {
    /// The model gets the error as the result of the call.
    Tell,
    /// The same call is made again. For invalid arguments this is [`Remedy::Tell`], because they would fail again.
    Retry(RetryPolicy),
    /// The call is made with other arguments, once. They go through every check again.
    Fix(Fix),
    /// The model gets the error with a severity and advice.
    Escalate {
        /// The severity.
        severity: Severity,
        /// The advice, placed before the message of the error.
        advice: String,
    },
    /// The run ends.
    Stop,
}

impl Remedy {
    /// Creates a [`Remedy::Fix`]. `fix` gets the raw text of the arguments and the error, and must not block.
    pub fn fix(fix: impl Fn(&str, &CallError) -> Option<Value> + Send + Sync + 'static) -> Self {
        Self::Fix(Arc::new(fix))
    }
}

impl fmt::Debug for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tell => f.write_str("Tell"),
            Self::Retry(attempts) => write!(f, "Retry({attempts:?})"),
            Self::Fix(_) => f.write_str("Fix"),
            Self::Escalate { severity, .. } => write!(f, "Escalate({severity})"),
            Self::Stop => f.write_str("Stop"),
        }
    }
}

/// The remedies of a tool, or of all tools. One that is `None` is taken from the next policy, in the order of
/// [`Policy`](crate::registry::Policy).
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// The remedy for [`Fault::InvalidArguments`].
    pub invalid_arguments: Option<Remedy>,
    /// The remedy for [`Fault::Deserialization`]; if `None`, that for invalid arguments.
    pub deserialization: Option<Remedy>,
    /// The remedy for [`Fault::Execution`].
    pub execution: Option<Remedy>,
}

impl Recovery {
    /// Returns the remedy for a fault, if there is one.
    #[must_use]
    pub fn remedy(&self, fault: Fault) -> Option<&Remedy> {
        match fault {
            Fault::InvalidArguments => self.invalid_arguments.as_ref(),
            Fault::Deserialization => self.deserialization.as_ref().or(self.invalid_arguments.as_ref()),
            Fault::Execution => self.execution.as_ref(),
        }
    }
}

/// Adds severity and advice to the message of an error.
#[must_use]
pub fn escalate(error: CallError, severity: Severity, advice: &str) -> CallError {
    let message = format!("escalated ({severity}): {advice}: {}", error.message);
    CallError { message: message.into(), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_is_high_unless_said_and_is_read_in_any_case() {
        assert_eq!(Severity::default(), Severity::High);
        assert_eq!("Critical".parse(), Ok(Severity::Critical));
        assert_eq!("LOW".parse(), Ok(Severity::Low));
        assert!("bad".parse::<Severity>().unwrap_err().to_string().contains("expected low"));
    }

    #[test]
    fn retries_only_idempotent_tools_by_default() {
        let error = CallError::new(ErrorKind::Unavailable, "down");
        let retry = RetryPolicy { initial_delay: Duration::from_millis(100), ..RetryPolicy::new(2) };
        assert_eq!(retry.delay_after(1, true, &error), Some(Duration::from_millis(100)));
        assert_eq!(retry.delay_after(2, true, &error), Some(Duration::from_millis(200)));
        assert_eq!(retry.delay_after(3, true, &error), None);
        assert_eq!(retry.delay_after(1, false, &error), None);
        let forced = RetryPolicy { even_if_not_idempotent: true, ..retry };
        assert_eq!(forced.delay_after(1, false, &error), Some(Duration::from_millis(100)));
        let waits = CallError { retry_after: Some(Duration::from_secs(60)), ..error };
        assert_eq!(retry.delay_after(1, true, &waits), Some(MAX_DELAY));
        assert_eq!(retry.delay_after(1, true, &CallError::new(ErrorKind::Denied, "no")), None);
    }
}
