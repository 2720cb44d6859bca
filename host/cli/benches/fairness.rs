//! Fairness between tenants over HTTP: one sends at a hundred times its share, and the latency of the other is measured with and
//! without it.
//!
//! `cargo bench -p fumehood-cli --bench fairness`

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench prints, and stops by panicking"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fumehood::http_api::{Api, ApiOptions};
use fumehood::listener::{Access, HttpOptions, Listener, Tenant, TenantTools, Token, UsageLedger};
use fumehood::{Host, Load};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Number of calls of the measured tenant in one measurement: it calls one after the other.
const CALLS: usize = 2_000;
/// Number of connections of the other one, which calls on each without a pause.
const GREEDY_CONNECTIONS: usize = 100;
/// Number of alternating measurements.
const ROUNDS: usize = 5;
/// Number of places for calls, and the maximum number that wait: as many places as processors, as tools that compute want.
const MAX_WAITING: usize = 256;
const MODEST: &str = "token-of-the-modest-one";
const GREEDY: &str = "token-of-the-greedy-one";

/// Percentiles of the latency of calls.
struct Latency {
    median: Duration,
    p99: Duration,
}

async fn start(places: usize) -> SocketAddr {
    let host = Host::builder().concurrency(64).queue(1024).build().unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/text.wasm");
    host.load(Load::path(path)).await.unwrap();
    let tenant = |name: &str, token: &str| Tenant::new(name, &Token::parse(token).unwrap()).actor(name);
    let access = Access::Tenants(vec![tenant("modest", MODEST), tenant("greedy", GREEDY)]);
    let listener = Listener::bind(HttpOptions::new("127.0.0.1:0".parse().unwrap(), access)).await.unwrap();
    let tools = TenantTools::new(Arc::new(host)).places(places, MAX_WAITING).usage(UsageLedger::default());
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
    body: Bytes,
}

impl Client {
    async fn connect(address: SocketAddr, token: &'static str, body: &Bytes) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, address, token, body: body.clone() }
    }

    async fn call(&mut self) -> StatusCode {
        let request = Request::post("/v1/tools/text__statistics/calls")
            .header("host", self.address.to_string())
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json")
            .body(Full::new(self.body.clone()))
            .unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let status = response.status();
        response.into_body().collect().await.unwrap();
        status
    }
}

/// Calls as the measured tenant.
async fn measure(client: &mut Client) -> Latency {
    let mut took = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let started = Instant::now();
        assert_eq!(client.call().await, StatusCode::OK);
        took.push(started.elapsed());
    }
    took.sort_unstable();
    Latency { median: took[took.len() / 2], p99: took[took.len() * 99 / 100] }
}

/// Calls without a pause until it is told to stop. Counts the calls that ran.
async fn flood(address: SocketAddr, body: Bytes, stop: Arc<AtomicBool>, ran: Arc<AtomicUsize>) {
    let mut client = Client::connect(address, GREEDY, &body).await;
    while !stop.load(Ordering::Relaxed) {
        match client.call().await {
            StatusCode::OK => drop(ran.fetch_add(1, Ordering::Relaxed)),
            // Refused for now; a server that is full closes the connection.
            _ => client = Client::connect(address, GREEDY, &body).await,
        }
    }
}

/// Clients run on threads of their own, so that they do not wait behind the server's tasks.
fn main() {
    let places = std::thread::available_parallelism().map_or(2, usize::from);
    let server = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let clients = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let greedy = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let address = server.block_on(start(places));
    let body = Bytes::from(format!(r#"{{"text":"{}"}}"#, "lorem ipsum ".repeat(85)));
    println!(
        "{} bytes, keep-alive, {places} places; {GREEDY_CONNECTIONS} connections without a pause beside one",
        body.len()
    );
    println!("| | p50 | p99 | calls of the other |\n|---|---|---|---|");
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let mut client = clients.block_on(Client::connect(address, MODEST, &body));
        let idle = clients.block_on(measure(&mut client));
        let (stop, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let floods: Vec<_> = (0..GREEDY_CONNECTIONS)
            .map(|_| greedy.spawn(flood(address, body.clone(), Arc::clone(&stop), Arc::clone(&ran))))
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let loaded = clients.block_on(measure(&mut client));
        stop.store(true, Ordering::Relaxed);
        greedy.block_on(async {
            for flood in floods {
                flood.await.unwrap();
            }
        });
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        println!("| alone | {:.0} µs | {:.0} µs | |", micros(idle.median), micros(idle.p99));
        let calls = ran.load(Ordering::Relaxed);
        println!("| beside the other | {:.0} µs | {:.0} µs | {calls} |", micros(loaded.median), micros(loaded.p99));
        ratios.push(loaded.p99.as_secs_f64() / idle.p99.as_secs_f64());
    }
    ratios.sort_by(f64::total_cmp);
    println!("p99 beside the other is {:.2} times that alone (median of {ROUNDS})", ratios[ROUNDS / 2]);
}
