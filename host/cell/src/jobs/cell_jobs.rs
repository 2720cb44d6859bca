//! The store of jobs that all gateways of a cell share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::Call;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallError;
use fumehood_core::digest::Digest;
use fumehood_core::job::{Job, JobId, JobLimits, JobState, JobStore, JobStoreError};
use fumehood_core::time::Timestamp;
use tokio::time::Instant;

use super::job_queue::JobQueue;
use super::job_stream::{JobEntry, JobQueueOptions, JobStream, StreamError};
use super::message::JobRecord;
use crate::error::CellError;
use crate::gateway::CellTools;
use crate::identity::Role;

/// Time that the gateway of a job has to end it once its result is there; then another one does.
const ADOPT_AFTER: Duration = Duration::from_secs(2);
/// Maximum number of jobs of other gateways whose results were seen.
const MAX_SEEN: usize = 4096;
/// Number of attempts to save the end of a job.
const SAVE_ATTEMPTS: u32 = 20;
/// Time between two attempts.
const SAVE_AGAIN: Duration = Duration::from_millis(500);

/// Jobs in JetStream, which any gateway of the cell can answer for. Cheap to clone.
#[derive(Clone)]
pub struct CellJobs {
    stream: JobStream,
    queue: JobQueue,
    /// Random bits of the run of this gateway.
    run: u64,
    /// Jobs of other gateways that have a result, with the revision of their record and the time since which it has not
    /// changed.
    seen: Arc<Mutex<HashMap<JobId, (u64, Instant)>>>,
}

impl fmt::Debug for CellJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellJobs").field("stream", &self.stream).finish_non_exhaustive()
    }
}

fn unavailable(error: impl fmt::Display) -> JobStoreError {
    JobStoreError::Unavailable(error.to_string())
}

/// Reads the id of the job that the entry of a key names.
fn read_id(entry: &JobEntry) -> Option<JobId> {
    std::str::from_utf8(&entry.value).ok().and_then(JobId::parse)
}

impl CellJobs {
    /// Opens the queue of the cell for a gateway: calls with a job in their context go there from now on.
    ///
    /// # Errors
    /// If the server has no JetStream.
    pub async fn open(gateway: &CellTools, options: JobQueueOptions) -> Result<Self, CellError> {
        let run = getrandom::u64().map_err(CellError::Random)?;
        let stream = JobStream::open(gateway.link(), options, true).await?;
        let queue = JobQueue::new(stream.clone());
        gateway.set_queue(Arc::new(queue.clone()));
        Ok(Self { stream, queue, run, seen: Arc::default() })
    }

    fn seal(&self, job: &Job) -> Result<Bytes, JobStoreError> {
        let record = JobRecord { job: job.id, owner: job.owner.to_string(), run: self.run };
        let body = serde_json::to_vec(job).map_err(unavailable)?;
        let sealed = self.stream.seal(Role::JobRecord, record, &body).map_err(unavailable)?;
        let maximum = self.stream.link().max_body_bytes();
        if sealed.len() <= maximum || !job.state.is_final() {
            return Ok(sealed);
        }
        let message = format!("the result has {} bytes as a job; the maximum of NATS is {maximum}", body.len());
        let error = CallError::new(ErrorKind::OutputTooLarge, message);
        let error = error.with_hint("ask for less, or raise `max_payload` of the NATS server");
        self.seal(&Job { state: JobState::Failed(error), ..job.clone() })
    }

    /// Returns the job of a record, and whether an earlier run of this gateway wrote it.
    fn read_record(&self, signed: &[u8], owner: &str, id: JobId) -> Option<(Job, bool)> {
        let frame = match self.stream.verify::<JobRecord>(signed, Role::JobRecord) {
            Ok(frame) => frame,
            Err(error) => {
                tracing::warn!(target: "fumehood::cell", "ignored the record of a job: {error}");
                return None;
            }
        };
        let JobRecord { job, owner: of, run } = &frame.envelope.message;
        let is_of_earlier_run = frame.envelope.from == self.stream.link().name() && *run != self.run;
        let read: Job = serde_json::from_slice(frame.body).ok()?;
        (*job == id && of == owner && read.id == id && *read.owner == *owner).then_some((read, is_of_earlier_run))
    }

    async fn read(&self, owner: &str, id: JobId) -> Result<Option<(Job, u64)>, StreamError> {
        let entry = self.stream.get(&JobStream::record_key(owner, id)).await?;
        Ok(entry.and_then(|entry| Some((self.read_record(&entry.value, owner, id)?.0, entry.revision))))
    }

    /// Finds a job. One that ran in an earlier run of this gateway, and not in the queue, was interrupted.
    async fn find_record(&self, owner: &str, id: JobId, now: Timestamp) -> Result<Option<Job>, JobStoreError> {
        let entry = self.stream.get(&JobStream::record_key(owner, id)).await.map_err(unavailable)?;
        let Some((mut job, is_of_earlier_run)) = entry.and_then(|entry| self.read_record(&entry.value, owner, id))
        else {
            return Ok(None);
        };
        if is_of_earlier_run && !job.state.is_final() {
            let request = self.stream.get(&JobStream::request_key(id)).await.map_err(unavailable)?;
            if request.is_none() {
                job.advance(JobState::interrupted(), now);
                self.save(&job).await?;
            }
        }
        Ok(Some(job))
    }

    async fn create_record(&self, job: &Job, limits: &JobLimits) -> Result<(), JobStoreError> {
        if self.is_key_taken(job).await.map_err(unavailable)? {
            return Err(JobStoreError::KeyTaken);
        }
        let own = self.stream.keys_of(&job.owner).await.map_err(unavailable)?.len();
        // The sizes and the number of all are bounded by the entries as a whole.
        limits.check(own, 0, 0)?;
        let key = JobStream::record_key(&job.owner, job.id);
        // The index is written after the record, so that it never names a job that does not exist yet.
        let error = match self.stream.create(&key, self.seal(job)?).await {
            Ok(true) => match self.take_key(job).await {
                Ok(true) => return Ok(()),
                Ok(false) => JobStoreError::KeyTaken,
                Err(error) => unavailable(error),
            },
            Ok(false) => return Err(JobStoreError::Unavailable("a job with this id already exists".to_owned())),
            Err(error) => unavailable(error),
        };
        self.discard(key).await;
        Err(error)
    }

    /// Removes a record whose job does not run. NATS may be gone for a moment, and a job that never ends must not stay.
    async fn discard(&self, key: String) {
        if self.stream.remove(&key).await.is_ok() {
            return;
        }
        let stream = self.stream.clone();
        tokio::spawn(async move {
            for _ in 0..SAVE_ATTEMPTS {
                tokio::time::sleep(SAVE_AGAIN).await;
                if stream.remove(&key).await.is_ok() {
                    return;
                }
            }
        });
    }

    /// Returns whether the index names another job for the key of this one.
    async fn is_key_taken(&self, job: &Job) -> Result<bool, StreamError> {
        let Some(key) = &job.key else { return Ok(false) };
        match self.stream.get(&JobStream::index_key(&job.owner, &key.key)).await? {
            Some(entry) => self.names_a_job(&entry, &job.owner, &key.key).await,
            None => Ok(false),
        }
    }

    /// Returns whether an entry of the index names a job that exists. A record that cannot be read counts as one: it may be
    /// that of a gateway which this one does not know yet.
    async fn names_a_job(&self, entry: &JobEntry, owner: &str, key: &Digest) -> Result<bool, StreamError> {
        let Some(id) = read_id(entry) else { return Ok(false) };
        let record = self.stream.get(&JobStream::record_key(owner, id)).await?;
        Ok(record.is_some_and(|record| {
            let job = self.read_record(&record.value, owner, id);
            job.is_none_or(|(job, _)| job.has_key(key))
        }))
    }

    /// Writes a job into the index of keys. Returns false if another one is there.
    async fn take_key(&self, job: &Job) -> Result<bool, StreamError> {
        let Some(key) = &job.key else { return Ok(true) };
        let entry = JobStream::index_key(&job.owner, &key.key);
        let value = Bytes::from(job.id.to_string());
        if self.stream.create(&entry, value.clone()).await? {
            return Ok(true);
        }
        let Some(found) = self.stream.get(&entry).await? else { return self.stream.create(&entry, value).await };
        if self.names_a_job(&found, &job.owner, &key.key).await? {
            return Ok(false);
        }
        // The job that it names was removed. Another gateway may replace it at the same moment, and only one can.
        Ok(self.stream.replace(&entry, value, found.revision).await?.is_some())
    }

    /// Writes the next state of a record. Its entry in the index is written again, so that both are kept for the same time.
    async fn replace(&self, job: &Job, sealed: Bytes, revision: u64) -> Result<Option<u64>, StreamError> {
        if let Some(key) = &job.key {
            let entry = JobStream::index_key(&job.owner, &key.key);
            let found = self.stream.get(&entry).await?.filter(|found| read_id(found) == Some(job.id));
            if let Some(JobEntry { value, revision }) = found {
                self.stream.replace(&entry, value, revision).await?;
            }
        }
        self.stream.replace(&JobStream::record_key(&job.owner, job.id), sealed, revision).await
    }

    /// Saves a state. NATS may be gone for a moment, and the end of a job must not be.
    async fn save(&self, job: &Job) -> Result<(), JobStoreError> {
        let sealed = self.seal(job)?;
        let mut attempt = 0;
        loop {
            let saved = match self.read(&job.owner, job.id).await {
                Ok(None) => return Ok(()),
                Ok(Some((kept, _))) if kept.state.is_final() => return Ok(()),
                Ok(Some((_, revision))) => self.replace(job, sealed.clone(), revision).await,
                Err(error) => Err(error),
            };
            attempt += 1;
            match saved {
                Ok(Some(_)) => return Ok(()),
                Ok(None) => {}
                Err(error) if attempt >= SAVE_ATTEMPTS => return Err(unavailable(error)),
                Err(_) => tokio::time::sleep(SAVE_AGAIN).await,
            }
        }
    }

    /// Returns whether a job of another gateway has a result which that gateway does not deal with.
    async fn is_left_behind(&self, job: &Job) -> Result<bool, StreamError> {
        if self.stream.get(&JobStream::end_key(job.id)).await?.is_none() {
            return Ok(false);
        }
        let Some((kept, revision)) = self.read(&job.owner, job.id).await? else { return Ok(false) };
        if kept.state.is_final() {
            return Ok(false);
        }
        let since = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            if seen.len() >= MAX_SEEN {
                seen.clear();
            }
            let entry = seen.entry(job.id).or_insert_with(|| (revision, Instant::now()));
            if entry.0 != revision {
                *entry = (revision, Instant::now());
            }
            entry.1
        };
        if since.elapsed() < ADOPT_AFTER {
            return Ok(false);
        }
        // Only one gateway can change this revision.
        let Ok(sealed) = self.seal(&kept) else { return Ok(false) };
        Ok(self.replace(&kept, sealed, revision).await?.is_some())
    }
}

impl JobStore for CellJobs {
    fn create<'a>(&'a self, job: &'a Job, limits: &'a JobLimits) -> BoxFuture<'a, Result<(), JobStoreError>> {
        Box::pin(self.create_record(job, limits))
    }

    fn update<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), JobStoreError>> {
        Box::pin(self.save(job))
    }

    /// Entries are removed by the clock of NATS, because clocks of machines are not compared.
    fn find<'a>(
        &'a self,
        owner: &'a str,
        id: JobId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>> {
        Box::pin(self.find_record(owner, id, now))
    }

    fn find_by_key<'a>(
        &'a self,
        owner: &'a str,
        key: &'a Digest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>> {
        Box::pin(async move {
            let entry = self.stream.get(&JobStream::index_key(owner, key)).await.map_err(unavailable)?;
            let Some(id) = entry.as_ref().and_then(read_id) else { return Ok(None) };
            // The entry is not signed; the record is.
            Ok(self.find_record(owner, id, now).await?.filter(|job| job.has_key(key)))
        })
    }

    fn list<'a>(&'a self, owner: &'a str, now: Timestamp) -> BoxFuture<'a, Result<Vec<Job>, JobStoreError>> {
        Box::pin(async move {
            let mut jobs = Vec::new();
            for key in self.stream.keys_of(owner).await.map_err(unavailable)? {
                let Some(id) = key.rsplit('.').next().and_then(JobId::parse) else { continue };
                jobs.extend(self.find_record(owner, id, now).await?);
            }
            jobs.sort_by_key(|job| std::cmp::Reverse(job.created_at));
            Ok(jobs)
        })
    }

    fn remove<'a>(&'a self, owner: &'a str, id: JobId) -> BoxFuture<'a, Result<(), JobStoreError>> {
        Box::pin(async move { self.stream.remove(&JobStream::record_key(owner, id)).await.map_err(unavailable) })
    }

    fn cancel<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<bool, JobStoreError>> {
        Box::pin(async move {
            // A job that is not in the queue runs in the gateway that began it, which no order reaches.
            let request = self.stream.get(&JobStream::request_key(job.id)).await.map_err(unavailable)?;
            if request.is_none() {
                return Ok(false);
            }
            self.queue.cancel(job.id).await;
            Ok(true)
        })
    }

    fn adopt<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<Option<Call>, JobStoreError>> {
        Box::pin(async move {
            if self.is_left_behind(job).await.map_err(unavailable)? {
                Ok(self.queue.call_of(job.id).await)
            } else {
                Ok(None)
            }
        })
    }
}
