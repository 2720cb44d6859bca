//! A listener while a thousand sockets stall: an honest client is answered within a second.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fumehood::mcp::{Access, Entry, Library, ServerOptions, Source};
use fumehood::{Host, Load};
use fumehood_tests::contract::{Answer, ToolDescription};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};

use super::test_server::{Face, OTHER, TOKEN, TestServer, bearer, http_options, stateless, tokens};
use crate::mcp::raw::host;

/// Number of sockets that stall.
const SOCKETS: usize = 1000;
/// Maximum wait of an honest client.
const SOON: Duration = Duration::from_secs(1);
/// Size of a response, in bytes: more than the kernel buffers for a peer that reads nothing.
const LARGE: usize = 512 << 10;
/// Size of a description, in bytes, and the number of tools that have one: together a list of [`LARGE`] bytes at least.
const DESCRIPTION: usize = 30 << 10;
const TOOLS: usize = 20;

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

/// Creates a host whose list of tools is large.
async fn large_host() -> Host {
    let host = host(&["calculator"], &[]).await;
    let schema = json!({"type": "object", "additionalProperties": true, "description": "x".repeat(DESCRIPTION)});
    let tools: Vec<_> =
        (0..TOOLS).map(|at| ToolDescription::new(&format!("tool{at}")).taking(&schema.to_string())).collect();
    let bytes = fumehood_tests::answering(&tools, Answer::Nothing).unwrap();
    host.load(Load::bytes("large", bytes)).await.unwrap();
    host
}

async fn served(face: Face, host: &Host, access: Access) -> TestServer {
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
    TestServer::with(face, host, http_options(access), options).await
}

fn stalled_request(served: &TestServer, stall: Stall, token: Option<&str>) -> Vec<u8> {
    let token = token.map(bearer);
    let mut headers: Vec<(&str, &str)> = token.iter().map(|token| ("Authorization", token.as_str())).collect();
    let request = match (served.face, stall) {
        (Face::Mcp, _) => {
            headers.extend([("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "resources/read")]);
            headers.push(("Mcp-Name", "test://large"));
            served.post(&headers, &stateless("resources/read", json!({"uri": "test://large"})))
        }
        (Face::Http, Stall::ReadsNothing) => served.request("GET /v1/tools", &headers, ""),
        (Face::Http, _) => served.call(&headers, "calculator__add", &json!({"a": 3, "b": 5})),
    };
    let body = request.find("\r\n\r\n").unwrap() + 4;
    let end = match stall {
        Stall::Silent => 0,
        Stall::HalfHead => body / 2,
        Stall::HalfBody => body + (request.len() - body) / 2,
        Stall::ReadsNothing => request.len(),
    };
    request.as_bytes()[..end].to_vec()
}

async fn connect(served: &TestServer) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(served.address).await.unwrap()
}

async fn check(served: TestServer, stall: Stall, hostile: Option<&str>, honest: Option<&str>) {
    let request = stalled_request(&served, stall, hostile);
    let mut sockets = Vec::new();
    for _ in 0..SOCKETS {
        let mut socket = connect(&served).await;
        // A connection that the server has closed already cannot be written.
        let _reset = socket.write_all(&request).await;
        sockets.push(socket);
    }
    let token = honest.map(bearer);
    let headers: Vec<(&str, &str)> = token.iter().map(|token| ("Authorization", token.as_str())).collect();
    for _ in 0..3 {
        let asked = Instant::now();
        let (status, answer) = served.send(&served.greeting(&headers)).await;
        let took = asked.elapsed();
        let face = served.face;
        assert!(status == 200 && took < SOON, "{face:?} {stall:?}: {status} after {took:?}: {answer}");
    }
    served.end().await;
}

async fn check_all(access: fn() -> Access, hostile: Option<&str>, honest: Option<&str>) {
    allow_many_files();
    let host = large_host().await;
    for face in Face::ALL {
        for stall in [Stall::Silent, Stall::HalfHead, Stall::HalfBody, Stall::ReadsNothing] {
            check(served(face, &host, access()).await, stall, hostile, honest).await;
        }
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
    let host = large_host().await;
    let mut waiting = Vec::new();
    for face in Face::ALL {
        let served = served(face, &host, Access::Anyone).await;
        let request = stalled_request(&served, Stall::ReadsNothing, None);
        let mut socket = connect(&served).await;
        socket.write_all(&request).await.unwrap();
        waiting.push((served, socket));
    }
    tokio::time::sleep(Duration::from_secs(12)).await;
    for (served, mut socket) in waiting {
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut answer)).await;
        let read = read.expect("the connection is still open");
        assert!(read.is_err() || answer.len() < LARGE, "{:?}: {} bytes", served.face, answer.len());
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{:?}: it was a small refusal", served.face);
        served.end().await;
    }
}
