//! Jobs of a file, for servers.

use std::sync::Arc;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::digest::Digest;
use fumehood_core::job::{Job, JobId, JobLimits, JobStore, JobStoreError};
use fumehood_core::time::Timestamp;
use fumehood_storage::jobs::JobFile;

/// Jobs that are kept in a file, and outlive the process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SavedJobs {
    file: Arc<JobFile>,
}

impl SavedJobs {
    /// Creates a store of the jobs in this file.
    #[must_use]
    pub fn new(file: JobFile) -> Self {
        Self { file: Arc::new(file) }
    }

    /// Works on the file, on a thread for blocking work.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&JobFile) -> Result<T, JobStoreError> + Send + 'static,
    ) -> Result<T, JobStoreError> {
        let file = Arc::clone(&self.file);
        let done = tokio::task::spawn_blocking(move || work(&file)).await;
        done.unwrap_or_else(|error| Err(JobStoreError::Unavailable(error.to_string())))
    }
}

impl JobStore for SavedJobs {
    fn create<'a>(&'a self, job: &'a Job, limits: &'a JobLimits) -> BoxFuture<'a, Result<(), JobStoreError>> {
        let job = job.clone();
        let limits = *limits;
        Box::pin(self.with(move |file| file.create(&job, &limits)))
    }

    fn update<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), JobStoreError>> {
        let job = job.clone();
        Box::pin(self.with(move |file| file.update(&job)))
    }

    fn find<'a>(
        &'a self,
        owner: &'a str,
        id: JobId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>> {
        let owner = owner.to_owned();
        Box::pin(self.with(move |file| Ok(file.find(id, now)?.filter(|job| *job.owner == owner))))
    }

    fn find_by_key<'a>(
        &'a self,
        owner: &'a str,
        key: &'a Digest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>> {
        let owner = owner.to_owned();
        let key = *key;
        Box::pin(self.with(move |file| file.find_by_key(&owner, &key, now)))
    }

    fn list<'a>(&'a self, owner: &'a str, now: Timestamp) -> BoxFuture<'a, Result<Vec<Job>, JobStoreError>> {
        let owner = owner.to_owned();
        Box::pin(self.with(move |file| file.list(&owner, now)))
    }

    fn remove<'a>(&'a self, owner: &'a str, id: JobId) -> BoxFuture<'a, Result<(), JobStoreError>> {
        let owner = owner.to_owned();
        Box::pin(self.with(move |file| file.remove(&owner, id)))
    }
}
