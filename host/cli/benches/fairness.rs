//! Fairness between tenants over HTTP: one sends a hundred times its share, and the latency of the other is measured with and
//! without it. Clients run on the same machine, so that they take processors from the server and from each other. What that does is
//! measured, too: with the same requests to a second server, each tenant has a server of its own.
//!
//! `cargo bench -p fumehood-cli --bench fairness`; with `-- processors` one of them alone. There are two places for calls, and for programs
//! as many as `fumehood serve` has: each of them keeps its place for a tenth of a second.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops by panicking"
)]

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fumehood::agent::agent::SystemClock;
use fumehood::agent::code::{CodeMode, CodeProvider};
use fumehood::event_log::{EventLog, Options};
use fumehood::http_api::{Api, ApiOptions};
use fumehood::listener::{Access, HttpOptions, Listener, Tenant, TenantLimits, TenantTools, Token, UsageLedger};
use fumehood::record::Recorder;
use fumehood::{CallLog, CallLogOptions, Host, Load, Stack, ToolProvider};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// Number of calls of the measured tenant in one measurement: it calls one after the other.
const CALLS: usize = 1_000;
/// Number of alternating measurements.
const ROUNDS: usize = 5;
/// Number of places for calls, of which each of two tenants has half as its share.
const FEW_PLACES: usize = 2;
/// Number of places for calls in `fumehood serve`.
const MANY_PLACES: usize = 32;
/// Number of connections of the other tenant: a hundred times its share of the places.
const GREEDY_CONNECTIONS: usize = 100;
/// Requests of the other tenant in a second that are its share, where it has one.
const SHARE_PER_SECOND: u32 = 100;
const MAX_WAITING: usize = 1024;
const MODEST: &str = "token-of-the-modest-one";
const GREEDY: &str = "token-of-the-greedy-one";

/// A program that makes a call about every millisecond.
const PROGRAM: &str = "let sum = 0; for (let at = 0; at < 90; at++) { \
    await tools.calculator.add({a: 1, b: 2}); for (let turn = 0; turn < 12000; turn++) sum += turn } return sum";

/// A thing that the other tenant takes too much of.
struct Scenario {
    name: &'static str,
    tool: &'static str,
    body: String,
    /// The tool and the arguments of the other tenant, if it calls another one.
    greedy: Option<(&'static str, String)>,
    /// Requests a second that the other tenant may make.
    rate: Option<u32>,
    places: usize,
    /// True if calls are in an event log, for which they wait.
    is_recorded: bool,
    /// Pause of each connection of the other tenant between two calls.
    pause: Duration,
}

fn scenarios() -> [Scenario; 5] {
    let text = format!(r#"{{"text":"{}"}}"#, "lorem ipsum ".repeat(85));
    let pause = Duration::from_secs(1) * u32::try_from(GREEDY_CONNECTIONS).unwrap() / (SHARE_PER_SECOND * 100);
    let wait = r#"{"from":1,"step_ms":10}"#.to_owned();
    [
        Scenario {
            name: "places, by calls that wait 10 ms",
            tool: "countdown__countdown",
            body: wait,
            greedy: None,
            rate: None,
            places: FEW_PLACES,
            is_recorded: false,
            pause: Duration::ZERO,
        },
        Scenario {
            name: "requests, above a limit",
            tool: "echo__echo",
            body: text.clone(),
            greedy: None,
            rate: Some(SHARE_PER_SECOND),
            places: FEW_PLACES,
            is_recorded: false,
            pause,
        },
        Scenario {
            name: "processors, without a limit",
            tool: "echo__echo",
            body: text.clone(),
            greedy: None,
            rate: None,
            places: FEW_PLACES,
            is_recorded: false,
            pause: Duration::ZERO,
        },
        Scenario {
            name: "programs, which call after each millisecond",
            tool: "echo__echo",
            body: text.clone(),
            greedy: Some(("run_code", format!(r#"{{"code":"{PROGRAM}"}}"#))),
            rate: None,
            places: MANY_PLACES,
            is_recorded: false,
            pause: Duration::ZERO,
        },
        Scenario {
            name: "records, of eight kilobytes",
            tool: "echo__echo",
            body: text,
            greedy: Some(("echo__echo", format!(r#"{{"text":"{}"}}"#, "x".repeat(8 << 10)))),
            rate: None,
            places: MANY_PLACES,
            is_recorded: true,
            pause: Duration::ZERO,
        },
    ]
}

fn tenant(name: &str, token: &str) -> Tenant {
    Tenant::new(name, &Token::parse(token).unwrap()).actor(name)
}

async fn start(scenario: &Scenario, folder: &Path) -> SocketAddr {
    let host = Host::builder().concurrency(64).queue(1024).build().unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/countdown.wasm");
    host.load(Load::path(path)).await.unwrap();
    host.load(Load::bytes("echo", fumehood_tests::contract("echo").unwrap())).await.unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
    host.load(Load::path(path)).await.unwrap();
    let interpreter = Arc::new(host.javascript());
    let requests_per_minute = scenario.rate.and_then(|rate| NonZeroU32::new(rate * 60));
    let limits = TenantLimits { requests_per_minute, ..TenantLimits::default() };
    let access = Access::Tenants(vec![tenant("modest", MODEST), tenant("greedy", GREEDY).limits(limits)]);
    let options = HttpOptions::new("127.0.0.1:0".parse().unwrap(), access);
    let listener = Listener::bind(options).await.unwrap();
    let programs = move |tools| -> Arc<dyn ToolProvider> {
        let mode = CodeMode::beside_direct_calls();
        Arc::new(CodeProvider::new(tools, interpreter.clone(), mode, Arc::new(SystemClock)).unwrap())
    };
    let direct: Arc<dyn ToolProvider> = if scenario.is_recorded {
        let log: Arc<dyn Recorder> = Arc::new(EventLog::open(folder.join("log.db"), &Options::default()).unwrap());
        let log = CallLog::begin(log, CallLogOptions::new("bench")).await.unwrap();
        Stack::new().log(Some(log)).around([host])
    } else {
        Arc::new(host)
    };
    let tools = TenantTools::new(direct).layer(programs);
    let tools = tools.places(scenario.places, MAX_WAITING).usage(UsageLedger::default());
    let api = Api::with_tools(tools, ApiOptions::default(), &listener).unwrap();
    listener.services().open(vec![Arc::new(api)]);
    let address = listener.address();
    tokio::spawn(async move { listener.serve(std::future::pending::<()>()).await });
    address
}

/// A connection of one tenant.
struct Client {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
    token: &'static str,
    tool: &'static str,
    body: Bytes,
}

impl Client {
    async fn connect(address: SocketAddr, token: &'static str, scenario: &Scenario) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let (tool, body) = match &scenario.greedy {
            Some((tool, body)) if token == GREEDY => (*tool, body),
            _ => (scenario.tool, &scenario.body),
        };
        let body = Bytes::from(body.clone());
        Self { sender, address, token, tool, body }
    }

    async fn call(&mut self) -> hyper::Result<StatusCode> {
        let request = Request::post(format!("/v1/tools/{}/calls", self.tool))
            .header("host", self.address.to_string())
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(Full::new(self.body.clone()))
            .unwrap();
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        response.into_body().collect().await?;
        Ok(status)
    }
}

/// Calls as the measured tenant, and returns the 99th percentile of the latency.
async fn measure(client: &mut Client) -> Duration {
    let mut took = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let started = Instant::now();
        assert_eq!(client.call().await.unwrap(), StatusCode::OK);
        took.push(started.elapsed());
    }
    took.sort_unstable();
    took[took.len() * 99 / 100]
}

/// Calls until it is told to stop. Counts the calls that ran.
async fn flood(address: SocketAddr, scenario: Arc<Scenario>, stop: Arc<AtomicBool>, ran: Arc<AtomicUsize>) {
    let mut client = Client::connect(address, GREEDY, &scenario).await;
    while !stop.load(Ordering::Relaxed) {
        match client.call().await {
            Ok(StatusCode::OK) => drop(ran.fetch_add(1, Ordering::Relaxed)),
            Ok(StatusCode::TOO_MANY_REQUESTS) => {}
            // A server that is full closes the connection.
            _ => client = Client::connect(address, GREEDY, &scenario).await,
        }
        tokio::time::sleep(scenario.pause).await;
    }
}

/// Calls as the measured tenant while the other one calls the server at `flooded`. Returns the 99th percentile of the latency, and
/// the number of calls of the other one that ran.
fn measure_beside(
    clients: &Runtime,
    greedy: &Runtime,
    client: &mut Client,
    flooded: SocketAddr,
    scenario: &Arc<Scenario>,
) -> (Duration, usize) {
    let stop = Arc::new(AtomicBool::new(false));
    let ran = Arc::new(AtomicUsize::new(0));
    let floods: Vec<_> = (0..GREEDY_CONNECTIONS)
        .map(|_| greedy.spawn(flood(flooded, Arc::clone(scenario), Arc::clone(&stop), Arc::clone(&ran))))
        .collect();
    std::thread::sleep(Duration::from_millis(500));
    let loaded = clients.block_on(measure(client));
    stop.store(true, Ordering::Relaxed);
    greedy.block_on(async {
        for flood in floods {
            flood.await.unwrap();
        }
    });
    (loaded, ran.load(Ordering::Relaxed))
}

/// Number of tasks that run between two looks at the sockets, as in `fumehood serve`.
const EVENT_INTERVAL: u32 = 8;

/// Clients run on threads of their own, so that they do not wait behind the server's tasks.
fn run(scenario: Scenario) {
    let servers =
        [(); 2].map(|()| Builder::new_multi_thread().event_interval(EVENT_INTERVAL).enable_all().build().unwrap());
    let clients = Builder::new_current_thread().enable_all().build().unwrap();
    let greedy = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [address, other] = [0, 1].map(|index: usize| servers[index].block_on(start(&scenario, folders[index].path())));
    let scenario = Arc::new(scenario);
    let mut alone = Vec::new();
    let mut apart = Vec::new();
    let mut together = Vec::new();
    let mut total = 0;
    for _ in 0..ROUNDS {
        let mut client = clients.block_on(Client::connect(address, MODEST, &scenario));
        alone.push(clients.block_on(measure(&mut client)).as_secs_f64() * 1e3);
        let (beside, _) = measure_beside(&clients, &greedy, &mut client, other, &scenario);
        apart.push(beside.as_secs_f64() * 1e3);
        let (beside, ran) = measure_beside(&clients, &greedy, &mut client, address, &scenario);
        together.push(beside.as_secs_f64() * 1e3);
        total += ran;
    }
    let to_alone = median_ratio(&together, &alone);
    let to_apart = median_ratio(&together, &apart);
    let name = scenario.name;
    let alone = median(alone);
    let apart = median(apart);
    let together = median(together);
    println!("| {name} | {alone:.2} ms | {apart:.2} ms | {together:.2} ms | {to_alone:.2} | {to_apart:.2} | {total} |");
}

fn median_ratio(of: &[f64], to: &[f64]) -> f64 {
    median(of.iter().zip(to).map(|(of, to)| of / to).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    println!("{GREEDY_CONNECTIONS} connections beside one; p99, medians of {ROUNDS} measurements\n");
    println!("| too much of | alone | servers apart | together | to alone | to apart | calls of the other |");
    println!("|---|---|---|---|---|---|---|");
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for scenario in scenarios() {
        if only.is_empty() || only.iter().any(|name| scenario.name.starts_with(name.as_str())) {
            run(scenario);
        }
    }
}
