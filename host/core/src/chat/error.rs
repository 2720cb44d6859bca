//! Errors of requests to a model.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The kind of a [`ModelError`], for programs to branch on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailure {
    /// The provider refused the request because the model does not support tools.
    ToolsUnsupported,
    /// The provider refused the request: a wrong key, an unknown model, a bad parameter.
    Refused,
    /// The rate limit was exceeded, even after waiting.
    RateLimited,
    /// The provider failed, even after retries.
    Unavailable,
    /// The answer did not begin, or did not end, in time.
    Timeout,
    /// The response is malformed: cut off, or not in the provider's own format.
    Malformed,
    /// The client is not configured for the request: no key, an unknown provider, an exhausted script.
    Setup,
}

impl ModelFailure {
    /// Returns the name of the failure in telemetry.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ToolsUnsupported => "tools_unsupported",
            Self::Refused => "refused",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Setup => "setup",
        }
    }
}

/// The error of a request that got no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelError {
    /// The kind of failure.
    pub failure: ModelFailure,
    /// A description of the failure and its remedy. Never contains a key.
    pub message: String,
    /// The HTTP status, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The delay after which the provider accepts a retry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The setting that would prevent the failure, by its key in the settings of the provider, such as `temperature`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
}

impl ModelError {
    /// Creates an error of this kind with this message.
    pub fn new(failure: ModelFailure, message: impl Into<String>) -> Self {
        Self { failure, message: message.into(), status: None, retry_after: None, setting: None }
    }
}
