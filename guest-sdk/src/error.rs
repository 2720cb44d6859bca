//! Failures of a call.

use std::error::Error;
use std::fmt;
use std::time::Duration;

/// The machine-readable kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The arguments match the schema but are invalid for the tool. Other arguments may work.
    InvalidArguments,
    /// The call failed. The same call would fail again.
    Failed,
    /// A dependency of the tool is temporarily unavailable. The same call may work later.
    Unavailable,
    /// The tool lacks a grant that it needs.
    Denied,
}

/// A failed call. The message is sent to the model: it should state the problem and a way to avoid it. The host cuts it
/// off after 4 KiB.
///
/// `?` converts a `String` or `&str` to a [failed](Self::failed) call. For other errors write
/// `.map_err(ToolError::failed)?`, which sets the kind of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    kind: FailureKind,
    message: String,
    retry_after: Option<Duration>,
}

impl ToolError {
    /// Creates a failure of kind [`Failed`](FailureKind::Failed): the same call would fail again.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Failed, message)
    }

    /// Creates a failure of kind [`InvalidArguments`](FailureKind::InvalidArguments): other arguments may work.
    pub fn invalid_arguments(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::InvalidArguments, message)
    }

    /// Creates a failure of kind [`Unavailable`](FailureKind::Unavailable): the same call may work later.
    pub fn unavailable(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Unavailable, message)
    }

    /// Creates a failure of kind [`Denied`](FailureKind::Denied): the tool lacks a grant that it needs.
    pub fn denied(message: impl fmt::Display) -> Self {
        Self::new(FailureKind::Denied, message)
    }

    fn new(kind: FailureKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), retry_after: None }
    }

    /// Sets the time after which the same call is worth retrying. It is sent to the host in milliseconds, rounded up.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        self.kind
    }

    /// Returns the message for the model.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the time after which the same call is worth retrying, in milliseconds, if it was set.
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
    fn retry_after_is_rounded_up() {
        let error = ToolError::unavailable("busy");
        assert_eq!(error.retry_after_ms(), None);
        let after = |wait| error.clone().retry_after(wait).retry_after_ms();
        assert_eq!(after(Duration::from_micros(1500)), Some(2));
        assert_eq!(after(Duration::from_millis(2)), Some(2));
        assert_eq!(after(Duration::ZERO), Some(0));
        assert_eq!(after(Duration::MAX), Some(u64::MAX));
    }

    #[test]
    fn converts_text_to_a_failure() {
        let error = ToolError::from("no such city");
        assert_eq!((error.kind(), error.to_string().as_str()), (FailureKind::Failed, "no such city"));
    }
}
