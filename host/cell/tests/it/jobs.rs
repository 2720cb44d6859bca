//! Jobs in a real JetStream, with functions in place of guests: who begins and ends them, and who is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::Store;
use fumehood_cell::{
    CellJobs, CellTools, GatewayOptions, JobQueueOptions, JobRunner, KeptValues, LimitsOf, NodeKey, NodeOptions,
    NodePublicKey, ServerOptions, Worker, WorkerOptions,
};
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Call, CancellationToken};
use fumehood_core::digest::Digest;
use fumehood_core::job::{Job, JobId, JobKey, JobLimits, JobState, JobStore as _, JobStoreError};
use fumehood_core::time::Timestamp;
use fumehood_core::tool::{Tool, ToolProvider};
use futures_util::TryStreamExt as _;
use serde_json::json;

use super::nats::{self, PATIENCE};
use super::test_tools::TestTool;

/// A cell with a queue of jobs, which ends with the test.
struct Cell {
    server: Child,
    url: String,
    folder: tempfile::TempDir,
    keys: BTreeMap<String, NodePublicKey>,
    stop: CancellationToken,
}

impl Cell {
    fn start() -> Option<Self> {
        let program = nats::program()?;
        let folder = tempfile::tempdir().unwrap();
        let port = nats::free_port();
        let mut command = Command::new(program);
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string(), "-js", "-sd"]).arg(folder.path().join("js"));
        let server = nats::spawn(&mut command, port);
        let mut keys = BTreeMap::new();
        for name in ["g1", "g2", "w1", "w2", "stranger"] {
            keys.insert(name.to_owned(), NodeKey::create(&folder.path().join(name)).unwrap().public());
        }
        let url = format!("nats://127.0.0.1:{port}");
        Some(Self { server, url, folder, keys, stop: CancellationToken::new() })
    }

    fn keys_of(&self, letter: char) -> BTreeMap<String, NodePublicKey> {
        let of_role = self.keys.iter().filter(|(name, _)| name.starts_with(letter));
        of_role.map(|(name, key)| (name.clone(), *key)).collect()
    }

    fn node(&self, name: &str, peers: char) -> NodeOptions {
        let server = ServerOptions {
            nats: self.url.clone(),
            prefix: "test".to_owned(),
            name: name.to_owned(),
            password: None,
            tls_roots: None,
            tls_identity: None,
        };
        let key = Arc::new(NodeKey::read(&self.folder.path().join(name)).unwrap());
        NodeOptions { server, key, peers: self.keys_of(peers) }
    }

    fn options(&self) -> JobQueueOptions {
        let gateways = self.keys_of('g');
        let workers = self.keys_of('w');
        JobQueueOptions { gateways, workers, max_queued: 16, keep: Duration::from_secs(600) }
    }

    async fn gateway(&self, name: &str) -> (Arc<CellTools>, CellJobs) {
        let limits: LimitsOf = Arc::new(|_: &Tool| Limits::default().deadline(PATIENCE));
        let local = BTreeSet::new();
        let on_late = Arc::new(|_| {});
        let kept_values = KeptValues::none();
        let options = GatewayOptions { local, retry_repeatable: false, limits, kept_values, on_late };
        let tools = CellTools::join(self.node(name, 'w'), TestTool::waiting(), options).await.unwrap();
        let jobs = CellJobs::open(&tools, self.options()).await.unwrap();
        (Arc::new(tools), jobs)
    }

    async fn worker(&self, name: &str) -> Arc<TestTool> {
        let tools = TestTool::waiting();
        let limits: LimitsOf = Arc::new(|_: &Tool| Limits::default().deadline(PATIENCE));
        let options = WorkerOptions { limits, kept_values: KeptValues::none(), places: 4 };
        let worker = Worker::join(self.node(name, 'g'), Arc::clone(&tools) as _, options).await.unwrap();
        let runner = JobRunner::open(&worker, self.options(), 4).await.unwrap();
        let stop = self.stop.clone();
        tokio::spawn(async move { runner.serve(stop, Duration::ZERO).await });
        tools
    }

    async fn entries(&self) -> Store {
        let client = async_nats::connect(&self.url).await.unwrap();
        async_nats::jetstream::new(client).get_key_value("test-jobs").await.unwrap()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        self.stop.cancel();
        let _gone = self.server.kill();
        let _reaped = self.server.wait();
    }
}

fn job_call(id: u128, ms: u64, cancelled: &CancellationToken) -> Call {
    let mut call = Call::new("test__wait", json!({ "ms": ms }).to_string());
    call.context.job = Some(JobId::from_bits(id));
    call.context.cancelled = Some(cancelled.clone());
    call
}

async fn begin(tools: &Arc<CellTools>, id: u128, ms: u64) -> (tokio::task::JoinHandle<CallResult>, CancellationToken) {
    let tools = Arc::clone(tools);
    let token = CancellationToken::new();
    let call = job_call(id, ms, &token);
    (tokio::spawn(async move { tools.dispatch(call).await }), token)
}

async fn wait_for(store: &Store, key: &str) {
    let began = Instant::now();
    while store.get(key).await.unwrap().is_none() {
        assert!(began.elapsed() < PATIENCE, "never: {key}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn kind(result: &CallResult) -> Option<ErrorKind> {
    result.error().map(|error| error.kind)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_runs_once_and_any_gateway_gets_its_end() {
    let Some(cell) = Cell::start() else { return };
    let (first, _) = cell.gateway("g1").await;
    let (second, _) = cell.gateway("g2").await;
    let (submitted, _) = begin(&first, 1, 300).await;
    let entries = cell.entries().await;
    wait_for(&entries, &format!("job.{}.request", JobId::from_bits(1))).await;
    let (attached, _) = begin(&second, 1, 300).await;
    let one = cell.worker("w1").await;
    let other = cell.worker("w2").await;
    let result = submitted.await.unwrap();
    let same = attached.await.unwrap();
    assert!(result.is_ok() && same.is_ok(), "{result:?} {same:?}");
    assert_eq!(one.ran() + other.ran(), 1);
    // After its end, too.
    let (late, _) = begin(&second, 1, 300).await;
    assert!(late.await.unwrap().is_ok());
    assert_eq!(one.ran() + other.ran(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_job_stops_its_guest_or_never_begins() {
    let Some(cell) = Cell::start() else { return };
    let (gateway, _) = cell.gateway("g1").await;
    let (waiting, token) = begin(&gateway, 1, 0).await;
    let entries = cell.entries().await;
    wait_for(&entries, &format!("job.{}.request", JobId::from_bits(1))).await;
    token.cancel();
    assert_eq!(kind(&waiting.await.unwrap()), Some(ErrorKind::Cancelled));
    let worker = cell.worker("w1").await;
    let (running, token) = begin(&gateway, 2, 60_000).await;
    wait_for(&entries, &format!("job.{}.claim", JobId::from_bits(2))).await;
    let began = Instant::now();
    token.cancel();
    assert_eq!(kind(&running.await.unwrap()), Some(ErrorKind::Cancelled));
    println!("a job was cancelled in {:?}, its result included", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(5));
    // The one that was withdrawn is still in the queue, and does not run.
    assert_eq!(worker.ran(), 1);
}

fn waiting_job(id: u128) -> Job {
    let owner = "a".into();
    let tool = "test__wait".to_owned();
    Job::begin(JobId::from_bits(id), owner, tool, Timestamp(1000), Duration::from_secs(60))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_gateway_cancels_a_job_only_if_it_is_in_the_queue() {
    let Some(cell) = Cell::start() else { return };
    let (gateway, first) = cell.gateway("g1").await;
    let (_, second) = cell.gateway("g2").await;
    for id in [1, 2] {
        first.create(&waiting_job(id), &JobLimits::default()).await.unwrap();
    }
    assert!(!second.cancel(&waiting_job(1)).await.unwrap(), "it runs in the first gateway");
    let (waiting, _) = begin(&gateway, 2, 0).await;
    let entries = cell.entries().await;
    wait_for(&entries, &format!("job.{}.request", JobId::from_bits(2))).await;
    assert!(second.cancel(&waiting_job(2)).await.unwrap());
    assert_eq!(kind(&waiting.await.unwrap()), Some(ErrorKind::Cancelled));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_that_no_worker_signed_for_this_request_counts_for_nothing() {
    let Some(cell) = Cell::start() else { return };
    let (gateway, _) = cell.gateway("g1").await;
    let entries = cell.entries().await;
    let (forged, _) = begin(&gateway, 1, 0).await;
    wait_for(&entries, &format!("job.{}.request", JobId::from_bits(1))).await;
    entries.put(format!("job.{}.end", JobId::from_bits(1)), "{\"id\":\"1\"}".into()).await.unwrap();
    let result = forged.await.unwrap();
    assert!(kind(&result) == Some(ErrorKind::Host) && result.error().unwrap().message.contains("was rejected"));
    // An end of another job, which a worker has signed.
    let _worker = cell.worker("w1").await;
    let (real, _) = begin(&gateway, 2, 0).await;
    assert!(real.await.unwrap().is_ok());
    let end = entries.get(format!("job.{}.end", JobId::from_bits(2))).await.unwrap().unwrap();
    entries.put(format!("job.{}.end", JobId::from_bits(3)), end).await.unwrap();
    let (moved, _) = begin(&gateway, 3, 60_000).await;
    let result = moved.await.unwrap();
    assert!(
        kind(&result) == Some(ErrorKind::Host) && result.error().unwrap().message.contains("another job"),
        "{result:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_of_a_stranger_or_a_changed_one_runs_nothing() {
    let Some(cell) = Cell::start() else { return };
    let (gateway, _) = cell.gateway("g1").await;
    let (stranger, _) = cell.gateway("stranger").await;
    let entries = cell.entries().await;
    let (refused, _) = begin(&stranger, 1, 0).await;
    wait_for(&entries, &format!("job.{}.request", JobId::from_bits(1))).await;
    let (changed, _) = begin(&gateway, 2, 0).await;
    let key = format!("job.{}.request", JobId::from_bits(2));
    wait_for(&entries, &key).await;
    let mut request = entries.get(key.clone()).await.unwrap().unwrap().to_vec();
    let last = request.len() - 70;
    request[last] ^= 1;
    entries.put(key, request.into()).await.unwrap();
    let worker = cell.worker("w1").await;
    let (next, _) = begin(&gateway, 3, 0).await;
    assert!(next.await.unwrap().is_ok());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(worker.ran(), 1);
    assert!(!refused.is_finished() && !changed.is_finished());
}

fn job_of(id: u128, owner: &str, now: Timestamp) -> Job {
    Job::begin(JobId::from_bits(id), owner.into(), "test__wait".to_owned(), now, Duration::from_secs(60))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_those_of_gateways_and_of_their_owner() {
    let Some(cell) = Cell::start() else { return };
    let (_, first) = cell.gateway("g1").await;
    let (_, second) = cell.gateway("g2").await;
    let now = Timestamp(1000);
    let limits = JobLimits { owner_jobs: 2, ..JobLimits::default() };
    first.create(&job_of(1, "a", now), &limits).await.unwrap();
    second.create(&job_of(2, "a", now), &limits).await.unwrap();
    second.create(&job_of(3, "b", now), &limits).await.unwrap();
    assert!(first.create(&job_of(4, "a", now), &limits).await.is_err(), "the owner has as many as it may have");
    let found = second.find("a", JobId::from_bits(1), now).await.unwrap().unwrap();
    assert_eq!(found.state.as_str(), "working");
    assert!(second.find("b", JobId::from_bits(1), now).await.unwrap().is_none());
    assert_eq!((first.list("a", now).await.unwrap().len(), first.list("c", now).await.unwrap().len()), (2, 0));
    let mut ended = job_of(1, "a", now);
    ended.advance(JobState::Cancelled, now);
    first.update(&ended).await.unwrap();
    // An end stays what it is.
    second.update(&Job { state: JobState::interrupted(), ..job_of(1, "a", now) }).await.unwrap();
    assert_eq!(second.find("a", JobId::from_bits(1), now).await.unwrap().unwrap().state.as_str(), "cancelled");
    first.remove("a", JobId::from_bits(2)).await.unwrap();
    assert_eq!(second.list("a", now).await.unwrap().len(), 1);
    // A record that was moved to another owner, and one of a stranger, are none.
    let (_, stranger) = cell.gateway("stranger").await;
    stranger.create(&job_of(5, "a", now), &limits).await.unwrap();
    assert!(first.find("a", JobId::from_bits(5), now).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_all_gateways_one_creates_the_job_of_a_key() {
    let Some(cell) = Cell::start() else { return };
    let (_, first) = cell.gateway("g1").await;
    let (_, second) = cell.gateway("g2").await;
    let now = Timestamp(1000);
    let limits = JobLimits::default();
    let key = JobKey { key: Digest::of(b"k"), request: Digest::of(b"r") };
    let job = |id: u128, owner: &str| {
        let ttl = Duration::from_secs(60);
        Job { key: Some(key), ..Job::begin(JobId::from_bits(id), owner.into(), "test__wait".to_owned(), now, ttl) }
    };
    let one = job(1, "a");
    let other = job(2, "a");
    let (one, other) = tokio::join!(first.create(&one, &limits), second.create(&other, &limits));
    assert_ne!(one.is_ok(), other.is_ok(), "{one:?}, {other:?}");
    assert_eq!(one.and(other), Err(JobStoreError::KeyTaken));
    // What was refused is not there, and the keys of others are their own.
    assert_eq!(first.list("a", now).await.unwrap().len(), 1);
    let entries = cell.entries().await;
    let names: Vec<String> = entries.keys().await.unwrap().try_collect().await.unwrap();
    let name = names.iter().find(|name| name.starts_with("key.")).unwrap().as_str();
    second.create(&job(3, "b"), &limits).await.unwrap();
    let winner = second.find_by_key("a", &key.key, now).await.unwrap().unwrap();
    assert_eq!(first.find_by_key("a", &key.key, now).await.unwrap().map(|job| job.id), Some(winner.id));
    assert!(first.find_by_key("a", &key.request, now).await.unwrap().is_none());
    // The key stays as long as its job, whose state has changed, and is free when that is removed.
    let revision = async || entries.entry(name).await.unwrap().unwrap().revision;
    let before = revision().await;
    let mut ended = winner.clone();
    ended.advance(JobState::Cancelled, now);
    first.update(&ended).await.unwrap();
    assert_ne!(revision().await, before);
    assert_eq!(second.create(&job(4, "a"), &limits).await, Err(JobStoreError::KeyTaken));
    first.remove("a", winner.id).await.unwrap();
    assert!(second.find_by_key("a", &key.key, now).await.unwrap().is_none());
    second.create(&job(5, "a"), &limits).await.unwrap();
    // An entry that names a job without this key, or none, finds nothing.
    let plain = Job { key: None, ..job(6, "a") };
    first.create(&plain, &limits).await.unwrap();
    for value in [plain.id.to_string(), JobId::from_bits(3).to_string(), String::new()] {
        entries.put(name, value.into()).await.unwrap();
        assert!(first.find_by_key("a", &key.key, now).await.unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_was_there_first_takes_jobs() {
    let Some(cell) = Cell::start() else { return };
    let worker = cell.worker("w1").await;
    tokio::time::sleep(Duration::from_millis(600)).await;
    let (gateway, _) = cell.gateway("g1").await;
    let (job, _) = begin(&gateway, 1, 0).await;
    let ended = tokio::time::timeout(Duration::from_secs(10), job).await;
    assert!(ended.is_ok_and(|ended| ended.unwrap().is_ok()));
    assert_eq!(worker.ran(), 1);
}
