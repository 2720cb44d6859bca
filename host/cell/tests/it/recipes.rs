//! The configuration of the NATS server that is shipped: with its users, calls work, and each says and hears no more than it may.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions, Event};
use fumehood_cell::{
    CellJobs, CellTools, ComponentStore, JobQueueOptions, JobRunner, NatsCounters, NatsStore, NodeKey, NodeOptions,
    NodePublicKey, ServerOptions, Worker,
};
use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::{Call, CancellationToken};
use fumehood_core::digest::Digest;
use fumehood_core::job::{Job, JobId, JobLimits, JobStore as _};
use fumehood_core::key_value::{Key, KeyValueStore as _};
use fumehood_core::time::Timestamp;
use fumehood_core::tool::ToolProvider as _;
use fumehood_core::tool::name::Namespace;
use futures_util::StreamExt as _;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::bus::{gateway_options, worker_options};
use super::nats::{self, PATIENCE};
use super::test_tools::TestTool;

const USERS: [&str; 3] = ["gateway-1", "worker-1", "worker-2"];

/// A server with `release/cell/nats.conf`, of which the address and the folders alone are others.
struct Recipe {
    folder: tempfile::TempDir,
    port: u16,
    server: Child,
}

fn password(user: &str) -> String {
    format!("secret of {user}")
}

impl Recipe {
    fn start() -> Option<Self> {
        let program = nats::program()?;
        let folder = tempfile::tempdir().unwrap();
        let port = nats::free_port();
        nats::create_certificate(folder.path(), "server");
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../release/cell/nats.conf");
        let mut conf = std::fs::read_to_string(shipped).unwrap();
        let here = folder.path().display().to_string();
        let address = format!("127.0.0.1:{port}");
        for (place, with) in [("0.0.0.0:4222", &address), ("/etc/nats", &here), ("/var/lib/nats", &here)] {
            assert!(conf.contains(place), "the recipe has no `{place}`");
            conf = conf.replace(place, with);
        }
        let file = folder.path().join("nats.conf");
        std::fs::write(&file, conf).unwrap();
        let mut command = Command::new(program);
        command.arg("--config").arg(file);
        for user in USERS {
            let variable = format!("{}_PASSWORD", user.to_uppercase().replace('-', "_"));
            command.env(variable, format!("{:?}", password(user)));
        }
        let server = nats::spawn(&mut command, port);
        Some(Self { folder, port, server })
    }

    fn url(&self) -> String {
        format!("tls://localhost:{}", self.port)
    }

    /// Returns the way of a user to the server, as the documentation has it in [cell].
    fn server(&self, user: &str) -> ServerOptions {
        ServerOptions {
            nats: self.url(),
            prefix: "fumehood".to_owned(),
            name: user.to_owned(),
            password: Some((user.to_owned(), password(user))),
            tls_roots: Some(self.folder.path().join("server.pem")),
            tls_identity: None,
        }
    }

    /// Connects as a user. Returns what the server complains about as well.
    async fn connect(&self, user: &str) -> (Client, UnboundedReceiver<String>) {
        let (complaint, complaints) = unbounded_channel();
        let options = ConnectOptions::new()
            .user_and_password(user.to_owned(), password(user))
            .add_root_certificates(self.folder.path().join("server.pem"))
            .custom_inbox_prefix(format!("fumehood.inbox.{user}"))
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    let _nobody_listens = complaint.send(error.to_string());
                }
                std::future::ready(())
            });
        (options.connect(self.url()).await.unwrap(), complaints)
    }
}

impl Drop for Recipe {
    fn drop(&mut self) {
        let _gone = self.server.kill();
        let _reaped = self.server.wait();
    }
}

/// The keys of the users.
struct Keys(BTreeMap<&'static str, Arc<NodeKey>>);

impl Keys {
    fn create(recipe: &Recipe) -> Self {
        let create = |user| NodeKey::create(&recipe.folder.path().join(format!("{user}.key"))).unwrap();
        Self(USERS.map(|user| (user, Arc::new(create(user)))).into())
    }

    fn public(&self, users: &[&str]) -> BTreeMap<String, NodePublicKey> {
        users.iter().map(|user| ((*user).to_owned(), self.0[user].public())).collect()
    }

    fn node(&self, recipe: &Recipe, user: &str, others: &[&str]) -> NodeOptions {
        NodeOptions { server: recipe.server(user), key: Arc::clone(&self.0[user]), peers: self.public(others) }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_the_recipe_run_jobs() {
    let Some(recipe) = Recipe::start() else { return };
    let keys = Keys::create(&recipe);
    let gateway = USERS[0];
    let workers = &USERS[1..];
    let options = || JobQueueOptions {
        gateways: keys.public(&[gateway]),
        workers: keys.public(workers),
        max_queued: 16,
        keep: PATIENCE,
    };
    let guest = TestTool::waiting();
    let stop = CancellationToken::new();
    let tools =
        CellTools::join(keys.node(&recipe, gateway, workers), Arc::<TestTool>::clone(&guest), gateway_options());
    let tools = Arc::new(tools.await.unwrap());
    let jobs = CellJobs::open(&tools, options()).await.unwrap();
    // Each worker by itself, so that each takes a job.
    for (number, worker) in (1..).zip(workers) {
        let node = keys.node(&recipe, worker, &[gateway]);
        let joined = Worker::join(node, Arc::<TestTool>::clone(&guest), worker_options(1)).await.unwrap();
        let runner = JobRunner::open(&joined, options(), 1).await.unwrap();
        let stop = stop.child_token();
        let serving = tokio::spawn({
            let stop = stop.clone();
            async move { runner.serve(stop, Duration::ZERO).await }
        });
        let run = async |id: u128, ms: u64| {
            let mut call = Call::new("test__wait", format!("{{\"ms\": {ms}}}"));
            let cancelled = CancellationToken::new();
            call.context.job = Some(JobId::from_bits(id));
            call.context.cancelled = Some(cancelled.clone());
            let before = guest.ran();
            let cancel = async {
                while ms > 0 && guest.ran() == before {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                if ms > 0 {
                    cancelled.cancel()
                }
            };
            tokio::time::timeout(PATIENCE, async { tokio::join!(tools.dispatch(call), cancel).0 }).await.unwrap()
        };
        let ended = run(number * 10, 0).await;
        assert!(ended.is_ok(), "{worker}: {ended:?}");
        let cancelled = run(number * 10 + 1, 60_000).await;
        assert_eq!(cancelled.error().map(|error| error.kind), Some(ErrorKind::Cancelled), "{worker}");
        stop.cancel();
        serving.await.unwrap();
    }
    assert_eq!(guest.ran(), 4);
    let now = Timestamp(1000);
    let job = Job::begin(JobId::from_bits(1), "owner".into(), "test__wait".to_owned(), now, PATIENCE);
    jobs.create(&job, &JobLimits::default()).await.unwrap();
    assert_eq!(jobs.list("owner", now).await.unwrap().len(), 1);
    jobs.remove("owner", JobId::from_bits(1)).await.unwrap();
    assert!(jobs.list("owner", now).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_of_the_recipe_run_calls() {
    let Some(recipe) = Recipe::start() else { return };
    let keys = Keys::create(&recipe);
    let gateway = USERS[0];
    let workers = &USERS[1..];
    let mut guests = Vec::new();
    for worker in workers {
        let guest = TestTool::echo(false, false);
        let joined =
            Worker::join(keys.node(&recipe, worker, &[gateway]), Arc::<TestTool>::clone(&guest), worker_options(1));
        let joined = joined.await.unwrap();
        tokio::spawn(async move { joined.serve(std::future::pending::<()>(), Duration::ZERO).await });
        guests.push(guest);
    }
    let node = keys.node(&recipe, gateway, workers);
    let tools = CellTools::join(node, TestTool::echo(false, false), gateway_options()).await.unwrap();
    assert!(tools.wait_for_workers(PATIENCE).await);
    let began = Instant::now();
    while guests.iter().any(|guest| guest.ran() == 0) {
        let result = tools.dispatch(Call::new("test__echo", r#"{"text": "hello"}"#)).await;
        assert!(result.is_ok(), "{result:?}");
        assert!(began.elapsed() < PATIENCE, "one of the workers gets no call");
    }
    // What JetStream is for, with the same users.
    let owner = Namespace::parse("notes").unwrap();
    let name = Key::parse("milk").unwrap();
    let stores = USERS.map(|user| NatsStore::new(recipe.server(user)));
    tokio::task::spawn_blocking(move || {
        for (number, store) in stores.iter().enumerate() {
            store.set(&owner, &name, &[u8::try_from(number).unwrap()], 1 << 20, PATIENCE).unwrap();
            assert!(stores.iter().all(|other| other.get(&owner, &name, PATIENCE).unwrap().is_some()));
        }
    })
    .await
    .unwrap();
    assert!(ComponentStore::new(recipe.server(gateway)).push(b"a component").await.unwrap());
    let fetched = ComponentStore::new(recipe.server(workers[1])).fetch(Digest::of(b"a component")).await.unwrap();
    assert_eq!(fetched, b"a component");
    let counters = NatsCounters::new(recipe.server(gateway));
    assert_eq!(counters.take("acme", "calls_per_day", 1, 16, 1).await.unwrap(), (1, 1));
}

async fn check_publish(recipe: &Recipe, user: &str, subject: &str, may: bool) {
    let (client, mut complaints) = recipe.connect(user).await;
    client.publish(subject.to_owned(), "forged".into()).await.unwrap();
    // The answer to a request comes after the complaint about what was published before it.
    client.flush().await.unwrap();
    let complaint = tokio::time::timeout(if may { Duration::from_millis(200) } else { PATIENCE }, complaints.recv());
    let complaint = complaint.await.ok().flatten().map(|text| text.to_lowercase());
    let expected = format!("permissions violation for publish to \"{}\"", subject.to_lowercase());
    if may {
        assert_eq!(complaint, None, "{user} {subject}")
    } else {
        assert!(complaint.is_some_and(|text| text.contains(&expected)), "{user} {subject}")
    }
}

#[tokio::test]
async fn users_of_the_recipe_publish_where_they_may() {
    let Some(recipe) = Recipe::start() else { return };
    let tools = "$JS.API.STREAM.DELETE.KV_fumehood-tools";
    for worker in &USERS[1..] {
        check_publish(&recipe, "gateway-1", &format!("fumehood.worker.{worker}"), true).await;
        check_publish(&recipe, worker, "fumehood.gateway.gateway-1", true).await;
        check_publish(&recipe, worker, "fumehood.workers", true).await;
        // A worker gives no work, pushes no component, counts no budget, and removes no store.
        for subject in ["fumehood.worker.worker-1", "fumehood.worker.worker-2", "fumehood.inbox.gateway-1.1", tools] {
            check_publish(&recipe, worker, subject, false).await;
        }
        // Nor does it queue a job, stop that of another, or remove what is known of one.
        let purge = "$JS.API.STREAM.PURGE.KV_fumehood-jobs";
        let entries = ["$KV.fumehood-jobs.owner.1.2", "$KV.fumehood-jobs.key.1.2", "$KV.fumehood-jobs.job.1.request"];
        let orders = ["fumehood.jobs.queue.1", "fumehood.jobs.cancel", "$JS.API.STREAM.UPDATE.fumehood-jobs", purge];
        for subject in entries.into_iter().chain(orders) {
            check_publish(&recipe, worker, subject, false).await;
        }
        for bucket in ["components", "budgets"] {
            check_publish(&recipe, worker, &format!("$KV.fumehood-{bucket}.key"), false).await;
        }
    }
    for subject in ["fumehood.gateway.gateway-1", "fumehood.workers", "fumehood.inbox.worker-1.1", "other", tools] {
        check_publish(&recipe, "gateway-1", subject, false).await;
    }
}

#[tokio::test]
async fn users_of_the_recipe_hear_their_own_messages() {
    let Some(recipe) = Recipe::start() else { return };
    let (listener, mut complaints) = recipe.connect("worker-1").await;
    let foreign = ["fumehood.worker.worker-2", "fumehood.gateway.gateway-1", "fumehood.inbox.gateway-1.>", ">"];
    for subject in foreign {
        let _heard_nothing = listener.subscribe(subject).await.unwrap();
        let complaint = tokio::time::timeout(PATIENCE, complaints.recv()).await.unwrap().unwrap();
        assert!(complaint.to_lowercase().contains("permissions violation for subscription"), "{subject}: {complaint}");
    }
    let mut own = listener.subscribe("fumehood.worker.worker-1").await.unwrap();
    listener.flush().await.unwrap();
    let (gateway, _complaints) = recipe.connect("gateway-1").await;
    gateway.publish("fumehood.worker.worker-1", "work".into()).await.unwrap();
    let heard = tokio::time::timeout(PATIENCE, own.next()).await.unwrap().unwrap();
    assert_eq!(heard.payload, "work");
    // Without the right password nobody is let in, and without the certificate nobody says it.
    let wrong = ConnectOptions::new()
        .user_and_password("worker-1".to_owned(), "guess".to_owned())
        .add_root_certificates(recipe.folder.path().join("server.pem"));
    assert!(wrong.connect(recipe.url()).await.is_err());
    let stranger = ConnectOptions::new().user_and_password("worker-1".to_owned(), password("worker-1"));
    assert!(stranger.connect(recipe.url()).await.is_err());
}
