//! One job, and the states that it passes.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::JobId;
use crate::call::error_kind::ErrorKind;
use crate::call::result::{CallError, CallResult};
use crate::digest::Digest;
use crate::text::untrusted::PrintableText;
use crate::time::Timestamp;

/// A call that its caller comes back for.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// The principal that it belongs to. For every other one it does not exist.
    pub owner: Arc<str>,
    /// The full name of the tool.
    pub tool: String,
    /// The time at which it was created.
    pub created_at: Timestamp,
    /// The time of its last change.
    pub updated_at: Timestamp,
    /// The time from its creation until it is removed, with its result.
    pub ttl: Duration,
    /// The key under which its caller made the call, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<JobKey>,
    /// Its state.
    pub state: JobState,
}

/// The key of a call that is to run once, however often it is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobKey {
    /// The digest of the key.
    pub key: Digest,
    /// The digest of the request that the key stands for.
    pub request: Digest,
}

/// The state of a job. It begins with [`Working`](Self::Working); the others are final.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "status", content = "value", rename_all = "snake_case")]
pub enum JobState {
    /// The call waits for a place, or runs.
    Working {
        /// A description of the current step, as the tool reported it.
        message: Option<PrintableText>,
    },
    /// The call has ended with this result, which may be the failure of a tool.
    Completed(Box<CallResult>),
    /// The host lost the call, or its result.
    Failed(CallError),
    /// The call was stopped because its owner cancelled the job.
    Cancelled,
}

impl JobState {
    /// Returns the state of a job whose process was lost while its call ran.
    #[must_use]
    pub fn interrupted() -> Self {
        let message = "the server ended while the tool ran; it may have had its effect";
        let error = CallError::new(ErrorKind::Interrupted, message);
        Self::Failed(error.with_hint("check its effects before you call again"))
    }

    /// Returns the state of a job whose call ended with this result. `was_cancelled` is true if its owner cancelled it.
    #[must_use]
    pub fn of_result(result: CallResult, was_cancelled: bool) -> Self {
        match result.error().map(|error| error.kind) {
            Some(ErrorKind::Cancelled) if was_cancelled => Self::Cancelled,
            Some(ErrorKind::Interrupted) => match result.outcome {
                Err(error) => Self::Failed(error),
                Ok(_) => Self::Completed(Box::new(result)),
            },
            _ => Self::Completed(Box::new(result)),
        }
    }

    /// Returns whether the job has ended.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Working { .. })
    }

    /// Returns the name of the state, which is that of the MCP specification.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Working { .. } => "working",
            Self::Completed(_) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Job {
    /// Creates a job whose call is about to run.
    #[must_use]
    pub fn begin(id: JobId, owner: Arc<str>, tool: String, now: Timestamp, ttl: Duration) -> Self {
        let state = JobState::Working { message: None };
        Self { id, owner, tool, created_at: now, updated_at: now, ttl, key: None, state }
    }

    /// Returns whether the caller gave this key to its call.
    #[must_use]
    pub fn has_key(&self, key: &Digest) -> bool {
        self.key.is_some_and(|own| own.key == *key)
    }

    /// Changes the state. Returns whether that was possible: a final state never changes.
    pub fn advance(&mut self, state: JobState, now: Timestamp) -> bool {
        let is_possible = !self.state.is_final();
        if is_possible {
            self.state = state;
            self.updated_at = self.updated_at.max(now);
        }
        is_possible
    }

    /// Returns the time at which it is removed.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.created_at.saturating_add(self.ttl)
    }

    /// Returns whether its time is over.
    #[must_use]
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::content::Content;
    use crate::call::result::Metadata;

    fn result(outcome: Result<Vec<Content>, CallError>) -> CallResult {
        CallResult { id: "1".to_owned(), tool: "t".to_owned(), outcome, metadata: Metadata::default() }
    }

    fn job() -> Job {
        Job::begin(JobId::from_bits(7), "a".into(), "t".to_owned(), Timestamp(1000), Duration::from_secs(60))
    }

    #[test]
    fn a_final_state_never_changes() {
        for end in [JobState::Cancelled, JobState::interrupted(), JobState::of_result(result(Ok(Vec::new())), false)] {
            let mut job = job();
            assert!(job.advance(JobState::Working { message: Some("half".into()) }, Timestamp(1500)));
            assert!(job.advance(end.clone(), Timestamp(2000)));
            assert!(!job.advance(JobState::Working { message: None }, Timestamp(3000)));
            assert!(!job.advance(JobState::Cancelled, Timestamp(3000)));
            assert_eq!((job.state.as_str(), job.updated_at), (end.as_str(), Timestamp(2000)));
        }
    }

    #[test]
    fn the_result_decides_on_the_state() {
        fn check(result: CallResult, was_cancelled: bool, expected: &str) {
            assert_eq!(JobState::of_result(result, was_cancelled).as_str(), expected);
        }

        fn failure(kind: ErrorKind) -> CallResult {
            result(Err(CallError::new(kind, "why")))
        }

        check(result(Ok(vec![Content::text("3")])), false, "completed");
        // It ended before it could be stopped.
        check(result(Ok(vec![Content::text("3")])), true, "completed");
        check(failure(ErrorKind::ToolFailed), false, "completed");
        check(failure(ErrorKind::Cancelled), true, "cancelled");
        // Stopped by an operator.
        check(failure(ErrorKind::Cancelled), false, "completed");
        check(failure(ErrorKind::Interrupted), false, "failed");
        check(failure(ErrorKind::Interrupted), true, "failed");
    }

    #[test]
    fn a_job_expires_at_the_end_of_its_time() {
        let job = job();
        assert!(!job.is_expired(Timestamp(60_999)) && job.is_expired(Timestamp(61_000)));
        // A clock that was set back removes nothing.
        assert!(!job.is_expired(Timestamp(0)));
    }

    #[test]
    fn a_job_survives_its_text() {
        let key = JobKey { key: Digest::of(b"k"), request: Digest::of(b"r") };
        let mut job = Job { key: Some(key), ..job() };
        for state in [
            JobState::Working { message: Some("half".into()) },
            JobState::of_result(result(Ok(vec![Content::text("3")])), false),
        ] {
            assert!(job.advance(state, Timestamp(2000)));
            let read: Job = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{job:?}"));
        }
        // Earlier versions wrote none.
        job.key = None;
        let text = serde_json::to_string(&job).unwrap();
        assert!(!text.contains("\"key\"") && serde_json::from_str::<Job>(&text).unwrap().key.is_none(), "{text}");
    }
}
