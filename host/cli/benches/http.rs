//! Calls per second over HTTP beside the same server that echoes without a sandbox: 1 KB, keep-alive, 32 connections.
//!
//! `cargo bench -p fumehood-cli --bench http`

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

use bytes::Bytes;
use fumehood::http_api::{Api, ApiOptions};
use fumehood::listener::{Access, HttpOptions, Listener};
use fumehood::{Host, Load};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

/// Number of connections that call at once.
const CONNECTIONS: usize = 32;
/// Duration of one measurement.
const DURATION: Duration = Duration::from_secs(5);
/// Number of alternating measurements of each.
const ROUNDS: usize = 3;

/// Calls per second, and the median latency.
struct Measured {
    per_second: f64,
    median: Duration,
}

/// Starts the echo server: the same HTTP library, with nothing else.
async fn start_echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let service = service_fn(|request: Request<hyper::body::Incoming>| async move {
                let body = request.into_body().collect().await?.to_bytes();
                Ok::<_, hyper::Error>(http::Response::new(Full::new(body)))
            });
            tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    address
}

async fn start_api() -> SocketAddr {
    let host = Host::builder().concurrency(64).queue(64).build().unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/text.wasm");
    host.load(Load::path(path)).await.unwrap();
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
        let request = Request::post("/v1/tools/text__statistics/calls")
            .header("host", address.to_string())
            .header("content-type", "application/json")
            .body(Full::new(body.clone()))
            .unwrap();
        let started = Instant::now();
        sender.ready().await.unwrap();
        let response = sender.send_request(request).await.unwrap();
        let (status, body) = (response.status(), response.into_body().collect().await.unwrap().to_bytes());
        assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
        took.push(started.elapsed());
    }
    took
}

async fn measure(address: SocketAddr, body: &Bytes) -> Measured {
    let (started, end) = (Instant::now(), Instant::now() + DURATION);
    let callers: Vec<_> = (0..CONNECTIONS).map(|_| tokio::spawn(call_until(address, body.clone(), end))).collect();
    let mut took = Vec::new();
    for caller in callers {
        took.extend(caller.await.unwrap());
    }
    let per_second = took.len() as f64 / started.elapsed().as_secs_f64();
    took.sort_unstable();
    Measured { per_second, median: took[took.len() / 2] }
}

#[tokio::main]
async fn main() {
    let (echo, api) = (start_echo().await, start_api().await);
    let body = Bytes::from(format!(r#"{{"text":"{}"}}"#, "lorem ipsum ".repeat(85)));
    println!("{} bytes, {CONNECTIONS} connections, keep-alive", body.len());
    println!("| | calls/s | p50 |\n|---|---|---|");
    let mut ratios = Vec::new();
    for _ in 0..ROUNDS {
        let (plain, sandboxed) = (measure(echo, &body).await, measure(api, &body).await);
        for (name, found) in [("echo without a sandbox", &plain), ("a tool in the sandbox", &sandboxed)] {
            println!("| {name} | {:.0} | {:.0} µs |", found.per_second, found.median.as_secs_f64() * 1e6);
        }
        ratios.push(plain.per_second / sandboxed.per_second);
    }
    ratios.sort_by(f64::total_cmp);
    println!("the echo makes {:.2} times as many calls (median of {ROUNDS})", ratios[ROUNDS / 2]);
}
