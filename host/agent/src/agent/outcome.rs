//! The outcome of a run, and the errors of a run and of a reset.

use std::sync::Arc;

use fumehood_core::record::RecordError;

use super::builder::BuildError;
use crate::session::StepError;
use crate::session::transcript::{Ending, Run};

/// The outcome of a run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The way the run ended.
    pub ending: Ending,
    /// The run, with its messages, steps and calls.
    pub run: Arc<Run>,
}

impl Outcome {
    /// Returns the text for the user; empty if there is none.
    #[must_use]
    pub fn text(&self) -> &str {
        self.ending.text().unwrap_or_default()
    }
}

/// Errors of [`Agent::reset`](super::Agent::reset).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResetError {
    /// The end of the session cannot be recorded.
    #[error("cannot record the end of the session")]
    Record(#[from] RecordError),
    /// There are no random bytes for the id of the next session.
    #[error("cannot create an id for the next session")]
    Name(#[from] BuildError),
}

/// Errors of [`Agent::run`](super::Agent::run). A run that fails with one of them ends as cancelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// A record cannot be written.
    #[error("the run was stopped, because it could not be recorded")]
    Record(#[from] RecordError),
    /// Calls of the run before wait for a person's answer, so that no message can be taken.
    #[error("the session is waiting for answers to calls; answer them and resume it before you send another message")]
    Waiting,
    /// The session did not expect the outcome of its own action.
    #[error("the run was stopped, because the session and the loop disagree about what comes next")]
    Step(#[from] StepError),
}
