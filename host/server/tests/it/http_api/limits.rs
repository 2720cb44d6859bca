//! Requests that are refused, and servers that are full, load or end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fumehood_core::dependency::{Dependency, Measurement, Metric};
use fumehood_server::http_api::{Api, ApiOptions};
use fumehood_server::{Access, HttpOptions, Listener};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::api_server::{ApiServer, PATIENCE, Tools};

#[tokio::test]
async fn only_those_who_belong_here_are_let_in() {
    let served = ApiServer::new().await;
    for path in ["/v1/tools", "/v1/calls", "/openapi.json"] {
        let refused = served.send("GET", path, &[("Authorization", "")], "").await;
        refused.check_problem(401);
        assert_eq!(refused.header("www-authenticate"), "Bearer");
        served.send("GET", path, &[("Authorization", "Bearer a-token-for-nobody")], "").await.check_problem(401);
        served.send("GET", path, &[("Host", "evil.example")], "").await.check_problem(403);
        served.send("GET", path, &[("Origin", "https://evil.example")], "").await.check_problem(403);
    }
    for path in ["/health", "/healthz", "/readyz"] {
        let answer = served.send("GET", path, &[("Host", "probe"), ("Authorization", "")], "").await;
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert_eq!(served.send("HEAD", path, &[("Host", "probe")], "").await.status, 200);
        let refused = served.send("POST", path, &[("Host", "probe")], "").await;
        refused.check_problem(405);
        assert_eq!(refused.header("allow"), "GET, HEAD");
    }
    served.end().await;
}

#[tokio::test]
async fn methods_and_paths_are_checked() {
    let served = ApiServer::new().await;
    for (method, path, allow) in [
        ("POST", "/v1/tools", "GET,HEAD"),
        ("PUT", "/v1/tools/test__echo", "GET,HEAD"),
        ("GET", "/v1/tools/test__echo/calls", "POST"),
        ("POST", "/v1/calls/x", "GET,HEAD,DELETE"),
        ("POST", "/v1/jobs", "GET,HEAD"),
        ("PUT", "/v1/jobs/x", "GET,HEAD,DELETE"),
    ] {
        let answer = served.send(method, path, &[], "{}").await;
        answer.check_problem(405);
        assert_eq!(answer.header("allow").replace(' ', ""), allow, "{method} {path}");
        let options = served.send("OPTIONS", path, &[], "").await;
        assert_eq!((options.status, options.header("allow").replace(' ', "").as_str()), (204, allow));
    }
    for path in ["/v1", "/v1/", "/v1/nothing", "/v1/tools/", "/v1/calls/", "/v1/tools/test__echo/"] {
        served.get(path).await.check_problem(404);
    }
    for path in ["/v1/tools/a/calls/", "/v1/tools/a/calls/b", "/v1/tools/a/b", "/v1/jobs/7/result", "/v1/tools/%ff"] {
        served.get(path).await.check_problem(404);
    }
    served.send("POST", "/v1/tools//calls", &[], "{}").await.check_problem(404);
    assert_eq!(served.get("/v1/tools/test__%65cho").await.json()["name"], "test__echo");
    // Nothing of the listener is there.
    served.get("/").await.check_problem(404);
    served.end().await;
}

#[tokio::test]
async fn types_of_content_are_negotiated() {
    let served = ApiServer::new().await;
    let arguments = r#"{"a": 1}"#;
    served.call("echo", &[("Content-Type", "text/plain")], arguments).await.check_problem(415);
    served.call("echo", &[("Content-Type", "")], arguments).await.check_problem(415);
    served.call("echo", &[("Accept", "text/html")], arguments).await.check_problem(406);
    served.send("GET", "/v1/tools", &[("Accept", "text/html")], "").await.check_problem(406);
    let plain = served.call("echo", &[("Accept", "text/event-stream;q=0.1, */*")], arguments).await;
    assert_eq!((plain.status, plain.header("content-type")), (200, "application/json"));
    served.end().await;
}

fn padded_object(length: usize) -> String {
    format!("{{{}}}", " ".repeat(length))
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let served = ApiServer::with(|options| HttpOptions { body_bytes: 16 << 10, ..options }).await;
    assert_eq!(served.call("hidden", &[], &padded_object(15 << 10)).await.status, 200);
    served.call("hidden", &[], &padded_object(16 << 10)).await.check_problem(413);
    let deep = format!("{}0{}", r#"{"a":"#.repeat(200), "}".repeat(200));
    served.call("hidden", &[], &deep).await.check_problem(400);
    served.end().await;
    let served = ApiServer::new().await;
    let many = format!(r#"{{"a": [{}0]}}"#, "0,".repeat(100_000));
    served.call("hidden", &[], &many).await.check_problem(413);
    // The limit of the listener is larger than that of arguments.
    served.call("hidden", &[], &padded_object(3 << 20)).await.check_problem(422);
    served.end().await;
}

#[tokio::test]
async fn costly_arguments_are_checked_off_the_serving_thread() {
    let served = ApiServer::new().await;
    // This test, the listener and its connections share a thread.
    let here = format!("{:?}", std::thread::current().id());
    let many = format!(r#"{{"a": [{}0]}}"#, "0,".repeat(10_000));
    for accept in ["application/json", "text/event-stream"] {
        let answer = served.call("thread", &[("Accept", accept)], r#"{"a": [0]}"#).await;
        assert!(answer.status == 200 && answer.body.contains(&here), "{answer:?}");
        let answer = served.call("thread", &[("Accept", accept)], &many).await;
        assert!(
            answer.status == 200 && answer.body.contains("ThreadId(") && !answer.body.contains(&here),
            "{answer:?}"
        );
    }
    served.end().await;
}

#[tokio::test]
async fn a_client_with_too_many_requests_at_once_waits() {
    let served = ApiServer::with(|options| HttpOptions { requests: 2, ..options }).await;
    let (first, id) = served.start_waiting(1).await;
    let mut second = served.connect().await;
    let request = served.request("POST", "/v1/tools/test__wait/calls", &[], "{}");
    let second = tokio::spawn(async move { second.send_request(request).await.is_ok() });
    served.tools.started(2).await;
    let refused = served.get("/v1/tools").await;
    refused.check_problem(429);
    assert_eq!(refused.header("retry-after"), "1");
    second.abort();
    served.tools.stopped(1).await;
    let cancelled = async {
        // The place is free a moment after its call has ended.
        while served.send("DELETE", &format!("/v1/calls/{id}"), &[], "").await.status == 429 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, cancelled).await.unwrap();
    first.await.unwrap().check_problem(503);
    served.end().await;
}

#[tokio::test]
async fn running_calls_end_while_new_ones_are_refused() {
    let served = ApiServer::with(|options| HttpOptions { drain: PATIENCE, ..options }).await;
    let mut keeping = served.connect().await;
    assert_eq!(keeping.send_request(served.request("GET", "/v1/tools", &[], "")).await.unwrap().status(), 200);
    let waiting = served.request("POST", "/v1/tools/test__wait/calls", &[("Accept", "text/event-stream")], "{}");
    let (sender, response) = served.open(waiting).await;
    served.tools.started(1).await;
    served.stop();
    let draining = async {
        while served.send("GET", "/readyz", &[], "").await.status != 503 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, draining).await.unwrap();
    let refused = served.get("/v1/tools").await;
    refused.check_problem(503);
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(served.send("GET", "/healthz", &[], "").await.status, 200);
    drop((sender, response));
    served.tools.stopped(1).await;
    served.end().await;
}

async fn ask(address: std::net::SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

async fn ask_status(address: std::net::SocketAddr, path: &str) -> u16 {
    ask(address, path).await[9..12].parse::<u16>().unwrap()
}

#[tokio::test]
async fn a_server_that_loads_is_not_ready() {
    let options = HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Anyone);
    let listener = Listener::bind(options).await.unwrap();
    let api = Api::new(Arc::new(Tools::default()), ApiOptions::default(), &listener).unwrap();
    let address = listener.address();
    let services = listener.services();
    let serving = tokio::spawn(async move { listener.serve(std::future::pending::<()>()).await });
    assert_eq!(
        (
            ask_status(address, "/healthz").await,
            ask_status(address, "/readyz").await,
            ask_status(address, "/v1/tools").await
        ),
        (200, 503, 503)
    );
    services.open(vec![Arc::new(api)]);
    assert_eq!((ask_status(address, "/readyz").await, ask_status(address, "/v1/tools").await), (200, 200));
    serving.abort();
}

/// A part of a service that can be lost.
#[derive(Default)]
struct EventLog(AtomicBool);

impl Dependency for EventLog {
    fn outage(&self) -> Option<&'static str> {
        self.0.load(Ordering::Relaxed).then_some("event_log")
    }

    fn metrics(&self) -> Vec<&'static Metric> {
        Vec::new()
    }

    fn measurements(&self) -> Vec<Measurement> {
        Vec::new()
    }
}

#[tokio::test]
async fn a_server_without_its_event_log_is_not_ready() {
    let options = HttpOptions::new("127.0.0.1:0".parse().unwrap(), Access::Anyone);
    let listener = Listener::bind(options).await.unwrap();
    listener.services().open(Vec::new());
    let log = Arc::new(EventLog::default());
    listener.depend_on(Arc::clone(&log) as _);
    let address = listener.address();
    let serving = tokio::spawn(async move { listener.serve(std::future::pending::<()>()).await });
    assert_eq!(ask_status(address, "/readyz").await, 200);
    log.0.store(true, Ordering::Relaxed);
    let lost = ask(address, "/readyz").await;
    assert!(lost.starts_with("HTTP/1.1 503") && lost.contains("retry-after: 1\r\n"), "{lost}");
    assert!(lost.ends_with(r#"{"status":"unavailable","lost":["event_log"]}"#), "{lost}");
    assert_eq!(ask_status(address, "/healthz").await, 200, "restarting it would not help");
    log.0.store(false, Ordering::Relaxed);
    assert_eq!(ask_status(address, "/readyz").await, 200);
    serving.abort();
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_dropped() {
    let served = ApiServer::new().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let request = format!(
        "POST /v1/tools/test__large/calls HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}",
        served.address,
        super::api_server::TOKEN
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    // The result has begun, however long a loaded machine took for it.
    stream.readable().await.unwrap();
    // Longer than the deadline of a write that makes no progress.
    tokio::time::sleep(Duration::from_secs(12)).await;
    let mut read = Vec::new();
    let _reset = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut read)).await.expect("it was not dropped");
    assert!(read.len() < 8 << 20, "the whole result was sent");
    served.end().await;
}
