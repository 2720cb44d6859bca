//! The port for stores of jobs, and their bounds.

use std::fmt;
use std::future::ready;

use super::{Job, JobId};
use crate::boxed::BoxFuture;
use crate::call::Call;
use crate::digest::Digest;
use crate::time::Timestamp;

/// Bounds of the jobs that are kept: those that run, and those whose results are not removed yet.
///
/// ```
/// use fumehood_core::job::{JobLimits, JobStoreError};
///
/// let limits = JobLimits { owner_jobs: 2, ..JobLimits::default() };
/// assert_eq!(limits.check(1, 0, 10), Ok(()));
/// assert!(matches!(limits.check(2, 0, 10), Err(JobStoreError::Full(_))));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobLimits {
    /// Maximum number of jobs of one owner.
    pub owner_jobs: usize,
    /// Size of the results of one owner above which it gets no further job, in bytes.
    pub owner_bytes: usize,
    /// Maximum number of jobs of all owners.
    pub jobs: usize,
}

impl Default for JobLimits {
    /// Returns the defaults: 64 jobs and 64 MiB for each owner, and 4,096 jobs.
    fn default() -> Self {
        Self { owner_jobs: 64, owner_bytes: 64 << 20, jobs: 4096 }
    }
}

impl JobLimits {
    /// Checks whether there is room for one more job.
    ///
    /// # Errors
    /// [`JobStoreError::Full`].
    pub fn check(&self, owner_jobs: usize, owner_bytes: usize, jobs: usize) -> Result<(), JobStoreError> {
        let reason = if owner_jobs >= self.owner_jobs {
            format!("this client has {owner_jobs} jobs, and the maximum is {}", self.owner_jobs)
        } else if owner_bytes >= self.owner_bytes {
            "the results of this client's jobs have reached their maximum size".to_owned()
        } else if jobs >= self.jobs {
            format!("the server has {jobs} jobs, its maximum")
        } else {
            return Ok(());
        };
        Err(JobStoreError::Full(reason))
    }
}

/// Errors of a store of jobs. A failed operation has changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobStoreError {
    /// There is no room for another job.
    #[error("{0}; jobs are removed when they expire")]
    Full(String),
    /// The owner has a job of this key, which was created at the same moment.
    #[error("another request with this key created a job at the same time")]
    KeyTaken,
    /// The store cannot be reached, or is damaged.
    #[error("jobs are not available now: {0}")]
    Unavailable(String),
}

/// The port for stores of jobs. Jobs whose time is over do not exist.
pub trait JobStore: fmt::Debug + Send + Sync {
    /// Adds a job, after removing those whose time is over. Once it returns, [`Self::find`] finds the job. An owner has one job of
    /// each key at most, also if several processes share the store.
    ///
    /// # Errors
    /// See [`JobStoreError`].
    fn create<'a>(&'a self, job: &'a Job, limits: &'a JobLimits) -> BoxFuture<'a, Result<(), JobStoreError>>;

    /// Replaces a job by its next state. One that has ended, or does not exist, stays as it is.
    ///
    /// # Errors
    /// [`JobStoreError::Unavailable`].
    fn update<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), JobStoreError>>;

    /// Finds a job of an owner. One whose process was lost while it ran has the state
    /// [`interrupted`](super::JobState::interrupted).
    ///
    /// # Errors
    /// [`JobStoreError::Unavailable`].
    fn find<'a>(
        &'a self,
        owner: &'a str,
        id: JobId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>>;

    /// Finds the job of an owner by the digest of the key of its call.
    ///
    /// # Errors
    /// [`JobStoreError::Unavailable`].
    fn find_by_key<'a>(
        &'a self,
        owner: &'a str,
        key: &'a Digest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>>;

    /// Returns the jobs of an owner, the newest first.
    ///
    /// # Errors
    /// [`JobStoreError::Unavailable`].
    fn list<'a>(&'a self, owner: &'a str, now: Timestamp) -> BoxFuture<'a, Result<Vec<Job>, JobStoreError>>;

    /// Removes a job.
    ///
    /// # Errors
    /// [`JobStoreError::Unavailable`].
    fn remove<'a>(&'a self, owner: &'a str, id: JobId) -> BoxFuture<'a, Result<(), JobStoreError>>;

    /// Cancels a job that another process runs. Returns whether that is possible. The default is that it is not.
    ///
    /// # Errors
    /// [`JobStoreError::Unavailable`].
    fn cancel<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<bool, JobStoreError>> {
        let _ = job;
        Box::pin(ready(Ok(false)))
    }

    /// Takes over a job whose call has ended without the process that began it. Returns the call, which yields that end when
    /// it is made once more, and runs nothing. The default is that there are no such jobs.
    ///
    /// # Errors
    /// [`JobStoreError::Unavailable`].
    fn adopt<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<Option<Call>, JobStoreError>> {
        let _ = job;
        Box::pin(ready(Ok(None)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_is_named_when_it_is_reached() {
        fn check(limits: &JobLimits, own_jobs: usize, own_bytes: usize, all: usize, expected: Option<&str>) {
            let found = limits.check(own_jobs, own_bytes, all).err().map(|error| error.to_string());
            assert_eq!(found.is_some(), expected.is_some(), "{found:?}");
            assert!(found.unwrap_or_default().contains(expected.unwrap_or_default()));
        }

        let limits = JobLimits { owner_jobs: 2, owner_bytes: 100, jobs: 5 };
        check(&limits, 1, 99, 4, None);
        check(&limits, 2, 0, 4, Some("this client has 2 jobs"));
        check(&limits, 1, 100, 4, Some("have reached their maximum size"));
        check(&limits, 0, 0, 5, Some("the server has 5 jobs"));
    }
}
