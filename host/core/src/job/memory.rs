//! An in-memory store of jobs.

use std::collections::BTreeMap;
use std::fmt;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Job, JobId, JobLimits, JobState, JobStore, JobStoreError};
use crate::boxed::BoxFuture;
use crate::call::content::Content;
use crate::digest::Digest;
use crate::time::Timestamp;

/// Jobs in memory. They are lost when it is dropped.
#[derive(Default)]
pub struct MemoryJobs {
    jobs: Mutex<BTreeMap<JobId, Job>>,
}

impl MemoryJobs {
    /// Returns the size of the results of an owner, in bytes.
    #[must_use]
    pub fn result_bytes(&self, owner: &str, now: Timestamp) -> usize {
        let jobs = self.lock();
        let own = jobs.values().filter(|job| *job.owner == *owner && !job.is_expired(now));
        own.map(result_bytes).fold(0, usize::saturating_add)
    }

    /// Returns the ids of the jobs of an owner.
    #[must_use]
    pub fn ids(&self, owner: &str) -> Vec<JobId> {
        let jobs = self.lock();
        jobs.values().filter(|job| *job.owner == *owner).map(|job| job.id).collect()
    }

    /// Adds or replaces a job, without limits, after removing those whose time is over.
    pub fn insert(&self, job: Job) {
        let mut jobs = self.lock();
        jobs.retain(|_, kept| !kept.is_expired(job.updated_at));
        jobs.insert(job.id, job);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<JobId, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the number of jobs, without their results.
impl fmt::Debug for MemoryJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryJobs").field("jobs", &self.lock().len()).finish()
    }
}

/// Returns the size of the parts of a result, in bytes.
fn result_bytes(job: &Job) -> usize {
    match &job.state {
        JobState::Completed(result) => result.content().iter().map(Content::bytes).sum(),
        _ => 0,
    }
}

impl JobStore for MemoryJobs {
    fn create<'a>(&'a self, job: &'a Job, limits: &'a JobLimits) -> BoxFuture<'a, Result<(), JobStoreError>> {
        let mut jobs = self.lock();
        jobs.retain(|_, kept| !kept.is_expired(job.created_at));
        let own = || jobs.values().filter(|kept| kept.owner == job.owner);
        let bytes = own().map(result_bytes).fold(0, usize::saturating_add);
        let is_taken = job.key.is_some_and(|key| own().any(|kept| kept.has_key(&key.key)));
        let checked =
            if is_taken { Err(JobStoreError::KeyTaken) } else { limits.check(own().count(), bytes, jobs.len()) };
        if checked.is_ok() {
            jobs.insert(job.id, job.clone());
        }
        Box::pin(ready(checked))
    }

    fn update<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), JobStoreError>> {
        if let Some(kept) = self.lock().get_mut(&job.id) {
            kept.advance(job.state.clone(), job.updated_at);
        }
        Box::pin(ready(Ok(())))
    }

    fn find<'a>(
        &'a self,
        owner: &'a str,
        id: JobId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>> {
        let found = self.lock().get(&id).filter(|job| *job.owner == *owner && !job.is_expired(now)).cloned();
        Box::pin(ready(Ok(found)))
    }

    fn find_by_key<'a>(
        &'a self,
        owner: &'a str,
        key: &'a Digest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>> {
        let jobs = self.lock();
        let mut own = jobs.values().filter(|job| *job.owner == *owner && !job.is_expired(now));
        Box::pin(ready(Ok(own.find(|job| job.has_key(key)).cloned())))
    }

    fn list<'a>(&'a self, owner: &'a str, now: Timestamp) -> BoxFuture<'a, Result<Vec<Job>, JobStoreError>> {
        let jobs = self.lock();
        let own = jobs.values().filter(|job| *job.owner == *owner && !job.is_expired(now));
        let mut own: Vec<Job> = own.cloned().collect();
        own.sort_by_key(|job| std::cmp::Reverse(job.created_at));
        Box::pin(ready(Ok(own)))
    }

    fn remove<'a>(&'a self, owner: &'a str, id: JobId) -> BoxFuture<'a, Result<(), JobStoreError>> {
        let mut jobs = self.lock();
        if jobs.get(&id).is_some_and(|job| *job.owner == *owner) {
            jobs.remove(&id);
        }
        Box::pin(ready(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;
    use crate::call::result::{CallResult, Metadata};

    /// Returns the output of a future that is ready at once.
    fn now<T>(mut future: BoxFuture<'_, T>) -> T {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn job(id: u128, owner: &str, at: u64) -> Job {
        let ttl = Duration::from_millis(100);
        Job::begin(JobId::from_bits(id), owner.into(), "t".to_owned(), Timestamp(at), ttl)
    }

    fn completed(text: &str) -> JobState {
        let outcome = Ok(vec![Content::text(text)]);
        let result = CallResult { id: "1".to_owned(), tool: "t".to_owned(), outcome, metadata: Metadata::default() };
        JobState::of_result(result, false)
    }

    #[test]
    fn jobs_are_bounded_for_each_owner_and_removed_when_their_time_is_over() {
        let limits = JobLimits { owner_jobs: 2, owner_bytes: 10, jobs: 3 };
        let store = MemoryJobs::default();
        let create = |job: &Job| now(store.create(job, &limits));
        create(&job(1, "a", 0)).unwrap();
        create(&job(2, "a", 50)).unwrap();
        assert!(matches!(create(&job(3, "a", 60)), Err(JobStoreError::Full(_))));
        create(&job(4, "b", 60)).unwrap();
        assert!(matches!(create(&job(5, "c", 60)), Err(JobStoreError::Full(_))));
        assert_eq!(now(store.list("a", Timestamp(99))).unwrap().len(), 2);
        assert!(now(store.find("a", JobId::from_bits(1), Timestamp(100))).unwrap().is_none());
        assert!(now(store.find("a", JobId::from_bits(4), Timestamp(99))).unwrap().is_none());
        create(&job(3, "a", 100)).unwrap();
        let ids: Vec<JobId> = now(store.list("a", Timestamp(100))).unwrap().iter().map(|job| job.id).collect();
        assert_eq!(ids, [JobId::from_bits(3), JobId::from_bits(2)]);
    }

    #[test]
    fn results_count_towards_the_bytes_of_their_owner() {
        let limits = JobLimits { owner_bytes: 10, ..JobLimits::default() };
        let store = MemoryJobs::default();
        let mut first = job(1, "a", 0);
        now(store.create(&first, &limits)).unwrap();
        first.advance(completed("0123456789"), Timestamp(1));
        now(store.update(&first)).unwrap();
        assert!(matches!(now(store.create(&job(2, "a", 2), &limits)), Err(JobStoreError::Full(_))));
        now(store.create(&job(2, "b", 2), &limits)).unwrap();
        now(store.remove("b", first.id)).unwrap();
        assert!(now(store.find("a", first.id, Timestamp(2))).unwrap().is_some());
        now(store.remove("a", first.id)).unwrap();
        now(store.create(&job(3, "a", 2), &limits)).unwrap();
    }
}
