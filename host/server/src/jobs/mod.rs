//! Calls that become jobs: they run on after their caller has left, and their results are kept.

mod job_call;
mod job_progress;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fumehood_core::call::{CancellationToken, Observer};
use fumehood_core::digest::Digest;
use fumehood_core::job::{Job, JobId, JobLimits, JobState, JobStore, JobStoreError, MemoryJobs};
use fumehood_core::tool::ToolProvider;
use tokio::time::Instant;

pub use self::job_call::{CallOrJob, JobCall, StartedCall};
use self::job_progress::JobProgress;
use fumehood_layers::now;

/// Time until the second look at the end of a job that another process runs.
const MIN_LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time between two looks at the end of a job that another process runs.
const MAX_LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between two questions of a client about a job.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum of that time: a job that has run for long is not asked about often.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Part of its age after which a job is asked about again.
const POLL_DIVISOR: u32 = 10;
/// Default time after which a call becomes a job.
const DEFAULT_AFTER: Duration = Duration::from_secs(1);
/// Default time from the creation of a job until it is removed.
const DEFAULT_TTL: Duration = Duration::from_secs(60 * 60);

/// A decision by the full name of a tool.
type ToolRule = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The rules of jobs.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use fumehood_core::job::MemoryJobs;
/// use fumehood_server::{JobOptions, Jobs};
///
/// let options = JobOptions {
///     ttl: Duration::from_secs(24 * 60 * 60),
///     at_once: Arc::new(|tool: &str| tool.starts_with("report__")),
///     // Results of this component are lost with the process.
///     is_stored: Arc::new(|tool: &str| !tool.starts_with("mail__")),
///     ..JobOptions::default()
/// };
/// let _jobs = Jobs::new(Arc::new(MemoryJobs::default()), options);
/// ```
#[derive(Clone)]
pub struct JobOptions {
    /// The time after which a call becomes a job, if its client can come back for the result.
    pub after: Duration,
    /// The time from the creation of a job until it is removed, with its result.
    pub ttl: Duration,
    /// Bounds of the jobs that are kept.
    pub limits: JobLimits,
    /// Returns whether calls of a tool become jobs before they run.
    pub at_once: ToolRule,
    /// Returns whether calls of a tool, if they become jobs before they run, wait in a queue of the provider, and not for a
    /// place of this process.
    pub is_queued: ToolRule,
    /// Returns whether the results of a tool may be kept in the store. Others are kept in memory, and lost with the process.
    pub is_stored: ToolRule,
}

impl Default for JobOptions {
    /// Returns the defaults: a call becomes a job after a second, is kept for an hour, and its result may be stored.
    fn default() -> Self {
        let after = DEFAULT_AFTER;
        let ttl = DEFAULT_TTL;
        let limits = JobLimits::default();
        Self {
            after,
            ttl,
            limits,
            at_once: Arc::new(|_| false),
            is_queued: Arc::new(|_| false),
            is_stored: Arc::new(|_| true),
        }
    }
}

impl fmt::Debug for JobOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after, ttl, limits, at_once: _, is_queued: _, is_stored: _ } = self;
        let mut shown = f.debug_struct("JobOptions");
        shown.field("after", after).field("ttl", ttl).field("limits", limits).finish_non_exhaustive()
    }
}

/// Errors of requests about a job.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// There is no such job of this owner.
    #[error("this client has no such job; jobs are removed when they expire")]
    Unknown,
    /// The job runs in another process of the server.
    #[error("the job runs in another process of this server, and only that process can cancel it")]
    Elsewhere,
    /// The store of jobs does not answer.
    #[error(transparent)]
    Store(#[from] JobStoreError),
}

/// The jobs of a server. Cheap to clone; clones share their state.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use fumehood_core::call::Call;
/// use fumehood_core::tool::ToolProvider;
/// use fumehood_server::{CallOrJob, JobCall, JobError, Jobs};
///
/// async fn search(jobs: &Jobs, tools: Arc<dyn ToolProvider>) -> Result<(), JobError> {
///     let call = JobCall::new("acme".into(), tools, Call::new("mail__search", r#"{"text": "invoice"}"#), ());
///     match jobs.call(call).await {
///         CallOrJob::Ended(result) => println!("{:?}", result.text()),
///         // It takes longer than a second, and goes on.
///         CallOrJob::Job(job) => {
///             let job = jobs.wait("acme", &job.id.to_string(), Duration::from_secs(30)).await?;
///             println!("{}", job.state.as_str());
///         }
///     }
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let jobs = Jobs::default();
/// assert_eq!(jobs.find("acme", "unknown").await.err(), Some(JobError::Unknown));
/// # }
/// ```
#[derive(Clone)]
pub struct Jobs {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn JobStore>,
    /// The results that the store must not have, or could not take. Their number is bounded by the store, which has every job,
    /// and their size when the next job is created.
    private: MemoryJobs,
    options: JobOptions,
    running: Mutex<HashMap<JobId, RunningJob>>,
    /// Cancelled when the server ends.
    closing: CancellationToken,
}

/// A job whose call runs in this process.
#[derive(Clone)]
struct RunningJob {
    job: Job,
    cancelled: CancellationToken,
    progress: Arc<JobProgress>,
    /// Cancelled once its end is saved.
    ended: CancellationToken,
}

impl RunningJob {
    /// Returns the job, with what its tool reported last.
    fn snapshot(&self) -> Job {
        let mut job = self.job.clone();
        if let Some((message, at)) = self.progress.latest() {
            job.advance(JobState::Working { message: Some(message) }, at);
        }
        job
    }
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs").field("options", &self.inner.options).finish_non_exhaustive()
    }
}

impl Default for Jobs {
    /// Creates jobs in memory, with the default options.
    fn default() -> Self {
        Self::new(Arc::new(MemoryJobs::default()), JobOptions::default())
    }
}

impl Jobs {
    /// Creates the jobs of a server, which are kept in this store.
    #[must_use]
    pub fn new(store: Arc<dyn JobStore>, options: JobOptions) -> Self {
        let private = MemoryJobs::default();
        let running = Mutex::default();
        let closing = CancellationToken::new();
        Self { inner: Arc::new(Inner { store, private, options, running, closing }) }
    }

    /// Runs a call, which becomes a job if it takes longer than [`JobOptions::after`]. Dropping the future before that cancels
    /// the call.
    pub async fn call(&self, call: JobCall) -> CallOrJob {
        job_call::run(&self.inner, call).await
    }

    /// Finds a job of an owner by the text of its id.
    ///
    /// # Errors
    /// See [`JobError`].
    pub async fn find(&self, owner: &str, id: &str) -> Result<Job, JobError> {
        let id = JobId::parse(id).ok_or(JobError::Unknown)?;
        if let Some(running) = self.inner.running().get(&id) {
            return if *running.job.owner == *owner { Ok(running.snapshot()) } else { Err(JobError::Unknown) };
        }
        let found = match self.inner.private.find(owner, id, now()).await? {
            Some(job) => Some(job),
            None => self.inner.store.find(owner, id, now()).await?,
        };
        found.filter(|job| *job.owner == *owner).ok_or(JobError::Unknown)
    }

    /// Like [`Self::find`]. A job whose call has ended without the process that began it is ended with `tools`, those of its
    /// owner.
    ///
    /// # Errors
    /// See [`JobError`].
    pub async fn find_or_adopt(&self, owner: &str, id: &str, tools: &Arc<dyn ToolProvider>) -> Result<Job, JobError> {
        let job = self.find(owner, id).await?;
        if job.state.is_final() || self.inner.running().contains_key(&job.id) {
            return Ok(job);
        }
        if let Some(call) = self.inner.store.adopt(&job).await? {
            job_call::adopt(&self.inner, job.clone(), call, Arc::clone(tools));
        }
        Ok(job)
    }

    /// Waits until a job has ended, for `time` at most, and returns it.
    ///
    /// # Errors
    /// See [`JobError`].
    pub async fn wait(&self, owner: &str, id: &str, time: Duration) -> Result<Job, JobError> {
        self.wait_with(owner, id, None, time).await
    }

    /// Like [`Self::wait`]. A job is taken over as [`Self::find_or_adopt`] does it.
    ///
    /// # Errors
    /// See [`JobError`].
    pub async fn wait_or_adopt(
        &self,
        owner: &str,
        id: &str,
        tools: &Arc<dyn ToolProvider>,
        time: Duration,
    ) -> Result<Job, JobError> {
        self.wait_with(owner, id, Some(tools), time).await
    }

    async fn wait_with(
        &self,
        owner: &str,
        id: &str,
        tools: Option<&Arc<dyn ToolProvider>>,
        time: Duration,
    ) -> Result<Job, JobError> {
        let until = Instant::now() + time;
        let mut pause = MIN_LOOK_INTERVAL;
        loop {
            let job = match tools {
                Some(tools) => self.find_or_adopt(owner, id, tools).await?,
                None => self.find(owner, id).await?,
            };
            if job.state.is_final() || Instant::now() >= until {
                return Ok(job);
            }
            let ended = self.inner.running().get(&job.id).map(|running| running.ended.clone());
            match ended {
                Some(ended) => {
                    let _not_yet = tokio::time::timeout_at(until, ended.cancelled()).await;
                }
                None => {
                    tokio::time::sleep_until(until.min(Instant::now() + pause)).await;
                    pause = pause.saturating_mul(2).min(MAX_LOOK_INTERVAL);
                }
            }
        }
    }

    /// Cancels a job, which stops its tool within milliseconds. One that has ended stays as it is.
    ///
    /// # Errors
    /// See [`JobError`].
    pub async fn cancel(&self, owner: &str, id: &str) -> Result<(), JobError> {
        let job = self.find(owner, id).await?;
        let running = self.inner.running().get(&job.id).map(|running| running.cancelled.clone());
        match running {
            Some(token) => token.cancel(),
            // It may have ended in between.
            None => {
                let job = self.find(owner, id).await?;
                if !job.state.is_final() && !self.inner.store.cancel(&job).await? {
                    return Err(JobError::Elsewhere);
                }
            }
        }
        Ok(())
    }

    /// Removes a job that has ended, with its result. Returns whether it had ended; one that has not stays.
    ///
    /// # Errors
    /// See [`JobError`].
    pub async fn remove(&self, owner: &str, id: &str) -> Result<bool, JobError> {
        let job = self.find(owner, id).await?;
        if job.state.is_final() {
            self.inner.store.remove(owner, job.id).await?;
            self.inner.private.remove(owner, job.id).await?;
        }
        Ok(job.state.is_final())
    }

    /// Finds the job of an owner by the digest of the key of its call.
    ///
    /// # Errors
    /// [`JobError::Store`].
    pub async fn find_by_key(&self, owner: &str, key: &Digest) -> Result<Option<Job>, JobError> {
        match self.inner.store.find_by_key(owner, key, now()).await? {
            Some(job) => Ok(Some(self.current(job).await?)),
            None => Ok(None),
        }
    }

    /// Returns the jobs of an owner, the newest first, and those of one moment by their ids.
    ///
    /// # Errors
    /// [`JobError::Store`].
    pub async fn list(&self, owner: &str) -> Result<Vec<Job>, JobError> {
        let mut jobs = Vec::new();
        for job in self.inner.store.list(owner, now()).await? {
            jobs.push(self.current(job).await?);
        }
        jobs.sort_by_key(|job| (Reverse(job.created_at), job.id));
        Ok(jobs)
    }

    /// Returns a job of the store as this process knows it.
    async fn current(&self, stored: Job) -> Result<Job, JobStoreError> {
        let running = self.inner.running().get(&stored.id).map(RunningJob::snapshot);
        if let Some(running) = running {
            return Ok(running);
        }
        let private = self.inner.private.find(&stored.owner, stored.id, now()).await?;
        Ok(private.unwrap_or(stored))
    }

    /// Waits until the ends of all jobs are saved, for `time` at most. The calls that are stopped from now on count as
    /// interrupted, because the server ends.
    pub async fn close(&self, time: Duration) {
        self.inner.closing.cancel();
        let until = Instant::now() + time;
        loop {
            let next = self.inner.running().values().next().map(|running| running.ended.clone());
            let Some(ended) = next else { return };
            if tokio::time::timeout_at(until, ended.cancelled()).await.is_err() {
                return;
            }
        }
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, HashMap<JobId, RunningJob>> {
        // No code that holds the lock can panic half-way.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the job of a call, and keeps it among the running ones.
    async fn create(&self, running: RunningJob) -> Result<Job, JobStoreError> {
        let job = &running.job;
        let limits = &self.options.limits;
        // What is in memory counts as well; the store knows nothing of it.
        let private_bytes = || self.private.result_bytes(&job.owner, job.created_at);
        if limits.check(0, private_bytes(), 0).is_err() {
            self.drop_removed(&job.owner).await;
        }
        let private_bytes = private_bytes();
        limits.check(0, private_bytes, 0)?;
        let owner_bytes = limits.owner_bytes.saturating_sub(private_bytes);
        self.store.create(job, &JobLimits { owner_bytes, ..*limits }).await?;
        let job = running.snapshot();
        self.running().insert(job.id, running);
        Ok(job)
    }

    /// Saves the end of a job.
    async fn end(&self, id: JobId, state: JobState) {
        let Some(RunningJob { mut job, ended, .. }) = self.running().get(&id).cloned() else { return };
        job.advance(state, now());
        let is_private = matches!(job.state, JobState::Completed(_)) && !(self.options.is_stored)(&job.tool);
        let stored = if is_private { self.end_private(&job).await } else { self.store.update(&job).await };
        if stored.is_err() {
            // Kept here instead, so that its owner gets it for as long as this process lives.
            self.private.insert(job);
        }
        self.running().remove(&id);
        ended.cancel();
    }

    /// Saves the end of a job without its result, which stays in memory.
    async fn end_private(&self, job: &Job) -> Result<(), JobStoreError> {
        self.private.insert(job.clone());
        let stored = Job { state: job_call::unstored(), ..job.clone() };
        self.store.update(&stored).await
    }

    /// Removes the results in memory whose jobs were removed by another process.
    async fn drop_removed(&self, owner: &str) {
        for id in self.private.ids(owner) {
            if matches!(self.store.find(owner, id, now()).await, Ok(None)) {
                let _in_memory = self.private.remove(owner, id).await;
            }
        }
    }

    /// Removes a job from the running ones, because its call goes on elsewhere, or never began.
    fn leave(&self, id: JobId) {
        let left = self.running().remove(&id);
        left.inspect(|running| running.ended.cancel());
    }

    /// Removes a job whose owner never learned of it.
    async fn forget(&self, owner: &str, id: JobId) {
        let _stays_until_its_time_is_over = self.store.remove(owner, id).await;
        let _in_memory = self.private.remove(owner, id).await;
    }
}

/// Returns the time after which a client should ask about a job again. It grows with the age of the job.
#[must_use]
pub fn poll_interval(job: &Job) -> Duration {
    let age = now().since(job.created_at);
    age.checked_div(POLL_DIVISOR).unwrap_or_default().clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

/// Returns an observer for a call, which keeps what the tool reported last.
fn observe(next: Option<Arc<dyn Observer>>) -> Arc<JobProgress> {
    Arc::new(JobProgress::new(next))
}

#[cfg(test)]
mod tests;
