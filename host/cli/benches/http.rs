//! Calls over HTTP beside a server of axum that echoes without a sandbox: 1 KB, keep-alive. One connection for the latency, 32 for
//! the number of calls.
//!
//! `cargo bench -p fumehood-cli --bench http`; with `-- echo` or `-- sandbox` one server alone, for a profiler.
//!
//! Each server and the clients have a runtime of their own, as if they were different processes: in a shared one, a short answer never
//! leaves its thread, and a longer one wakes another.

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
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use bytes::Bytes;
use fumehood::http_api::{Api, ApiOptions};
use fumehood::listener::{Access, HttpOptions, Listener};
use fumehood::{Host, Load};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// Numbers of connections that call at once.
const CONNECTIONS: [usize; 2] = [1, 32];
/// Duration of one measurement.
const DURATION: Duration = Duration::from_secs(2);
/// Number of alternating measurements of each.
const ROUNDS: usize = 7;

/// Calls per second, and the median latency.
struct Measurement {
    per_second: f64,
    median: Duration,
}

/// A server to measure, on a runtime of its own.
struct Server {
    name: &'static str,
    address: SocketAddr,
    _runtime: Runtime,
}

impl Server {
    fn start<S: Future<Output = SocketAddr>>(name: &'static str, server: impl FnOnce() -> S) -> Self {
        let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
        Self { name, address: runtime.block_on(server()), _runtime: runtime }
    }
}

/// Starts the echo server, which answers with the body that it got.
async fn start_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
    let router = Router::new().route("/v1/tools/{name}/calls", post(|body: Bytes| async { body }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn start_api() -> SocketAddr {
    let host = Host::builder().concurrency(64).queue(64).build().unwrap();
    host.load(Load::bytes("echo", fumehood_tests::contract("echo").unwrap())).await.unwrap();
    let listener = Listener::bind(HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Anyone)).await.unwrap();
    let api = Api::new(Arc::new(host), ApiOptions::default(), &listener).unwrap();
    listener.services().open(vec![Arc::new(api)]);
    let address = listener.address();
    tokio::spawn(async move { listener.serve(std::future::pending::<()>()).await });
    address
}

async fn call_until(address: SocketAddr, body: Bytes, end: Instant) -> Vec<Duration> {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut took = Vec::new();
    while Instant::now() < end {
        let request = Request::post("/v1/tools/echo__echo/calls")
            .header("host", address.to_string())
            .header("content-type", "application/json")
            .body(Full::new(body.clone()))
            .unwrap();
        let started = Instant::now();
        sender.ready().await.unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
        took.push(started.elapsed());
    }
    took
}

/// Calls a server over some connections, from one thread.
fn measure(clients: &Runtime, server: &Server, body: &Bytes, connections: usize) -> Measurement {
    clients.block_on(async {
        let started = Instant::now();
        let end = Instant::now() + DURATION;
        let callers: Vec<_> =
            (0..connections).map(|_| tokio::spawn(call_until(server.address, body.clone(), end))).collect();
        let mut took = Vec::new();
        for caller in callers {
            took.extend(caller.await.unwrap());
        }
        let per_second = took.len() as f64 / started.elapsed().as_secs_f64();
        took.sort_unstable();
        Measurement { per_second, median: took[took.len() / 2] }
    })
}

fn of_median<T>(rounds: &[T], value: impl Fn(&T) -> f64) -> f64 {
    let mut values: Vec<f64> = rounds.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn micros(measured: &Measurement) -> f64 {
    measured.median.as_secs_f64() * 1e6
}

fn main() {
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let mut servers = vec![Server::start("echo", start_echo), Server::start("sandbox", start_api)];
    servers.retain(|server| only.is_empty() || only.iter().any(|name| name == server.name));
    let clients = Builder::new_current_thread().enable_all().build().unwrap();
    let body = Bytes::from(format!(r#"{{"text":"{}"}}"#, "lorem ipsum ".repeat(85)));
    println!("{} bytes, keep-alive, alternating, medians of {ROUNDS} measurements\n", body.len());
    println!("| connections | | calls/s | p50 |\n|---|---|---|---|");
    for connections in CONNECTIONS {
        let measured: Vec<Vec<Measurement>> = (0..ROUNDS)
            .map(|_| servers.iter().map(|server| measure(&clients, server, &body, connections)).collect())
            .collect();
        for (index, server) in servers.iter().enumerate() {
            let rate = of_median(&measured, |round| round[index].per_second);
            let median = of_median(&measured, |round| micros(&round[index]));
            println!("| {connections} | {} | {rate:.0} | {median:.0} µs |", server.name);
        }
        if let [_, _] = servers[..] {
            let latency = of_median(&measured, |round| micros(&round[1]) / micros(&round[0]));
            let throughput = of_median(&measured, |round| round[0].per_second / round[1].per_second);
            println!("| {connections} | ratio | {throughput:.2} | {latency:.2} |");
        }
    }
}
