//! Keys of jobs: a request that is sent again gets the job that there is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::digest::Digest;
use fumehood_core::job::{Job, JobId, JobLimits, JobStore, JobStoreError, MemoryJobs};
use fumehood_core::time::Timestamp;
use fumehood_server::{JobOptions, Jobs};

use super::api_server::{OTHER, PATIENCE};
use super::jobs::{ASYNC, end_of, list, serve, served};

#[tokio::test]
async fn a_key_stands_for_one_job() {
    let served = served().await;
    let keyed = [ASYNC, ("Idempotency-Key", "one")];
    let first = served.call("wait", &keyed, "{}").await;
    served.tools.started(1).await;
    let again = served.call("wait", &keyed, "{}").await;
    assert_eq!((first.status, again.status), (202, 202));
    for header in ["location", "preference-applied", "retry-after"] {
        assert_eq!(first.header(header), again.header(header), "{header}");
    }
    assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), ("", "true"));
    served.call("wait", &keyed, r#"{"other": 1}"#).await.check_problem(422);
    assert_eq!(list(&served, "").await.len(), 1);
    // It is the job of a client that does not wait for it, too.
    let patient = [("Prefer", "respond-async, wait=1"), ("Idempotency-Key", "two")];
    let slow = served.call("wait", &patient, "{}").await;
    let began = Instant::now();
    let again = served.call("wait", &patient, "{}").await;
    assert_eq!((slow.status, slow.header("location")), (202, again.header("location")));
    assert!(began.elapsed() >= Duration::from_secs(1), "the second request waits, too");
    served.end().await;
}

#[tokio::test]
async fn a_key_of_a_job_answers_with_its_present_state() {
    let served = served().await;
    let keyed = [ASYNC, ("Idempotency-Key", "one")];
    let first = served.call("wait", &keyed, "{}").await;
    served.tools.started(1).await;
    let path = first.header("location");
    served.send("DELETE", path, &[], "").await;
    end_of(&served, path).await;
    let again = served.call("wait", &keyed, "{}").await;
    assert_eq!((again.status, again.header("location")), (202, path));
    assert_eq!(again.json()["status"], "cancelled");
    let patient = [("Prefer", "respond-async, wait=20"), keyed[1]];
    assert_eq!(served.call("wait", &patient, "{}").await.check_problem(503)["kind"], "cancelled");
    // A job that is removed frees its key.
    assert_eq!(served.send("DELETE", path, &[], "").await.status, 204);
    let next = served.call("wait", &keyed, "{}").await;
    assert_eq!((next.status, next.header("idempotent-replayed")), (202, ""), "{next:?}");
    assert_ne!(next.header("location"), path);
    served.end().await;
}

#[tokio::test]
async fn a_key_of_a_job_holds_for_every_form_of_the_request() {
    let jobs = Jobs::new(Arc::new(MemoryJobs::default()), JobOptions { after: PATIENCE, ..JobOptions::default() });
    let first = serve(jobs.clone()).await;
    let second = serve(jobs).await;
    let key = ("Idempotency-Key", "one");
    let begun = first.call("wait", &[ASYNC, key], "{}").await;
    first.tools.started(1).await;
    let path = begun.header("location").to_owned();
    let events = second.call("wait", &[key, ("Accept", "text/event-stream")], "{}").await;
    let problem = events.check_problem(409);
    assert!(problem["detail"].as_str().unwrap().contains(&path), "{problem}");
    assert_eq!((events.header("location"), events.header("idempotent-replayed")), (path.as_str(), "true"));
    second.call("wait", &[key], r#"{"other": 1}"#).await.check_problem(422);
    // It waits for the end of the job, as a call would.
    let stop = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        first.send("DELETE", &path, &[], "").await
    };
    let plain = [key];
    let (waited, stopped) = tokio::join!(second.call("wait", &plain, "{}"), stop);
    assert_eq!((stopped.status, waited.header("location")), (202, path.as_str()));
    assert_eq!(waited.check_problem(503)["kind"], "cancelled");
    let started = second.tools.started.load(Ordering::SeqCst);
    assert_eq!((started, list(&first, "").await.len()), (0, 1), "it ran twice");
    first.end().await;
    second.end().await;
}

#[tokio::test]
async fn a_key_holds_for_as_long_as_its_job() {
    let jobs = Jobs::new(Arc::new(MemoryJobs::default()), JobOptions { after: PATIENCE, ..JobOptions::default() });
    let first = serve(jobs.clone()).await;
    let second = serve(jobs).await;
    let keyed = [("Prefer", "respond-async, wait=20"), ("Idempotency-Key", "one")];
    let ended = first.call("echo", &keyed, r#"{"a": 1}"#).await;
    assert_eq!((ended.status, list(&first, "").await.len()), (200, 1), "it is a job before it runs: {ended:?}");
    // A server that was started again, or another gateway of a cell.
    let again = second.call("echo", &keyed, r#"{"a": 1}"#).await;
    assert_eq!((again.status, again.header("idempotent-replayed")), (200, "true"), "{again:?}");
    assert_eq!(again.json(), ended.json());
    assert_eq!(again.header("location"), format!("/v1/jobs/{}", list(&second, "").await[0]));
    assert_eq!(ended.header("location"), again.header("location"), "a job whose end was waited for can be removed");
    let brief = second.call("echo", &[ASYNC, keyed[1]], r#"{"a": 1}"#).await;
    assert_eq!((brief.status, &brief.json()["result"]), (202, &ended.json()), "it has the result, if there is one");
    second.call("echo", &keyed, r#"{"a": 2}"#).await.check_problem(422);
    let bearer = format!("Bearer {OTHER}");
    let stranger = [keyed[0], keyed[1], ("Authorization", bearer.as_str())];
    assert_eq!(second.call("echo", &stranger, r#"{"a": 2}"#).await.status, 200, "keys of others are not known");
    assert_eq!(second.send("DELETE", again.header("location"), &[], "").await.status, 204);
    first.end().await;
    second.end().await;
}

/// A store that another process shares, which creates the job of the first key just after this one has looked for it.
#[derive(Debug, Default)]
struct RacedJobs(Arc<MemoryJobs>, AtomicBool);

impl JobStore for RacedJobs {
    fn create<'a>(&'a self, job: &'a Job, limits: &'a JobLimits) -> BoxFuture<'a, Result<(), JobStoreError>> {
        self.0.create(job, limits)
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
        if self.1.swap(true, Ordering::SeqCst) {
            self.0.find_by_key(owner, key, now)
        } else {
            Box::pin(async { Ok(None) })
        }
    }

    fn list<'a>(&'a self, owner: &'a str, now: Timestamp) -> BoxFuture<'a, Result<Vec<Job>, JobStoreError>> {
        self.0.list(owner, now)
    }

    fn remove<'a>(&'a self, owner: &'a str, id: JobId) -> BoxFuture<'a, Result<(), JobStoreError>> {
        self.0.remove(owner, id)
    }
}

#[tokio::test]
async fn of_two_first_requests_of_a_key_one_runs_and_the_other_finds_its_job() {
    let store = Arc::new(MemoryJobs::default());
    let options = JobOptions { after: PATIENCE, ..JobOptions::default() };
    let first = serve(Jobs::new(Arc::clone(&store) as Arc<dyn JobStore>, options.clone())).await;
    let second = serve(Jobs::new(Arc::new(RacedJobs(store, AtomicBool::new(false))), options)).await;
    let keyed = [ASYNC, ("Idempotency-Key", "one")];
    let begun = first.call("wait", &keyed, "{}").await;
    first.tools.started(1).await;
    let late = second.call("wait", &keyed, "{}").await;
    let problem = late.check_problem(503);
    assert!(problem["detail"].as_str().unwrap().contains("it was not started again"), "{problem}");
    assert_eq!((late.header("retry-after"), late.header("idempotent-replayed")), ("1", ""));
    let again = second.call("wait", &keyed, "{}").await;
    assert_eq!((again.status, again.header("location")), (202, begun.header("location")));
    assert_eq!(second.tools.started.load(Ordering::SeqCst), 0, "it ran twice");
    first.end().await;
    second.end().await;
}
