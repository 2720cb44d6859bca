//! Sizes, times, speeds, codings, redirects and addresses.

use std::time::{Duration, Instant};

use fumehood_transport::{
    Addresses, EventLimits, EventPieces, Framing, MAX_ERROR_BYTES, Request, ResponseLimits, Roots, Transport,
    TransportError, Url, spawn,
};

use super::server::{Body, Server, get, limits, transport};

/// Bytes that a client may read beyond its limit: buffers of both sides.
const SLACK_BYTES: usize = 16 << 20;

fn flood() -> Body {
    Body::Floods(vec![b'x'; 64 << 10])
}

#[tokio::test]
async fn bodies_end_at_their_maximum_whatever_their_status() {
    for (status, expected) in
        [(200, 1 << 20), (206, 1 << 20), (302, MAX_ERROR_BYTES), (401, MAX_ERROR_BYTES), (500, MAX_ERROR_BYTES)]
    {
        for extra in ["", "\r\ncontent-length: 999999999"] {
            let server = Server::start(&format!("HTTP/1.1 {status} X{extra}"), flood()).await;
            let response = get(&server.url, limits()).await.unwrap();
            assert_eq!(response.status().as_u16(), status);
            let error = response.bytes().await.unwrap_err();
            assert!(matches!(error, TransportError::TooLarge(max) if max == expected), "{status}: {error}");
            let message = get(&server.url, limits()).await.unwrap().message().await;
            assert_eq!(message.len() as u64, MAX_ERROR_BYTES);
            assert!(server.sent_bytes() < SLACK_BYTES, "{}", server.sent_bytes());
        }
    }
}

#[tokio::test]
async fn codings_are_refused_before_their_body() {
    for coding in [
        "content-encoding: gzip",
        "content-encoding: identity, br",
        "Content-Encoding: DEFLATE",
        "content-encoding: identity\r\ncontent-encoding: zstd",
        "transfer-encoding: gzip, chunked",
    ] {
        for status in [200, 500] {
            let server = Server::start(&format!("HTTP/1.1 {status} X\r\n{coding}"), flood()).await;
            let error = get(&server.url, limits()).await.unwrap_err();
            assert!(matches!(error, TransportError::Coded(_)), "{coding}: {error}");
        }
    }
    for plain in ["content-encoding: identity", "content-encoding:", "transfer-encoding: chunked"] {
        let server = Server::start(&format!("HTTP/1.1 200 X\r\n{plain}"), Body::Whole(b"0\r\n\r\n".to_vec())).await;
        assert!(get(&server.url, limits()).await.is_ok(), "{plain}");
    }
}

#[tokio::test]
async fn time_in_all_ends_a_body_that_never_pauses_and_one_that_always_does() {
    let limits = ResponseLimits { max_bytes: u64::MAX, ..ResponseLimits::within(Duration::from_millis(300), 0) };
    for body in [flood(), Body::Drips(b"x".to_vec(), Duration::from_millis(10))] {
        let server = Server::start("HTTP/1.1 200 OK", body).await;
        let start = Instant::now();
        let error = get(&server.url, limits).await.unwrap().bytes().await.unwrap_err();
        assert!(matches!(error, TransportError::Late(_)), "{error}");
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn silence_and_slowness_end_a_body() {
    let silent = Server::start("HTTP/1.1 200 OK", Body::Drips(b"x".to_vec(), Duration::from_secs(60))).await;
    let idle = ResponseLimits { idle: Duration::from_millis(100), ..limits() };
    let error = get(&silent.url, idle).await.unwrap().bytes().await.unwrap_err();
    assert!(matches!(error, TransportError::Idle(_)), "{error}");
    let slow = Server::start("HTTP/1.1 200 OK", Body::Drips(b"x".to_vec(), Duration::from_millis(20))).await;
    let window = Duration::from_millis(200);
    let fast = ResponseLimits { min_bytes_per_second: 4096, window, ..limits() };
    let error = get(&slow.url, fast).await.unwrap().bytes().await.unwrap_err();
    assert!(matches!(error, TransportError::Slow(4096)), "{error}");
    // A server that accepts, and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = Url::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
    let head = ResponseLimits { head: Duration::from_millis(100), ..limits() };
    let error = get(&url, head).await.unwrap_err();
    assert!(matches!(error, TransportError::HeadTimeout(_)) && error.is_timeout(), "{error}");
}

#[tokio::test]
async fn heads_are_bounded() {
    let many: String = (0..200).map(|number| format!("\r\nx-{number}: y")).collect();
    let large = format!("\r\nx: {}", "y".repeat(1 << 20));
    for head in [many, large] {
        let server = Server::start(&format!("HTTP/1.1 200 OK{head}"), Body::Whole(Vec::new())).await;
        let error = get(&server.url, limits()).await.unwrap_err();
        assert!(matches!(error, TransportError::NoResponse(_)), "{error}");
    }
}

#[tokio::test]
async fn redirects_are_returned_and_not_followed() {
    let target = Server::start("HTTP/1.1 200 OK", Body::Whole(Vec::new())).await;
    for status in [301, 302, 303, 307, 308] {
        let head = format!("HTTP/1.1 {status} X\r\nlocation: {}\r\ncontent-length: 0", target.url);
        let server = Server::start(&head, Body::Whole(Vec::new())).await;
        assert_eq!(get(&server.url, limits()).await.unwrap().status().as_u16(), status);
    }
    assert_eq!(target.connections(), 0);
}

#[tokio::test]
async fn hosts_of_others_have_public_addresses() {
    let server = Server::start("HTTP/1.1 200 OK", Body::Whole(Vec::new())).await;
    let public = Transport::builder().roots(Roots::None).addresses(Addresses::Public).build().unwrap();
    let port = server.url.port().unwrap();
    for host in ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "localhost", "10.0.0.1"] {
        let url = Url::parse(&format!("http://{host}:{port}/")).unwrap();
        let error = public.send(Request::get(url), limits()).await.unwrap_err();
        assert!(matches!(error, TransportError::Unreachable(_)), "{host}: {error:?}");
        assert!(error.to_string().contains("which is not configured"), "{host}: {error}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn streams_end_at_the_maximum_of_an_event_and_of_events() {
    let events = |framing| EventLimits { framing, max_event_bytes: 4096, max_events: 100, max_values: 1000 };
    let limits = ResponseLimits { max_bytes: 64 << 20, ..limits() };
    for (framing, piece) in [
        (Framing::ServerSent, "x"),
        (Framing::ServerSent, "data: x\n"),
        (Framing::ServerSent, ": x\n\n"),
        (Framing::ServerSent, "data: x\r\r"),
        (Framing::Lines, "x"),
        (Framing::Lines, "{}\n"),
    ] {
        let server = Server::start("HTTP/1.1 200 OK", Body::Floods(piece.repeat(4096).into_bytes())).await;
        let mut pieces = EventPieces::new(get(&server.url, limits).await.unwrap(), events(framing));
        let error = loop {
            match pieces.next_piece().await {
                Ok(piece) => assert!(piece.is_some()),
                Err(error) => break error,
            }
        };
        let is_expected = matches!(error, TransportError::EventTooLarge(4096) | TransportError::TooManyEvents(100));
        assert!(is_expected, "{piece:?}: {error}");
        assert!(server.sent_bytes() < SLACK_BYTES, "{piece:?}: {}", server.sent_bytes());
    }
}

#[tokio::test]
async fn pieces_of_a_stream_end_where_events_do() {
    let text = "data: one\n\n: two\n\ndata: three\n\ndata: cut";
    let server = Server::start("HTTP/1.1 200 OK", Body::Whole(text.into())).await;
    let events = EventLimits { framing: Framing::ServerSent, max_event_bytes: 100, max_events: 10, max_values: 10 };
    let mut pieces = EventPieces::new(get(&server.url, limits()).await.unwrap(), events);
    let mut all = Vec::new();
    while let Some(piece) = pieces.next_piece().await.unwrap() {
        assert!(piece.ends_with(b"\n\n") || &piece[..] == b"data: cut", "{piece:?}");
        all.extend_from_slice(&piece);
    }
    assert_eq!(all, text.as_bytes());
}

#[tokio::test]
async fn dropping_a_response_closes_its_connection() {
    let server = Server::start("HTTP/1.1 200 OK", flood()).await;
    drop(transport().send(Request::get(server.url.clone()), limits()).await.unwrap());
    tokio::time::sleep(Duration::from_millis(200)).await;
    let sent = server.sent_bytes();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(server.sent_bytes(), sent);
}

#[tokio::test(flavor = "current_thread")]
async fn tasks_run_elsewhere_and_end_with_their_owner() {
    let here = std::thread::current().id();
    let there = spawn(async { std::thread::current().id() }).unwrap().await.unwrap();
    assert_ne!(here, there);
    assert!(spawn(async { panic!("a task that panics") }).unwrap().await.is_none());
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    drop(spawn(async move {
        std::future::pending::<()>().await;
        drop(sender);
    }));
    assert!(receiver.await.is_err());
}
