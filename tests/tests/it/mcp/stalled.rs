//! Streamable HTTP while a thousand sockets stall: an honest client is answered within a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::mcp::{Access, Entry, HttpListener, HttpOptions, Library, Server, ServerOptions, Source};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::http::{OTHER, Served, TOKEN, initialize, stateless, tokens};
use super::raw::host;

/// Number of sockets that stall.
const SOCKETS: usize = 1000;
/// Maximum wait of an honest client.
const SOON: Duration = Duration::from_secs(1);
/// Size of a resource, in bytes: more than the kernel buffers for a peer that reads nothing.
const LARGE: usize = 512 << 10;

/// The phase in which a socket stalls.
#[derive(Debug, Clone, Copy)]
enum Stall {
    Silent,
    HalfHead,
    HalfBody,
    ReadsNothing,
}

/// Raises the limit on open files, because both ends of each socket are in this process.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = 4096;
    if limit.current.is_some_and(|current| current < wanted) {
        let current = limit.maximum.map_or(wanted, |most| most.min(wanted));
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum: limit.maximum }).unwrap();
    }
}

async fn served(access: Access) -> Served {
    let host = host(&["calculator"], &[]).await;
    let mut library = Library::default();
    let entry = Entry {
        uri: "test://large".to_owned(),
        name: "large".to_owned(),
        title: None,
        description: None,
        mime_type: "text/plain".to_owned(),
        source: Source::text("x".repeat(LARGE)),
    };
    library.add_entry(entry).unwrap();
    let options = ServerOptions { library: Arc::new(library), ..ServerOptions::default() };
    let server = Server::new(Arc::new(host), options);
    let http = HttpOptions::new("127.0.0.1:0".parse().unwrap(), access);
    Served::of(HttpListener::bind(&server, http).await.unwrap())
}

fn stalled_request(served: &Served, stall: Stall, token: Option<&str>) -> Vec<u8> {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    headers.extend([("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "resources/read")]);
    headers.push(("Mcp-Name", "test://large"));
    let request = served.post(&headers, &stateless("resources/read", json!({"uri": "test://large"})));
    let body = request.find("\r\n\r\n").unwrap() + 4;
    let end = match stall {
        Stall::Silent => 0,
        Stall::HalfHead => body / 2,
        Stall::HalfBody => body + (request.len() - body) / 2,
        Stall::ReadsNothing => request.len(),
    };
    request.as_bytes()[..end].to_vec()
}

async fn connect(served: &Served) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(served.address).await.unwrap()
}

async fn check(access: Access, stall: Stall, hostile: Option<&str>, honest: Option<&str>) {
    allow_many_files();
    let served = served(access).await;
    let request = stalled_request(&served, stall, hostile);
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        let mut socket = connect(&served).await;
        // A connection that the server has closed already cannot be written.
        let _reset = socket.write_all(&request).await;
        sockets.push(socket);
    }
    let bearer = honest.map(|token| format!("Bearer {token}"));
    let headers: Vec<(&str, &str)> = bearer.iter().map(|bearer| ("Authorization", bearer.as_str())).collect();
    for _ in 0..3 {
        let asked = Instant::now();
        let (status, answer) = served.send(&served.post(&headers, &initialize())).await;
        let took = asked.elapsed();
        assert!(status == 200 && took < SOON, "{stall:?}: {status} after {took:?}: {answer}");
    }
    served.end().await;
}

async fn check_all(access: fn() -> Access, hostile: Option<&str>, honest: Option<&str>) {
    for stall in [Stall::Silent, Stall::HalfHead, Stall::HalfBody, Stall::ReadsNothing] {
        check(access(), stall, hostile, honest).await;
    }
}

#[tokio::test]
async fn stalled_sockets_keep_nobody_out_without_a_token() {
    check_all(|| Access::Anyone, None, None).await;
}

#[tokio::test]
async fn stalled_sockets_without_the_token_keep_nobody_out() {
    check_all(tokens, None, Some(TOKEN)).await;
}

#[tokio::test]
async fn stalled_sockets_of_one_principal_keep_no_other_out() {
    check_all(tokens, Some(OTHER), Some(TOKEN)).await;
}

#[tokio::test]
async fn a_response_that_nobody_reads_is_given_up() {
    let served = served(Access::Anyone).await;
    let request = stalled_request(&served, Stall::ReadsNothing, None);
    let mut socket = connect(&served).await;
    socket.write_all(&request).await.unwrap();
    tokio::time::sleep(Duration::from_secs(12)).await;
    let mut answer = Vec::new();
    let read = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut answer)).await;
    let read = read.expect("the connection is still open");
    assert!(read.is_err() || answer.len() < LARGE, "{} bytes", answer.len());
    served.end().await;
}
