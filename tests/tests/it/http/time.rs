//! Slow servers: a call ends at its deadline, and its connections with it.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use fumehood::permission::http::HttpLimits;
use fumehood::{ErrorKind, Host};

use super::names::trusting;
use super::server::{Server, Wire};
use super::stage::{DetailedRequest, LOCAL, Stage, failed, requests};

const DEADLINE: Duration = Duration::from_millis(300);
/// Maximum duration on a busy machine.
const GENEROUS: Duration = Duration::from_secs(2);

/// Makes a request that is not answered in full, and checks that it ends at the deadline.
async fn ends_in_time(stage: &Stage, request: &str) {
    let started = Instant::now();
    let result = stage.ask(DetailedRequest { deadline: DEADLINE, ..DetailedRequest::new(request) }).await;
    let took = started.elapsed();
    failed(&result, ErrorKind::Deadline, "did not finish");
    assert!(took >= DEADLINE && took < DEADLINE + GENEROUS, "{request}: {took:?}");
}

/// Writes `drop` again and again until the client disconnects.
fn drip(stream: &mut dyn Wire, drop: &str) {
    while stream.write_all(drop.as_bytes()).and_then(|()| stream.flush()).is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Row 47: slow-loris.
#[tokio::test]
async fn a_slow_answer_ends_with_the_call() {
    for beginning in [
        // A body that comes byte by byte, headers that never end, interim answers that never end, and nothing at all.
        ("HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n", "x"),
        ("HTTP/1.1 200 OK\r\n", "x: y\r\n"),
        ("", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("", ""),
    ] {
        let server = Server::start(move |stream, _| {
            let _ = stream.write_all(beginning.0.as_bytes());
            match beginning.1 {
                // The read returns once the client has disconnected.
                "" => drop(stream.read(&mut [0])),
                more => drip(stream, more),
            }
        });
        let at = server.at("slow.test");
        let stage = Stage::new(requests(&[&format!("GET http://{at}/**")], LOCAL, HttpLimits::default())).await;
        ends_in_time(&stage, &format!("GET http://{at}/")).await;
        server.seen.closed();
    }
}

#[tokio::test]
async fn a_silent_handshake_ends_with_the_call() {
    let server = Server::start_raw(|mut stream, _| drop(std::io::Read::read_to_end(&mut stream, &mut Vec::new())));
    let at = server.at("slow.test");
    let (builder, _config) = trusting("slow.test");
    let grant = requests(&[&format!("GET https://{at}/**")], LOCAL, HttpLimits::default());
    let stage = Stage::with(builder, grant).await;
    ends_in_time(&stage, &format!("GET https://{at}/")).await;
    server.seen.closed();
}

/// A server whose queue of waiting connections is full does not even accept the next one.
#[tokio::test]
async fn a_connection_that_is_never_made_ends_with_the_call() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, listen, socket};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    listen(&socket, 0).unwrap();
    let address = std::net::SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
    let patience = Duration::from_millis(200);
    let waiting: Vec<_> = std::iter::repeat_with(|| TcpStream::connect_timeout(&address, patience)).take(4).collect();
    assert!(waiting.iter().any(Result::is_err), "the line is full");
    let at = format!("dark.test:{}", address.port());
    let stage = Stage::new(requests(&[&format!("GET http://{at}/**")], LOCAL, HttpLimits::default())).await;
    ends_in_time(&stage, &format!("GET http://{at}/")).await;
    // The grant may set a shorter timeout for connecting than the deadline.
    let short = HttpLimits { connect: Duration::from_millis(50), ..HttpLimits::default() };
    let stage = Stage::new(requests(&[&format!("GET http://{at}/**")], LOCAL, short)).await;
    failed(&stage.fetch(&format!("GET http://{at}/")).await, ErrorKind::ToolFailed, "connection-timeout");
}

#[tokio::test]
async fn the_least_of_all_patience_counts() {
    let server = Server::start(|stream, head| {
        if head.starts_with("GET /body") {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf");
            let _ = stream.flush();
        }
        drop(stream.read(&mut [0]));
    });
    let at = server.at("slow.test");
    let rule = format!("GET http://{at}/**");
    let usual = HttpLimits::default();
    let short = Duration::from_millis(50);
    let impatient = HttpLimits { first_byte: short, between_bytes: short, ..usual };
    for (limits, patience_ms) in [(impatient, 0), (impatient, 600_000), (usual, 50)] {
        let stage = Stage::new(requests(&[&rule], LOCAL, limits)).await;
        for (path, told) in [("/head", "HTTP-response-timeout"), ("/body", "broken-after")] {
            let request = format!("GET http://{at}{path}");
            let started = Instant::now();
            failed(
                &stage.ask(DetailedRequest { patience_ms, ..DetailedRequest::new(&request) }).await,
                ErrorKind::ToolFailed,
                told,
            );
            assert!(started.elapsed() < GENEROUS);
        }
    }
    server.seen.closed();
}

#[tokio::test]
async fn a_name_server_that_is_silent_ends_with_the_call() {
    struct SilentResolver;
    impl fumehood::Resolver for SilentResolver {
        fn resolve<'a>(
            &'a self,
            _: &'a str,
        ) -> std::pin::Pin<Box<dyn Future<Output = std::io::Result<Vec<std::net::IpAddr>>> + Send + 'a>> {
            Box::pin(std::future::pending())
        }
    }
    let grant =
        |connect| requests(&["GET http://slow.test/**"], LOCAL, HttpLimits { connect, ..HttpLimits::default() });
    let builder = || Host::builder().resolver(std::sync::Arc::new(SilentResolver));
    let stage = Stage::with(builder(), grant(Duration::from_secs(60))).await;
    ends_in_time(&stage, "GET http://slow.test/").await;
    let stage = Stage::with(builder(), grant(Duration::from_millis(50))).await;
    failed(&stage.fetch("GET http://slow.test/").await, ErrorKind::ToolFailed, "DNS-timeout");
}
