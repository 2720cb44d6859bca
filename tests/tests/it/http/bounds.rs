//! Bounds of one call's use of the network.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use fumehood::permission::http::HttpLimits;
use fumehood::{Call, ErrorKind, Event, Host, Observed};
use serde_json::json;

use super::server::{Server, ok, respond};
use super::stage::{DetailedRequest, LOCAL, Names, Stage, answer, failed, requests};

async fn stage(server: &Server, limits: HttpLimits) -> (Stage, String) {
    let at = server.at("api.test");
    (Stage::new(requests(&[&format!("GET,POST http://{at}/**")], LOCAL, limits)).await, at)
}

/// Row 48: infinite-body.
#[tokio::test]
async fn an_endless_body_is_cut_off_at_the_cap() {
    let server = Server::start(|stream, _| {
        let _ = write!(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        let chunk = format!("1000\r\n{}\r\n", "x".repeat(0x1000));
        while stream.write_all(chunk.as_bytes()).is_ok() {}
    });
    let cap = 256 << 10;
    let (stage, at) = stage(&server, HttpLimits { bytes_in: cap, ..HttpLimits::default() }).await;
    let result = stage.fetch(&format!("GET http://{at}/")).await;
    failed(&result, ErrorKind::Quota, "broken-after");
    let error = result.error().unwrap();
    assert_eq!(error.hint.as_deref(), Some("http: the tool received all of its 256.0 KiB"));
    let digits: String = error.message.chars().filter(char::is_ascii_digit).collect();
    let got: u64 = digits.parse().unwrap();
    assert!(got <= cap && got > cap - (70 << 10), "{got} of {cap}");
    server.seen.closed();
}

/// Row 48: gzip-bomb. Nothing is unpacked, so a bomb is as large as it is on the wire.
#[tokio::test]
async fn a_compressed_body_stays_compressed() {
    let server =
        Server::start(|stream, _| respond(stream, "200 OK", "content-encoding: gzip\r\n", "\u{1f}not unpacked"));
    let (stage, at) = stage(&server, HttpLimits::default()).await;
    let (status, text, length) = answer(&stage.fetch(&format!("GET http://{at}/")).await);
    assert_eq!((status, text.as_str(), length), (200, "\u{1f}not unpacked", 13));
}

#[tokio::test]
async fn headers_that_are_too_many_or_too_long_are_refused() {
    let server = Server::start(|stream, head| {
        let many = (0..200).map(|i| format!("x-{i}: y\r\n")).collect::<String>();
        let long = format!("x: {}\r\n", "y".repeat(100 << 10));
        respond(stream, "200 OK", if head.contains("many") { &many } else { &long }, "");
    });
    let (stage, at) = stage(&server, HttpLimits::default()).await;
    for path in ["many", "long"] {
        let result = stage.fetch(&format!("GET http://{at}/{path}")).await;
        failed(&result, ErrorKind::ToolFailed, "HTTP-response-header-section-size");
    }
}

/// Row 49: body-flood.
#[tokio::test]
async fn no_more_is_sent_than_the_cap() {
    let server = Server::start(|stream, _| ok(stream, "thanks"));
    let cap = 256 << 10;
    let (stage, at) = stage(&server, HttpLimits { bytes_out: cap, ..HttpLimits::default() }).await;
    let request = format!("POST http://{at}/");
    let result = stage.ask(DetailedRequest { send: 8 << 20, ..DetailedRequest::new(&request) }).await;
    failed(&result, ErrorKind::Quota, "HTTP-request-body-size");
    assert_eq!(result.error().unwrap().hint.as_deref(), Some("http: the tool sent all of its 256.0 KiB"));
    server.seen.closed();
    let arrived = server.seen.body.load(SeqCst);
    assert!(arrived as u64 <= cap, "{arrived}");
    // Addresses and headers count too, or they would carry out what bodies may not.
    let (stage, at) = self::stage(&server, HttpLimits { bytes_out: 200, ..HttpLimits::default() }).await;
    let request = format!("GET http://{at}/?{}", "x".repeat(200));
    failed(&stage.fetch(&request).await, ErrorKind::Quota, "HTTP-request-body-size");
}

/// The tool reads one response after the other, while later ones have arrived already.
#[tokio::test]
async fn requests_get_their_turn_in_the_order_in_which_they_were_made() {
    let server = Server::start(|stream, _| {
        ok(stream, "ok");
        // A complete response, on a connection that stays open.
        std::thread::sleep(Duration::from_millis(300));
    });
    let (stage, at) = stage(&server, HttpLimits::default()).await;
    let result = stage.host.call(Call::new("it__many", json!({"authority": at, "path": "/", "count": 200}))).await;
    assert_eq!(result.text().as_deref(), Some("32"), "{result:?}");
}

/// Row 49: http-fanout.
#[tokio::test]
async fn few_requests_run_at_once_and_not_many_in_all() {
    let server = Server::start(|stream, _| {
        std::thread::sleep(Duration::from_millis(20));
        ok(stream, "ok");
    });
    let (stage, at) = stage(&server, HttpLimits::default()).await;
    let result = stage.host.call(Call::new("it__many", json!({"authority": at, "path": "/", "count": 200}))).await;
    assert_eq!(result.text().as_deref(), Some("32"), "{result:?}");
    assert_eq!(result.metadata.exhausted, ["http: the tool made all of its 32 requests"]);
    assert_eq!(server.seen.heads().len(), 32);
    let at_once = server.seen.at_once.load(SeqCst);
    // A server notices the end of a connection with a delay.
    assert!((2..=8 + 2).contains(&at_once), "{at_once} at once");
}

#[tokio::test]
async fn all_calls_together_have_no_more_requests_running_than_the_host_may() {
    let server = Server::start(|stream, head| {
        std::thread::sleep(Duration::from_millis(if head.contains("/slow") { 1500 } else { 5 }));
        ok(stream, "ok");
    });
    let at = server.at("api.test");
    let limits = HttpLimits { connect: Duration::from_millis(200), ..HttpLimits::default() };
    let grant = requests(&[&format!("GET http://{at}/**")], LOCAL, limits);
    let stage = Stage::with(Host::builder().resolver(Names::local()).http_in_flight(1), grant).await;
    let [slow, quick] = ["slow", "quick"].map(|path| format!("GET http://{at}/{path}"));
    let mut events = stage.host.subscribe();
    let busy = async {
        while server.seen.heads().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        stage.fetch(&quick).await
    };
    let (slow, busy) = tokio::join!(stage.fetch(&slow), busy);
    assert_eq!(answer(&slow).0, 200, "whoever has the place keeps it");
    failed(&busy, ErrorKind::Quota, "connection-limit-reached");
    let told = busy.error().unwrap().hint.clone().unwrap();
    assert!(told.contains("all calls of this host together have 1 running requests"), "{told}");
    let mut reasons = Vec::new();
    while let Some(Observed::Event(event)) = events.try_next() {
        if let Event::Request { request, .. } = event {
            reasons.extend(request.reason);
        }
    }
    assert_eq!(reasons, ["all calls of this host together have 1 running requests, the maximum"]);
    let kept: Vec<_> = busy.metadata.requests.iter().map(|request| request.reason.clone().unwrap()).collect();
    assert_eq!(kept, reasons, "its result says the same");
    assert_eq!(slow.metadata.requests[0].status, Some(200));
    assert_eq!(server.seen.heads().len(), 1, "and the other one never left");
    // The slot is free again; several requests of one call use it in turn.
    let result = stage.host.call(Call::new("it__many", json!({"authority": at, "path": "/", "count": 10}))).await;
    assert_eq!(result.text().as_deref(), Some("10"), "{result:?}");
    let error = Host::builder().http_in_flight(0).build().map(|_| ()).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(cause, "the sandbox needs at least one HTTP request of all calls at a time");
}
