//! Tests of jobs, without a listener.

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Progress;
use fumehood_core::call::result::{CallError, CallResult, Metadata};
use fumehood_core::job::JobKey;
use fumehood_core::time::Timestamp;
use tokio::sync::oneshot;

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn result(outcome: Result<Vec<Content>, CallError>) -> CallResult {
    CallResult { id: "1".to_owned(), tool: "t".to_owned(), outcome, metadata: Metadata::default() }
}

fn jobs(options: JobOptions) -> Jobs {
    Jobs::new(Arc::new(MemoryJobs::default()), options)
}

fn soon() -> JobOptions {
    JobOptions { after: Duration::from_millis(1), ..JobOptions::default() }
}

/// Returns a call that ends when it is told to, or is cancelled.
fn call(owner: &str, cancelled: &CancellationToken) -> (JobCall, oneshot::Sender<CallResult>) {
    let (end, told) = oneshot::channel();
    let start = move |started: StartedCall| -> BoxFuture<'static, CallResult> {
        Box::pin(async move {
            started.observer.progress(Progress { fraction: Some(0.5), message: None, partial: Vec::new() });
            tokio::select! {
                told = told => told.unwrap_or_else(|_| result(Err(CallError::cancelled()))),
                () = started.cancelled.cancelled() => result(Err(CallError::cancelled())),
            }
        })
    };
    let owner = Arc::from(owner);
    let tool = "t".to_owned();
    let cancelled = cancelled.clone();
    (JobCall { owner, tool, cancelled, after: None, key: None, observer: None, start: Box::new(start) }, end)
}

async fn begin(jobs: &Jobs, owner: &str) -> (Job, oneshot::Sender<CallResult>) {
    let (call, end) = call(owner, &CancellationToken::new());
    match jobs.call(call).await {
        CallOrJob::Job(job) => (*job, end),
        CallOrJob::Ended(result) => panic!("{result:?}"),
    }
}

#[tokio::test]
async fn a_quick_call_becomes_no_job() {
    let jobs = jobs(JobOptions { after: PATIENCE, ..JobOptions::default() });
    let (call, end) = call("a", &CancellationToken::new());
    end.send(result(Ok(vec![Content::text("3")]))).unwrap();
    assert!(matches!(jobs.call(call).await, CallOrJob::Ended(result) if result.is_ok()));
    assert!(jobs.list("a").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_long_call_becomes_a_job_of_its_owner_alone() {
    let jobs = jobs(soon());
    let (job, end) = begin(&jobs, "a").await;
    let id = job.id.to_string();
    let found = jobs.find("a", &id).await.unwrap();
    assert!(matches!(&found.state, JobState::Working { message: Some(message) } if **message == *"50 %"), "{found:?}");
    assert_eq!(jobs.find("b", &id).await.unwrap_err(), JobError::Unknown);
    assert_eq!(jobs.cancel("b", &id).await.unwrap_err(), JobError::Unknown);
    assert_eq!(jobs.find("a", "nonsense").await.unwrap_err(), JobError::Unknown);
    end.send(result(Ok(vec![Content::text("3")]))).unwrap();
    let ended = jobs.wait("a", &id, PATIENCE).await.unwrap();
    assert!(matches!(&ended.state, JobState::Completed(result) if result.is_ok()), "{ended:?}");
    assert_eq!(jobs.find("b", &id).await.unwrap_err(), JobError::Unknown);
    assert_eq!((jobs.list("a").await.unwrap().len(), jobs.list("b").await.unwrap().len()), (1, 0));
}

#[tokio::test]
async fn cancelling_stops_the_tool_and_ends_the_job() {
    let jobs = jobs(soon());
    let (job, _end) = begin(&jobs, "a").await;
    let id = job.id.to_string();
    jobs.cancel("a", &id).await.unwrap();
    let ended = jobs.wait("a", &id, PATIENCE).await.unwrap();
    assert!(matches!(ended.state, JobState::Cancelled), "{ended:?}");
    // A second time is no error.
    jobs.cancel("a", &id).await.unwrap();
}

#[tokio::test]
async fn a_caller_that_leaves_early_cancels_its_call() {
    let jobs = jobs(JobOptions { after: PATIENCE, ..JobOptions::default() });
    let cancelled = CancellationToken::new();
    let (call, _end) = call("a", &cancelled);
    let left = tokio::time::timeout(Duration::from_millis(20), jobs.call(call)).await;
    assert!(left.is_err());
    tokio::time::timeout(PATIENCE, cancelled.cancelled()).await.unwrap();
    assert!(jobs.list("a").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_call_beyond_the_limit_stays_a_call() {
    let limits = JobLimits { owner_jobs: 1, ..JobLimits::default() };
    let jobs = jobs(JobOptions { limits, ..soon() });
    let (_first, _end) = begin(&jobs, "a").await;
    let (call, end) = call("a", &CancellationToken::new());
    let calling = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.call(call).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!calling.is_finished());
    end.send(result(Ok(Vec::new()))).unwrap();
    assert!(matches!(calling.await.unwrap(), CallOrJob::Ended(result) if result.is_ok()));
}

#[tokio::test]
async fn a_call_that_must_be_a_job_is_refused_beyond_the_limit() {
    let limits = JobLimits { owner_jobs: 1, ..JobLimits::default() };
    let jobs = jobs(JobOptions { limits, at_once: Arc::new(|tool| tool == "t"), ..JobOptions::default() });
    let (_first, _end) = begin(&jobs, "a").await;
    let (call, end) = call("a", &CancellationToken::new());
    let CallOrJob::Ended(refused) = jobs.call(call).await else { panic!("it became a job") };
    let error = refused.error().unwrap();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("did not run") && error.retry_after.is_some(), "{error}");
    // The call was never started.
    assert!(end.is_closed());
}

#[tokio::test]
async fn a_result_that_must_not_be_stored_stays_in_memory() {
    let store = Arc::new(MemoryJobs::default());
    let options = JobOptions { is_stored: Arc::new(|_| false), ..soon() };
    let jobs = Jobs::new(Arc::clone(&store) as Arc<dyn JobStore>, options);
    let (job, end) = begin(&jobs, "a").await;
    end.send(result(Ok(vec![Content::text("private")]))).unwrap();
    let ended = jobs.wait("a", &job.id.to_string(), PATIENCE).await.unwrap();
    assert!(matches!(ended.state, JobState::Completed(_)));
    assert!(matches!(jobs.list("a").await.unwrap()[0].state, JobState::Completed(_)));
    let stored = store.find("a", job.id, now()).await.unwrap().unwrap();
    assert!(
        matches!(&stored.state, JobState::Failed(error) if error.message.contains("results of this tool are not saved")),
        "{stored:?}"
    );
}

#[tokio::test]
async fn results_that_stay_in_memory_count_as_those_of_their_client() {
    let limits = JobLimits { owner_bytes: 10, ..JobLimits::default() };
    let ttl = Duration::from_secs(1);
    let is_stored = Arc::new(|_: &str| false);
    let jobs = jobs(JobOptions { limits, ttl, is_stored, at_once: Arc::new(|_| true), ..JobOptions::default() });
    let (job, end) = begin(&jobs, "a").await;
    end.send(result(Ok(vec![Content::text("0123456789")]))).unwrap();
    jobs.wait("a", &job.id.to_string(), PATIENCE).await.unwrap();
    let (refused, _end) = call("a", &CancellationToken::new());
    let CallOrJob::Ended(refused) = jobs.call(refused).await else { panic!("it became a job") };
    let message = &refused.error().unwrap().message;
    assert!(message.contains("have reached their maximum size"), "{message}");
    let (_other, _end) = begin(&jobs, "b").await;
    // Its time is over.
    tokio::time::sleep(ttl).await;
    let (_next, _end) = begin(&jobs, "a").await;
}

#[tokio::test]
async fn of_two_processes_one_creates_the_job_of_a_key() {
    let store = Arc::new(MemoryJobs::default());
    let [one, other] = [(); 2].map(|()| Jobs::new(Arc::clone(&store) as Arc<dyn JobStore>, JobOptions::default()));
    let key = JobKey { key: Digest::of(b"k"), request: Digest::of(b"r") };
    let keyed = |owner: &str| {
        let (call, end) = call(owner, &CancellationToken::new());
        (JobCall { after: Some(Duration::ZERO), key: Some(key), ..call }, end)
    };
    let (first, _end) = keyed("a");
    let CallOrJob::Job(first) = one.call(first).await else { panic!("no job") };
    let (second, end) = keyed("a");
    let CallOrJob::Ended(refused) = other.call(second).await else { panic!("a second job") };
    let error = refused.error().unwrap();
    assert!(error.kind == ErrorKind::Unavailable && error.message.contains("it was not started again"), "{error}");
    assert_eq!(error.retry_after, Some(Duration::from_secs(1)));
    assert!(end.is_closed(), "it ran");
    assert_eq!(other.find_by_key("a", &key.key).await.unwrap().map(|job| job.id), Some(first.id));
    // The keys of others are their own.
    let (third, _end) = keyed("b");
    assert!(matches!(other.call(third).await, CallOrJob::Job(_)));
}

#[tokio::test]
async fn jobs_that_are_stopped_by_the_end_of_the_server_were_interrupted() {
    let jobs = jobs(soon());
    let (job, end) = begin(&jobs, "a").await;
    let closing = tokio::spawn({
        let jobs = jobs.clone();
        async move { jobs.close(PATIENCE).await }
    });
    tokio::time::timeout(PATIENCE, jobs.inner.closing.cancelled()).await.unwrap();
    // As the host ends its guests.
    drop(end);
    closing.await.unwrap();
    let ended = jobs.find("a", &job.id.to_string()).await.unwrap();
    assert!(matches!(&ended.state, JobState::Failed(error) if error.kind == ErrorKind::Interrupted), "{ended:?}");
}

#[tokio::test]
async fn a_job_is_gone_when_its_time_is_over() {
    let jobs = jobs(JobOptions { ttl: Duration::from_millis(50), ..soon() });
    let (job, end) = begin(&jobs, "a").await;
    end.send(result(Ok(Vec::new()))).unwrap();
    jobs.wait("a", &job.id.to_string(), PATIENCE).await.unwrap();
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert_eq!(jobs.find("a", &job.id.to_string()).await.unwrap_err(), JobError::Unknown);
}

#[tokio::test]
async fn a_caller_decides_when_its_call_becomes_a_job() {
    let jobs = jobs(JobOptions { after: PATIENCE, ..JobOptions::default() });
    for after in [Duration::ZERO, Duration::from_millis(1)] {
        let (call, _end) = call("a", &CancellationToken::new());
        let called = jobs.call(JobCall { after: Some(after), ..call }).await;
        assert!(matches!(called, CallOrJob::Job(_)), "{called:?}");
    }
    let (call, end) = call("a", &CancellationToken::new());
    end.send(result(Ok(Vec::new()))).unwrap();
    let called = jobs.call(JobCall { after: Some(Duration::from_secs(20)), ..call }).await;
    assert!(matches!(called, CallOrJob::Ended(_)), "{called:?}");
    assert_eq!(jobs.list("a").await.unwrap().len(), 2);
}

#[tokio::test]
async fn only_an_ended_job_is_removed_and_by_its_owner() {
    let limits = JobLimits { owner_jobs: 1, ..JobLimits::default() };
    let jobs = jobs(JobOptions { limits, is_stored: Arc::new(|_| false), ..soon() });
    let (job, end) = begin(&jobs, "a").await;
    let id = job.id.to_string();
    assert!(!jobs.remove("a", &id).await.unwrap());
    end.send(result(Ok(Vec::new()))).unwrap();
    jobs.wait("a", &id, PATIENCE).await.unwrap();
    assert_eq!(jobs.remove("b", &id).await.unwrap_err(), JobError::Unknown);
    assert!(jobs.remove("a", &id).await.unwrap());
    assert_eq!(jobs.find("a", &id).await.unwrap_err(), JobError::Unknown);
    // There is room for another one.
    let (_next, _end) = begin(&jobs, "a").await;
}

fn poll_interval_at(age: Duration) -> Duration {
    let begun = Timestamp(now().0.saturating_sub(u64::try_from(age.as_millis()).unwrap()));
    poll_interval(&Job::begin(JobId::from_bits(1), "a".into(), "t".to_owned(), begun, PATIENCE))
}

#[test]
fn an_old_job_is_asked_about_less_often() {
    assert_eq!(
        (poll_interval_at(Duration::ZERO), poll_interval_at(Duration::from_secs(600))),
        (MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
    );
    assert!((2000..2100).contains(&poll_interval_at(Duration::from_secs(20)).as_millis()));
}

#[tokio::test]
async fn a_job_is_found_by_its_key_unless_its_results_are_not_stored() {
    let key = JobKey { key: Digest::of(b"k"), request: Digest::of(b"r") };
    for is_stored in [true, false] {
        let jobs = jobs(JobOptions { is_stored: Arc::new(move |_| is_stored), ..soon() });
        let (call, _end) = call("a", &CancellationToken::new());
        let called = jobs.call(JobCall { key: Some(key), ..call }).await;
        assert!(matches!(called, CallOrJob::Job(_)), "{called:?}");
        let find = async |owner: &str, key: &Digest| jobs.find_by_key(owner, key).await.unwrap().is_some();
        assert_eq!(find("a", &key.key).await, is_stored);
        assert!(!find("b", &key.key).await && !find("a", &key.request).await);
    }
}

#[tokio::test]
async fn results_in_memory_and_in_the_store_count_together() {
    let limits = JobLimits { owner_bytes: 10, ..JobLimits::default() };
    let is_stored = Arc::new(|tool: &str| tool == "stored");
    let store = Arc::new(MemoryJobs::default());
    let options = JobOptions { limits, is_stored, at_once: Arc::new(|_| true), ..JobOptions::default() };
    let [one, other] = [(); 2].map(|()| Jobs::new(Arc::clone(&store) as Arc<dyn JobStore>, options.clone()));
    let mut ids = Vec::new();
    for tool in ["stored", "private"] {
        let (call, end) = call("a", &CancellationToken::new());
        let CallOrJob::Job(job) = one.call(JobCall { tool: tool.to_owned(), ..call }).await else { panic!("no job") };
        end.send(result(Ok(vec![Content::text("01234")]))).unwrap();
        ids.push(job.id.to_string());
        one.wait("a", &job.id.to_string(), PATIENCE).await.unwrap();
    }
    let (third, _end) = call("a", &CancellationToken::new());
    assert!(matches!(one.call(third).await, CallOrJob::Ended(_)), "5 bytes and 5 are 10");
    // Its client removes it at the other process, which knows nothing of the result.
    one.inner.private.insert(Job {
        state: JobState::of_result(result(Ok(vec![Content::text("0123456789")])), false),
        ..one.find("a", &ids[1]).await.unwrap()
    });
    for id in &ids {
        assert!(other.remove("a", id).await.unwrap());
    }
    let (_fourth, _end) = begin(&one, "a").await;
}

/// A store that takes this long to create a job, also if nobody waits for it any longer.
#[derive(Debug)]
struct SlowJobs(Arc<MemoryJobs>, Duration);

impl JobStore for SlowJobs {
    fn create<'a>(&'a self, job: &'a Job, limits: &'a JobLimits) -> BoxFuture<'a, Result<(), JobStoreError>> {
        let store = Arc::clone(&self.0);
        let delay = self.1;
        let job = job.clone();
        let limits = *limits;
        let creating = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            store.create(&job, &limits).await
        });
        Box::pin(async move { creating.await.unwrap() })
    }

    fn update<'a>(&'a self, job: &'a Job) -> BoxFuture<'a, Result<(), JobStoreError>> {
        self.0.update(job)
    }

    fn find<'a>(
        &'a self,
        owner: &'a str,
        id: JobId,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>> {
        self.0.find(owner, id, now)
    }

    fn find_by_key<'a>(
        &'a self,
        owner: &'a str,
        key: &'a Digest,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<Job>, JobStoreError>> {
        self.0.find_by_key(owner, key, now)
    }

    fn list<'a>(&'a self, owner: &'a str, now: Timestamp) -> BoxFuture<'a, Result<Vec<Job>, JobStoreError>> {
        self.0.list(owner, now)
    }

    fn remove<'a>(&'a self, owner: &'a str, id: JobId) -> BoxFuture<'a, Result<(), JobStoreError>> {
        self.0.remove(owner, id)
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_created_too_late_does_not_exist() {
    let key = JobKey { key: Digest::of(b"k"), request: Digest::of(b"r") };
    let store = Arc::new(SlowJobs(Arc::default(), Duration::from_secs(60)));
    let jobs = Jobs::new(Arc::clone(&store) as Arc<dyn JobStore>, JobOptions::default());
    let (call, end) = call("a", &CancellationToken::new());
    let called = jobs.call(JobCall { after: Some(Duration::ZERO), key: Some(key), ..call }).await;
    let CallOrJob::Ended(refused) = called else { panic!("it became a job") };
    assert_eq!(refused.error().unwrap().kind, ErrorKind::Unavailable);
    assert!(end.is_closed(), "the call was started");
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(jobs.find_by_key("a", &key.key).await.unwrap().is_none());
    assert!(store.0.list("a", now()).await.unwrap().is_empty() && jobs.inner.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_caller_leaves_while_its_job_is_created_never_begins() {
    let store = Arc::new(SlowJobs(Arc::default(), Duration::from_secs(1)));
    let jobs = Jobs::new(Arc::clone(&store) as Arc<dyn JobStore>, JobOptions::default());
    let cancelled = CancellationToken::new();
    let (call, end) = call("a", &cancelled);
    let calling = jobs.call(JobCall { after: Some(Duration::ZERO), ..call });
    assert!(tokio::time::timeout(Duration::from_millis(500), calling).await.is_err());
    tokio::time::sleep(Duration::from_secs(5)).await;
    // A call that had begun would have been cancelled.
    assert!(end.is_closed() && !cancelled.is_cancelled());
    assert!(store.0.list("a", now()).await.unwrap().is_empty() && jobs.inner.running().is_empty());
}
