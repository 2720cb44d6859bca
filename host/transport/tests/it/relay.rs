//! The relay for a library with an HTTP client of its own.

use std::time::Duration;

use fumehood_transport::{EventLimits, Framing, Relay, ResponseLimits, Translation, TransportError, Url};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::server::{Body, Server, limits, transport};

const EVENTS: EventLimits =
    EventLimits { framing: Framing::ServerSent, max_event_bytes: 4096, max_events: 100, max_values: 1000 };

/// Status and text of a response, as the library sees it; `None` if the connection was lost off.
type ResponseText = Option<(u16, String)>;

/// Sends a request of the library through a relay. Returns what the library sees, and the outcome.
async fn relay(base: &Url, limits: ResponseLimits) -> (ResponseText, Result<(), TransportError>) {
    let relay = Relay::open().await.unwrap();
    let url = format!("{}v1/chat?alt=sse", relay.base_url());
    let library = async {
        let response = Relay::client().unwrap().post(url).body("{}").send().await.ok()?;
        let status = response.status().as_u16();
        Some((status, response.text().await.ok()?))
    };
    let transport = transport();
    tokio::join!(library, relay.serve(&transport, base, limits, EVENTS))
}

#[tokio::test]
async fn passes_a_response_on() {
    for (status, text) in [(200, "data: a\n\ndata: b\n\n"), (200, ""), (429, "slow down"), (302, "")] {
        let server = Server::start(&format!("HTTP/1.1 {status} X\r\nx-own: 1"), Body::Whole(text.into())).await;
        let (seen, outcome) = relay(&server.url, limits()).await;
        assert_eq!(seen, Some((status, text.to_owned())));
        assert!(outcome.is_ok(), "{outcome:?}");
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn keeps_the_bounds_for_the_library() {
    let coded = "HTTP/1.1 200 OK\r\ncontent-encoding: gzip";
    for (head, body, is_expected) in [
        ("HTTP/1.1 200 OK", flood("x"), "EventTooLarge"),
        ("HTTP/1.1 200 OK", flood(": x\n\n"), "TooManyEvents"),
        ("HTTP/1.1 200 OK", flood("\n\n"), "TooLarge"),
        (coded, flood("x"), "Coded"),
    ] {
        let server = Server::start(head, body).await;
        let (seen, outcome) = relay(&server.url, limits()).await;
        assert_eq!(seen, None);
        let error = format!("{:?}", outcome.unwrap_err());
        assert!(error.starts_with(is_expected), "{error}");
    }
    let server = Server::start("HTTP/1.1 500 X", flood("x")).await;
    let (seen, outcome) = relay(&server.url, limits()).await;
    assert!(seen.is_some_and(|(status, text)| status == 500 && text.len() == 64 << 10));
    assert!(outcome.is_ok(), "{outcome:?}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (seen, outcome) = relay(&Url::parse(&format!("http://{closed}/")).unwrap(), limits()).await;
    assert_eq!(seen, None);
    assert!(matches!(outcome, Err(TransportError::Unreachable(_))), "{outcome:?}");
}

fn flood(text: &str) -> Body {
    Body::Floods(text.repeat(8192).into_bytes())
}

/// A translation that makes one event of each piece, drops those of `x`, and ends the stream itself if it has seen `b`.
struct CountingTranslation {
    pieces: usize,
    has_ended: bool,
}

impl Translation for CountingTranslation {
    fn translate(&mut self, piece: &[u8]) -> Vec<u8> {
        self.has_ended |= piece.starts_with(b"data: b");
        if piece.starts_with(b"data: x") {
            return Vec::new();
        }
        self.pieces += 1;
        format!("{}\n", self.pieces).into_bytes()
    }

    fn finish(&mut self) -> Vec<u8> {
        if self.has_ended { b"end".to_vec() } else { Vec::new() }
    }
}

#[tokio::test]
async fn translates_whole_events_and_ends_what_is_complete() {
    for (head, body, expected, is_ok) in [
        ("HTTP/1.1 200 OK", "data: a\n\n", Some("1\n"), true),
        ("HTTP/1.1 200 OK", "data: x\n\n", Some(""), true),
        ("HTTP/1.1 200 OK", "data: b\n\n", Some("1\nend"), true),
        // The connection breaks off: only what is complete is an answer.
        ("HTTP/1.1 200 OK\r\ncontent-length: 999", "data: a\n\n", None, false),
        ("HTTP/1.1 200 OK\r\ncontent-length: 999", "data: b\n\n", Some("1\nend"), true),
        ("HTTP/1.1 500 X", "data: b\n\n", Some("data: b\n\n"), true),
    ] {
        let server = Server::start(head, Body::Whole(body.into())).await;
        let relay =
            Relay::open().await.unwrap().translation(Box::new(CountingTranslation { pieces: 0, has_ended: false }));
        let url = format!("{}v1", relay.base_url());
        let library = async { Relay::client().unwrap().post(url).send().await.ok()?.text().await.ok() };
        let transport = transport();
        let (seen, outcome) = tokio::join!(library, relay.serve(&transport, &server.url, limits(), EVENTS));
        assert_eq!((seen.as_deref(), outcome.is_ok()), (expected, is_ok), "{head} {body:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn serves_nobody_without_its_token() {
    let server = Server::start("HTTP/1.1 200 OK", Body::Whole(b"secret".to_vec())).await;
    let relay = Relay::open().await.unwrap();
    let base = Url::parse(relay.base_url()).unwrap();
    let host = base.socket_addrs(|| None).unwrap()[0];
    let token = base.path().to_owned();
    let other = token.replace(token.as_bytes()[1] as char, "x");
    let ask = async move |path: &str| {
        let mut stream = TcpStream::connect(host).await.unwrap();
        let request = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let transport = transport();
    let serving = relay.serve(&transport, &server.url, limits(), EVENTS);
    let asking = async {
        // Connections that say nothing take no other's place.
        let _silent = [TcpStream::connect(host).await.unwrap(), TcpStream::connect(host).await.unwrap()];
        for path in ["/", "/v1/chat", &other] {
            assert!(ask(path).await.starts_with("HTTP/1.1 404"), "{path}");
        }
        assert_eq!(server.connections(), 0);
        assert!(ask(&format!("{token}v1/chat")).await.contains("secret"));
    };
    let both = async { tokio::join!(serving, asking).0 };
    tokio::time::timeout(Duration::from_secs(10), both).await.unwrap().unwrap();
    // One request is all that it serves.
    assert!(TcpStream::connect(host).await.is_err());
}
