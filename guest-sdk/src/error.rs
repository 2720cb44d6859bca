//! Why a call failed.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// Why a call failed, in words that a program can branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The arguments fit the schema but mean nothing to the tool. Other arguments may work.
    InvalidArguments,
    /// The tool could not do what was asked. The same call would fail again.
    Failed,
    /// Something that the tool depends on cannot be had just now. The same call may work later.
    Unavailable,
    /// The tool needs a power that it was not given.
    Denied,
}

/// A failed call. The message goes to the model: it should say what went wrong and what would work. The host cuts it
/// off after 4 KiB.
///
/// `?` turns a `String` or `&str` into a [failed](Self::failed) call; for other errors write
/// `.map_err(ToolError::failed)?` and so choose what kind of failure it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    kind: FailureKind,
    message: String,
    retry_after: Option<Duration>,
}

impl ToolError {
    /// The tool could not do what was asked; the same call would fail again.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// The arguments fit the schema but mean nothing to the tool; other arguments may work.
    pub fn invalid_arguments(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::InvalidArguments, message)
    }

    /// Something that the tool depends on cannot be had just now; the same call may work later.
    pub fn unavailable(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Unavailable, message)
    }

    /// The tool needs a power that it was not given.
    pub fn denied(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Denied, message)
    }

    fn new(kind: FailureKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), retry_after: None }
    }

    /// After how long the same call is worth another try. The host learns it in milliseconds, rounded up.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// What sort of failure it is.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// What went wrong, for the model.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// After how many milliseconds the same call is worth another try, if the tool said so.
    #[must_use]
    pub fn retry_after_ms(&self) -> Option<u64> {
        let wait = self.retry_after?;
        Some(u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for ToolError {}

impl From<String> for ToolError {
    fn from(message: String) -> Self {
        Self::failed(message)
    }
}

impl From<&str> for ToolError {
    fn from(message: &str) -> Self {
        Self::failed(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_never_rounded_down() {
        let error = ToolError::unavailable("busy");
        assert_eq!(error.retry_after_ms(), None);
        let after = |wait| error.clone().retry_after(wait).retry_after_ms();
        assert_eq!(after(Duration::from_micros(1500)), Some(2));
        assert_eq!(after(Duration::from_millis(2)), Some(2));
        assert_eq!(after(Duration::ZERO), Some(0));
        assert_eq!(after(Duration::MAX), Some(u64::MAX));
    }

    #[test]
    fn plain_text_is_a_failure() {
        let error = ToolError::from("no such city");
        assert_eq!((error.kind(), error.to_string().as_str()), (FailureKind::Failed, "no such city"));
    }
}
