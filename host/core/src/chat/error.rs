//! Why a model gave no answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Which sort of failure, so that a program can branch on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailure {
    /// The provider refused the request because this model knows no tools.
    ToolsUnsupported,
    /// The provider refused the request: a wrong key, an unknown model, a bad parameter.
    Refused,
    /// Too many requests, even after waiting.
    RateLimited,
    /// The provider failed, even after trying again.
    Unavailable,
    /// Nothing, or no end, came in time.
    Timeout,
    /// What came is not an answer: cut off, or not in the provider's own format.
    Malformed,
    /// The client is not set up for this: no key, no such provider, a script that has come to its end.
    Setup,
}

/// A model gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelError {
    /// Which sort of failure.
    pub failure: ModelFailure,
    /// What was wrong and what to do about it. Never contains a key.
    pub message: String,
    /// The HTTP status, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// After how long the provider wants to be asked again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The setting that would change it, by its key in the settings of the provider, such as `temperature`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
}

impl ModelError {
    /// A failure of this sort with this message.
    pub fn new(failure: ModelFailure, message: impl Into<String>) -> Self {
        Self { failure, message: message.into(), status: None, retry_after: None, setting: None }
    }
}
