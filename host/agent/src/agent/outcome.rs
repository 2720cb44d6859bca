//! How a run ended, and why it could not be brought to an ending of its own.

use std::sync::Arc;

use fumehood_core::record::RecordError;

use super::builder::BuildError;
use crate::session::StepError;
use crate::transcript::{Ending, Run};

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How.
    pub ending: Ending,
    /// Everything that was said and done.
    pub run: Arc<Run>,
}

impl Outcome {
    /// What the person is told; empty if nothing.
    #[must_use]
    pub fn text(&self) -> &str {
        self.ending.text().unwrap_or_default()
    }
}

/// Errors of [`Agent::reset`](super::Agent::reset).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResetError {
    /// The end of the session cannot be recorded.
    #[error("the end of the session could not be recorded")]
    Record(#[from] RecordError),
    /// There are no random numbers to name the next session with.
    #[error("the next session cannot be named")]
    Name(#[from] BuildError),
}

/// Why a run could not be brought to one of its own endings. It ends as cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// What happens cannot be kept.
    #[error("the run was stopped, because what happens in it could not be recorded")]
    Record(#[from] RecordError),
    /// The session did not expect what became of its own action.
    #[error("the run was stopped, because the session and the loop disagree about what comes next")]
    Step(#[from] StepError),
}
