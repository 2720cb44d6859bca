//! What happens when a call fails, before the model is told: again, with other arguments, in other words, or an end.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use fumehood_core::error_kind::{ErrorKind, Stage};
use fumehood_core::result::CallError;
use fumehood_core::sanitize::truncate_str;
use serde_json::Value;

/// The longest wait between two attempts, whatever the tool asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Which sort of failure a remedy is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The arguments are not JSON, or do not fit the schema.
    InvalidArguments,
    /// They fit the schema, and the tool's own type does not take them.
    Deserialization,
    /// The tool ran and failed.
    Execution,
}

/// How bad an escalated failure is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth a note.
    Low,
    /// The task is harder now.
    Medium,
    /// The task cannot go on as it was planned.
    #[default]
    High,
    /// Somebody has to look.
    Critical,
}

/// A text that is not a severity.
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

/// How often and when a call is made again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// Most attempts after the first.
    pub again: u32,
    /// How long to wait before the second attempt; doubles from one to the next, up to 5 seconds.
    pub wait: Duration,
    /// Also for tools that do not promise that a second call with the same arguments has no further effect.
    pub even_if_not_idempotent: bool,
}

impl Attempts {
    /// At most `again` more attempts, at once, and only of idempotent tools.
    #[must_use]
    pub fn again(again: u32) -> Self {
        Self { again, wait: Duration::ZERO, even_if_not_idempotent: false }
    }

    /// How long to wait after attempt `made` (from 1) failed; `None`: do not try again.
    #[must_use]
    pub fn next(&self, made: u32, idempotent: bool, error: &CallError) -> Option<Duration> {
        // A refusal will be the same the next time, and somebody who gave up does not want another try.
        let final_word = error.kind.stage() == Stage::Refused || error.kind == ErrorKind::Cancelled;
        if made > self.again || final_word || !(idempotent || self.even_if_not_idempotent) {
            return None;
        }
        let doubled = self.wait.saturating_mul(1 << (made - 1).min(16));
        Some(doubled.max(error.retry_after.unwrap_or_default()).min(LONGEST_WAIT))
    }
}

/// Makes other arguments of those that a model wrote and of what was wrong. `None`: cannot be helped.
type Fix = Arc<dyn Fn(&str, &CallError) -> Option<Value> + Send + Sync>;

/// What to do about a failure.
#[derive(Clone)]
pub enum Remedy {
    /// Tell the model, as the failed result of the call.
    Tell,
    /// Make the same call again. Arguments that do not fit stay as they are, so for those it is the same as `Tell`.
    Retry(Attempts),
    /// Make the call with other arguments, once. They go through every check again.
    Fix(Fix),
    /// Tell the model in these words.
    Escalate {
        /// How bad it is.
        severity: Severity,
        /// What to say beside what went wrong.
        advice: String,
    },
    /// There is no point in going on: end the run.
    Stop,
}

impl Remedy {
    /// Other arguments, made by `fix` from the raw text and the error. It must not block.
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

/// The remedies of a tool, or of all tools. What is `None` is left to the next in line: tool, agent, default.
#[derive(Debug, Clone, Default)]
pub struct Recovery {
    /// For [`Fault::InvalidArguments`].
    pub invalid_arguments: Option<Remedy>,
    /// For [`Fault::Deserialization`]; if that is `None`, that for invalid arguments.
    pub deserialization: Option<Remedy>,
    /// For [`Fault::Execution`].
    pub execution: Option<Remedy>,
}

impl Recovery {
    /// The remedy for a fault, if there is one here.
    #[must_use]
    pub fn remedy(&self, fault: Fault) -> Option<&Remedy> {
        match fault {
            Fault::InvalidArguments => self.invalid_arguments.as_ref(),
            Fault::Deserialization => self.deserialization.as_ref().or(self.invalid_arguments.as_ref()),
            Fault::Execution => self.execution.as_ref(),
        }
    }
}

/// The words of an escalated failure.
#[must_use]
pub fn escalated(error: CallError, severity: Severity, advice: &str) -> CallError {
    let message = format!("escalated ({severity}): {advice}: {}", error.message);
    CallError { message: message.into(), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k25_severity_is_high_unless_said_and_is_read_in_any_case() {
        assert_eq!(Severity::default(), Severity::High);
        assert_eq!("Critical".parse(), Ok(Severity::Critical));
        assert_eq!("LOW".parse(), Ok(Severity::Low));
        assert!("bad".parse::<Severity>().unwrap_err().to_string().contains("expected low"));
    }

    #[test]
    fn only_idempotent_tools_are_tried_again_unless_told() {
        let error = CallError::new(ErrorKind::Unavailable, "down");
        let attempts = Attempts { wait: Duration::from_millis(100), ..Attempts::again(2) };
        assert_eq!(attempts.next(1, true, &error), Some(Duration::from_millis(100)));
        assert_eq!(attempts.next(2, true, &error), Some(Duration::from_millis(200)));
        assert_eq!(attempts.next(3, true, &error), None);
        assert_eq!(attempts.next(1, false, &error), None);
        let told = Attempts { even_if_not_idempotent: true, ..attempts };
        assert_eq!(told.next(1, false, &error), Some(Duration::from_millis(100)));
        let waits = CallError { retry_after: Some(Duration::from_secs(60)), ..error };
        assert_eq!(attempts.next(1, true, &waits), Some(LONGEST_WAIT));
        assert_eq!(attempts.next(1, true, &CallError::new(ErrorKind::Denied, "no")), None);
    }
}
