//! A gateway and workers in one process with a real NATS server, and functions in place of guests: the price of a call, and
//! who is believed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fumehood_cell::{
    CellTools, DrainState, GatewayOptions, KeptValues, LimitsOf, NodeKey, NodeOptions, Worker, WorkerOptions,
};
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::event::Level;
use fumehood_core::call::limits::Limits;
use fumehood_core::call::result::{CallResult, RequestReport};
use fumehood_core::call::{Call, Observer};
use fumehood_core::tool::{Tool, ToolProvider};
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use serde_json::json;

use super::nats::{Nats, PATIENCE};
use super::test_tools::{TestTool, request_report};

const CALLERS: usize = 16;
const CALLS_OF_EACH: usize = 500;

fn node_options(nats: &Nats, name: &str, key: NodeKey, peer: (&str, &NodeKey)) -> NodeOptions {
    let peers = BTreeMap::from([(peer.0.to_owned(), peer.1.public())]);
    NodeOptions { server: nats.server(name), key: Arc::new(key), peers }
}

fn limits() -> LimitsOf {
    Arc::new(|_: &Tool| Limits::default())
}

pub(crate) fn worker_options(places: usize) -> WorkerOptions {
    WorkerOptions { limits: limits(), kept_values: KeptValues::none(), places }
}

pub(crate) fn gateway_options() -> GatewayOptions {
    GatewayOptions {
        local: BTreeSet::new(),
        retry_repeatable: false,
        limits: limits(),
        kept_values: KeptValues::none(),
        on_late: Arc::new(|_| {}),
    }
}

fn key() -> NodeKey {
    NodeKey::generate().unwrap().0
}

/// Joins a worker and a gateway; each trusts the key that is given for the other.
async fn join(nats: &Nats, gateway: NodeKey, worker: NodeKey, trusted: (&NodeKey, &NodeKey)) -> CellTools {
    join_with(nats, gateway, worker, trusted, TestTool::echo(false, false)).await
}

async fn join_with(
    nats: &Nats,
    gateway: NodeKey,
    worker: NodeKey,
    trusted: (&NodeKey, &NodeKey),
    tools: Arc<TestTool>,
) -> CellTools {
    let options = node_options(nats, "w", worker, ("g", trusted.0));
    let worker = Worker::join(options, tools, worker_options(64)).await.unwrap();
    tokio::spawn(async move { worker.serve(std::future::pending::<()>(), Duration::ZERO).await });
    let options = node_options(nats, "g", gateway, ("w", trusted.1));
    CellTools::join(options, TestTool::echo(false, false), gateway_options()).await.unwrap()
}

/// Returns a key twice: for its owner, and for the other one to know.
fn shared_key(folder: &tempfile::TempDir, name: &str) -> (NodeKey, NodeKey) {
    let file = folder.path().join(name);
    let made = NodeKey::create(&file).unwrap();
    (made, NodeKey::read(&file).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_price_of_a_call_beside_bare_requests() {
    let Some(nats) = Nats::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (gateway, known_gateway) = shared_key(&folder, "g");
    let (worker, known_worker) = shared_key(&folder, "w");
    let tools = join(&nats, gateway, worker, (&known_gateway, &known_worker)).await;
    assert!(tools.wait_for_workers(PATIENCE).await);
    let arguments = json!({"text": "x".repeat(1000)}).to_string();
    let began = Instant::now();
    let mut times: Vec<Duration> = join_all((0..CALLERS).map(|_| async {
        let mut times = Vec::new();
        for _ in 0..CALLS_OF_EACH {
            let began = Instant::now();
            let result = tools.dispatch(Call::new("test__echo", arguments.clone())).await;
            assert!(result.is_ok(), "{result:?}");
            times.push(began.elapsed());
        }
        times
    }))
    .await
    .concat();
    report("cell", began.elapsed(), &mut times);
    let client = async_nats::connect(nats.url()).await.unwrap();
    let mut requests = async_nats::connect(nats.url()).await.unwrap().subscribe("bare").await.unwrap();
    let answers = async_nats::connect(nats.url()).await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            answers.publish(request.reply.unwrap(), request.payload).await.unwrap();
        }
    });
    client.flush().await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    let mut times: Vec<Duration> = join_all((0..CALLERS).map(|_| async {
        let mut times = Vec::new();
        for _ in 0..CALLS_OF_EACH {
            let began = Instant::now();
            client.request("bare", arguments.clone().into()).await.unwrap();
            times.push(began.elapsed());
        }
        times
    }))
    .await
    .concat();
    report("bare NATS", began.elapsed(), &mut times);
}

fn report(what: &str, took: Duration, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    let rate = times.len() as f64 / took.as_secs_f64();
    println!("{what}: {rate:.0} calls/s of {CALLERS} callers, p50 {:?}, p99 {:?}", at(50), at(99));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_acts_upon_a_message_of_another_key() {
    let Some(nats) = Nats::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    // The worker knows another key of the gateway: it answers no exchange of keys, and so it gets no call.
    let (worker, known_worker) = shared_key(&folder, "w");
    let tools = join(&nats, key(), worker, (&key(), &known_worker)).await;
    assert!(!tools.wait_for_workers(Duration::from_millis(800)).await);
    let result = tools.dispatch(Call::new("test__echo", "{}")).await;
    assert_eq!(result.error().unwrap().kind, ErrorKind::Unavailable);
    // The gateway knows another key of the worker: there is no worker.
    let folder = tempfile::tempdir().unwrap();
    let (gateway, known_gateway) = shared_key(&folder, "g");
    let tools = join(&nats, gateway, key(), (&known_gateway, &key())).await;
    assert!(!tools.wait_for_workers(Duration::from_millis(800)).await);
    let result = tools.dispatch(Call::new("test__echo", "{}")).await;
    assert_eq!(result.error().unwrap().kind, ErrorKind::Unavailable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_recorded_and_is_sent_again_changes_nothing() {
    let Some(nats) = Nats::start() else { return };
    let recorder = async_nats::connect(nats.url()).await.unwrap();
    let mut bus = recorder.subscribe("test.>").await.unwrap();
    recorder.flush().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (gateway, known_gateway) = shared_key(&folder, "g");
    let (worker, known_worker) = shared_key(&folder, "w");
    let echo = TestTool::echo(false, false);
    let tools = join_with(&nats, gateway, worker, (&known_gateway, &known_worker), Arc::clone(&echo)).await;
    assert!(tools.wait_for_workers(PATIENCE).await);
    for _ in 0..10 {
        assert!(tools.dispatch(Call::new("test__echo", "{}")).await.is_ok());
    }
    let mut recorded = Vec::new();
    while let Ok(Some(message)) = tokio::time::timeout(Duration::from_millis(300), bus.next()).await {
        recorded.push(message);
        if recorded.len() > 2 * 10 + 20 {
            break;
        }
    }
    let to = |subject: &str| recorded.iter().filter(|message| &*message.subject == subject).count();
    assert!(to("test.worker.w") > 10 && to("test.gateway.g") > 10 && to("test.workers") > 0, "{recorded:?}");
    for _ in 0..3 {
        for message in &recorded {
            recorder.publish(message.subject.clone(), message.payload.clone()).await.unwrap();
        }
        recorder.flush().await.unwrap();
        let answered = tools.dispatch(Call::new("test__echo", "{}")).await;
        assert!(answered.is_ok(), "{answered:?}");
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!((echo.ran(), tools.workers()), (13, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_was_told_to_end_is_waited_for() {
    let Some(nats) = Nats::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (gateway, known_gateway) = shared_key(&folder, "g");
    let (worker, known_worker) = shared_key(&folder, "w");
    let worker = Worker::join(
        node_options(&nats, "w", worker, ("g", &known_gateway)),
        TestTool::echo(false, false),
        worker_options(4),
    )
    .await
    .unwrap();
    let serving = tokio::spawn({
        let worker = worker.clone();
        async move { worker.serve(worker.told_to_drain(), PATIENCE).await }
    });
    let cell = CellTools::join_without_tools(node_options(&nats, "g", gateway, ("w", &known_worker))).await.unwrap();
    assert!(cell.drain("nobody", PATIENCE, |_| {}).await.is_err());
    let mut states = Vec::new();
    cell.drain("w", PATIENCE, |state| states.push(state)).await.unwrap();
    assert_eq!(states.last(), Some(&DrainState::Gone));
    assert!(states.contains(&DrainState::Running(0)), "{states:?}");
    serving.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_ends_interrupts_its_calls() {
    let Some(nats) = Nats::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (gateway, known_gateway) = shared_key(&folder, "g");
    let (worker, known_worker) = shared_key(&folder, "w");
    let waiting = TestTool::waiting();
    let options = node_options(&nats, "w", worker, ("g", &known_gateway));
    let worker = Worker::join(options, Arc::<TestTool>::clone(&waiting), worker_options(4)).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(async move { worker.serve(stopped, Duration::from_millis(50)).await });
    let options = node_options(&nats, "g", gateway, ("w", &known_worker));
    let tools = CellTools::join(options, TestTool::waiting(), gateway_options()).await.unwrap();
    assert!(tools.wait_for_workers(PATIENCE).await);
    let calling = async { tools.dispatch(Call::new("test__wait", json!({"ms": 20_000}).to_string())).await };
    let stopping = async {
        while waiting.ran() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stop.send(()).unwrap();
    };
    let (answer, ()) = tokio::join!(calling, stopping);
    let error = answer.error().unwrap();
    assert_eq!(error.kind, ErrorKind::Interrupted, "{error}");
    assert!(error.to_string().contains("`w` was shut down"), "{error}");
    serving.await.unwrap().unwrap();
}

/// Calls a tool at a worker that is lost meanwhile, where another worker has it as well. Returns the answer, and whether the
/// other worker ran it.
async fn call_at_a_worker_that_is_lost(
    nats: &Nats,
    is_idempotent: bool,
    retry_repeatable: bool,
) -> (CallResult, usize) {
    let folder = tempfile::tempdir().unwrap();
    let (gateway, known_gateway) = shared_key(&folder, "g");
    let (first, known_first) = shared_key(&folder, "a");
    let (second, known_second) = shared_key(&folder, "b");
    let stalling = TestTool::echo(is_idempotent, true);
    let lost = Worker::join(
        node_options(nats, "a", first, ("g", &known_gateway)),
        Arc::<TestTool>::clone(&stalling),
        worker_options(4),
    )
    .await
    .unwrap();
    let lost = tokio::spawn(async move { lost.serve(std::future::pending::<()>(), Duration::ZERO).await });
    let mut options = node_options(nats, "g", gateway, ("a", &known_first));
    options.peers.insert("b".to_owned(), known_second.public());
    let echo = TestTool::echo(is_idempotent, false);
    let tools = CellTools::join(
        options,
        Arc::<TestTool>::clone(&echo),
        GatewayOptions { retry_repeatable, ..gateway_options() },
    );
    let tools = tools.await.unwrap();
    assert!(tools.wait_for_workers(PATIENCE).await);
    let calling = async { tools.dispatch(Call::new("test__echo", "{}")).await };
    let losing = async {
        while stalling.ran() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let options = node_options(nats, "b", second, ("g", &known_gateway));
        let other = Worker::join(options, Arc::<TestTool>::clone(&echo), worker_options(4)).await.unwrap();
        tokio::spawn(async move { other.serve(std::future::pending::<()>(), Duration::ZERO).await });
        while tools.workers() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        lost.abort();
    };
    let (answer, ()) = tokio::join!(calling, losing);
    (answer, echo.ran())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_repeated_elsewhere_only_where_tool_and_operator_allow_it() {
    let Some(nats) = Nats::start() else { return };
    for (is_idempotent, retry_repeatable) in [(true, true), (true, false), (false, true)] {
        let (answer, ran) = call_at_a_worker_that_is_lost(&nats, is_idempotent, retry_repeatable).await;
        if is_idempotent && retry_repeatable {
            assert!(answer.is_ok() && ran == 1, "{answer:?}");
        } else {
            let error = answer.error().unwrap();
            assert_eq!((error.kind, ran), (ErrorKind::Interrupted, 0), "{error}");
            assert!(error.to_string().contains("had started"), "{error}");
        }
    }
}

/// An observer that keeps what it hears.
#[derive(Default)]
struct RecordingObserver(Mutex<(Vec<String>, Vec<RequestReport>)>);

impl Observer for RecordingObserver {
    fn log(&self, _: Level, message: &str) {
        self.0.lock().unwrap().0.push(message.to_owned());
    }

    fn request(&self, request: RequestReport) {
        self.0.lock().unwrap().1.push(request);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_guest_does_at_a_worker_is_heard_at_the_gateway() {
    let Some(nats) = Nats::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (gateway, known_gateway) = shared_key(&folder, "g");
    let (worker, known_worker) = shared_key(&folder, "w");
    let tools = join(&nats, gateway, worker, (&known_gateway, &known_worker)).await;
    assert!(tools.wait_for_workers(PATIENCE).await);
    let heard = Arc::new(RecordingObserver::default());
    let mut call = Call::new("test__echo", "{}");
    call.context.observer = Some(Arc::<RecordingObserver>::clone(&heard));
    call.context.actor = Some("somebody".into());
    assert!(tools.dispatch(call).await.is_ok());
    // All of it has arrived before the call ended.
    assert_eq!(*heard.0.lock().unwrap(), (vec!["heard".to_owned()], vec![request_report()]));
}
