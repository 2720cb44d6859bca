//! Endpoints that answer with more than anybody can read.

use std::time::{Duration, Instant};

use fumehood_core::chat::{ModelError, ModelFailure};

use super::server::{Play, Server};
use super::{SERVICES, ask, config, provider, question, reply};

/// Size of a piece that is sent again and again, in bytes.
const PIECE_BYTES: usize = 64 << 10;
/// Number of bytes after which a server stops, so that a client without a limit fails its test and not the machine.
const MAX_SENT_BYTES: usize = 512 << 20;
/// Number of bytes that a client may read beyond its limit: buffers of both sides.
const SLACK_BYTES: usize = 16 << 20;

/// Asks a server that sends this head, and then the piece again and again. Returns the error, and the number of bytes sent.
async fn flood(service: &str, head: &'static str, piece: Vec<u8>) -> (ModelError, usize) {
    let server = Server::start(vec![Play::Floods { head, piece, max_bytes: MAX_SENT_BYTES }]).await;
    let mut config = config(&server);
    config.retries.max_retries = 0;
    config.max_reply_bytes = 1 << 20;
    config.timeouts.first_token = Duration::from_secs(10);
    let (answer, _) = ask(&provider(service, config), &question()).await;
    (answer.expect_err(service), server.sent_bytes())
}

fn repeat(text: &str) -> Vec<u8> {
    text.repeat(PIECE_BYTES.div_ceil(text.len())).into_bytes()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_the_beginning_of_an_error_alone() {
    for (service, _) in SERVICES {
        for status in [302, 401, 404, 429, 500] {
            let head: &'static str = Box::leak(format!("HTTP/1.1 {status} X\r\n\r\n").into_boxed_str());
            let start = Instant::now();
            let (error, sent) = flood(service, head, repeat("x")).await;
            assert_eq!(error.status, Some(status), "{service}: {error}");
            assert!(sent < SLACK_BYTES, "{service} {status}: {sent} bytes");
            assert!(start.elapsed() < Duration::from_secs(8), "{service} {status}: {:?}", start.elapsed());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuses_content_codings() {
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: identity, BR\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 500 X\r\ncontent-type: application/json\r\ncontent-encoding: deflate\r\n\r\n",
    ] {
        let (error, sent) = flood("openai", head, vec![0; PIECE_BYTES]).await;
        assert_eq!(error.failure, ModelFailure::Malformed, "{head}: {error}");
        assert!(error.message.contains("content coding"), "{head}: {error}");
        assert!(sent < SLACK_BYTES, "{sent} bytes");
    }
}

#[tokio::test]
async fn asks_for_no_content_coding() {
    let server = Server::start(vec![reply(500, "", "")]).await;
    let mut config = config(&server);
    config.retries.max_retries = 0;
    let _refused = ask(&provider("openai", config), &question()).await;
    let head = server.requests().remove(0).head.to_ascii_lowercase();
    assert!(head.contains("\r\naccept-encoding: identity"), "{head}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stops_streams_without_end() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    for (what, piece, max_sent) in [
        ("an event", repeat("x"), SLACK_BYTES),
        ("an event of many lines", repeat("data: x\n"), SLACK_BYTES),
        ("an event of many values", repeat("[0,"), SLACK_BYTES),
        ("comments", repeat(": x\n\n"), SLACK_BYTES + (32 << 20)),
        ("empty lines", repeat("\n"), SLACK_BYTES + (32 << 20)),
        ("events that are none", repeat("event: ping\ndata:\n\n"), SLACK_BYTES + (32 << 20)),
    ] {
        let start = Instant::now();
        let (error, sent) = flood("openai", head, piece).await;
        assert!(matches!(error.failure, ModelFailure::Malformed | ModelFailure::Timeout), "{what}: {error}");
        assert!(sent < max_sent, "{what}: {sent} bytes, {error}");
        assert!(start.elapsed() < Duration::from_secs(15), "{what}: {:?}", start.elapsed());
    }
}

/// One event in pieces that are as small as possible: reading it must not take its size squared.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_an_event_of_small_pieces_once() {
    let mut event = b"data: ".to_vec();
    event.extend(std::iter::repeat_n(b'x', 256 << 10));
    let server = Server::start(vec![Play::Reply {
        status: 200,
        headers: "content-type: text/event-stream\r\n",
        body: event,
        piece: 16,
    }]);
    let server = server.await;
    let mut config = config(&server);
    config.timeouts.first_token = Duration::from_secs(20);
    let start = Instant::now();
    let (answer, _) = ask(&provider("openai", config), &question()).await;
    assert_eq!(answer.unwrap_err().failure, ModelFailure::Malformed);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

/// The thread of the caller answers others while a hostile answer is read.
#[tokio::test(flavor = "current_thread")]
async fn leaves_the_thread_of_its_caller_to_others() {
    let server = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let piece = repeat("data: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        let server = runtime.block_on(Server::start(vec![Play::Floods { head, piece, max_bytes: MAX_SENT_BYTES }]));
        (runtime, server)
    });
    let (runtime, server) = server.join().unwrap();
    let mut config = config(&server);
    config.retries.max_retries = 0;
    config.timeouts.total = Duration::from_secs(2);
    let serving =
        std::thread::spawn(move || runtime.block_on(async { tokio::time::sleep(Duration::from_secs(5)).await }));
    let provider = provider("openai", config);
    let request = question();
    let mut longest = Duration::ZERO;
    let watch = async {
        loop {
            let start = Instant::now();
            tokio::time::sleep(Duration::from_millis(5)).await;
            longest = longest.max(start.elapsed());
        }
    };
    let start = Instant::now();
    tokio::select! {
        (answer, _) = ask(&provider, &request) => drop(answer.unwrap_err()),
        () = watch => {}
    }
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(longest < Duration::from_millis(500), "the thread was held for {longest:?}");
    serving.join().unwrap();
}
