//! Admission of requests: clients, sizes and numbers of them, and the effects of a connection that ends.

use std::time::{Duration, Instant};

use fumehood::mcp::{Access, HttpError, HttpListener, HttpOptions, Server, ServerOptions};
use fumehood::{Host, listener::Listener};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::test_server::{Face, TOKEN, TestServer, bearer, http_options, tokens};
use crate::mcp::raw::{PATIENCE, host, running};

/// Maximum size of a body, in bytes.
const BODY: usize = 16 << 10;
/// Maximum size of a head, in bytes.
const HEAD: usize = 32 << 10;

async fn served_with(face: Face, host: &Host, http: HttpOptions) -> TestServer {
    TestServer::with(face, host, http, ServerOptions::default()).await
}

/// Returns a short call.
fn add(served: &TestServer, headers: &[(&str, &str)]) -> String {
    served.call(headers, "calculator__add", &json!({"a": 3, "b": 5}))
}

fn spin(served: &TestServer) -> String {
    served.call(&[], "spin__run", &json!({}))
}

#[tokio::test]
async fn anybody_hears_whether_the_server_is_up() {
    let host = host(&["calculator"], &[]).await;
    for face in Face::ALL {
        let served = TestServer::new(face, &host, tokens()).await;
        let ask = async |method: &str, path: &str| {
            served.send(&format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nHost: probe\r\n\r\n")).await
        };
        let (status, answer) = ask("GET", "/health").await;
        assert_eq!(status, 200, "{face:?}: {answer}");
        assert!(
            answer.ends_with("{\"status\":\"ok\"}") && answer.contains("content-type: application/json"),
            "{answer}"
        );
        assert!(!answer.to_lowercase().contains("access-control"), "pages of others cannot read it: {answer}");
        assert_eq!(ask("HEAD", "/health").await.0, 200);
        assert_eq!(ask("POST", "/health").await.0, 405, "{face:?}");
        for path in ["/health/", "/", "/v1/tools"] {
            assert_eq!(ask("GET", path).await.0, 403, "{face:?}: {path}");
        }
        served.end().await;
    }
}

#[tokio::test]
async fn no_face_admits_foreign_pages_or_strangers() {
    let host = host(&["calculator"], &[]).await;
    for face in Face::ALL {
        let served = TestServer::new(face, &host, tokens()).await;
        let token = bearer(TOKEN);
        let right = ("Authorization", token.as_str());
        let own = format!("http://{}", served.address);
        for (headers, expected) in [
            (vec![], 401),
            (vec![("Authorization", "Bearer a-token-for-nobody")], 401),
            (vec![right], 200),
            (vec![right, ("Origin", own.as_str())], 200),
            (vec![right, ("Origin", "https://evil.example")], 403),
            (vec![right, ("Origin", "null")], 403),
            // A name of the attacker that resolves to this machine.
            (vec![right, ("Host", "evil.example")], 403),
            (vec![right, ("Host", "evil.example:80")], 403),
            (vec![("Host", "evil.example")], 403),
            (vec![right, ("Accept", "text/html")], 406),
            (vec![right, ("Content-Type", "text/plain")], 415),
        ] {
            for request in [served.greeting(&headers), add(&served, &headers)] {
                let is_without_body = request.starts_with("GET");
                let expected = if is_without_body && expected == 415 { 200 } else { expected };
                let (status, answer) = served.send(&request).await;
                assert_eq!(status, expected, "{face:?} {headers:?}: {answer}");
                assert!(answer.contains("x-content-type-options: nosniff"), "{answer}");
                assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
                assert_eq!(answer.contains("www-authenticate: Bearer"), expected == 401, "{answer}");
            }
        }
        served.end().await;
    }
}

#[tokio::test]
async fn what_others_could_reach_is_never_open() {
    let host = host(&[], &[]).await;
    let server = Server::new(std::sync::Arc::new(host), ServerOptions::default());
    let open = |address: &str| HttpOptions::new(address.parse().unwrap(), Access::Anyone);
    for address in ["0.0.0.0:0", "[::]:0"] {
        assert!(matches!(HttpListener::bind(&server, open(address)).await, Err(HttpError::OpenToAll(_))), "{address}");
        assert!(matches!(Listener::bind(open(address)).await, Err(HttpError::OpenToAll(_))), "{address}");
    }
    let nobody = || http_options(Access::Tenants(Vec::new()));
    assert!(matches!(HttpListener::bind(&server, nobody()).await, Err(HttpError::Nobody)));
    assert!(matches!(Listener::bind(nobody()).await, Err(HttpError::Nobody)));
}

#[tokio::test]
async fn a_request_has_a_largest_body_and_head() {
    let host = host(&["calculator"], &[]).await;
    for face in Face::ALL {
        let http = HttpOptions { body_bytes: BODY, ..http_options(Access::Anyone) };
        let served = served_with(face, &host, http).await;
        let whole = add(&served, &[]);
        let (head, body) = whole.split_at(whole.find("\r\n\r\n").unwrap() + 4);
        let padded = |size: usize| format!("{body}{}", " ".repeat(size - body.len()));
        let length = format!("Content-Length: {}\r\n", body.len());
        assert!(head.contains(&length), "{head}");
        let sized =
            |size: usize| format!("{}{}", head.replace(&length, &format!("Content-Length: {size}\r\n")), padded(size));
        assert_eq!(served.send(&sized(BODY)).await.0, 200, "{face:?}");
        assert_eq!(served.send(&sized(BODY + 1)).await.0, 413, "{face:?}");
        // The limit holds for a body of undeclared length too.
        let chunked = |size: usize| {
            let head = head.replace(&length, "Transfer-Encoding: chunked\r\n");
            format!("{head}{size:x}\r\n{}\r\n0\r\n\r\n", padded(size))
        };
        assert_eq!(served.send(&chunked(BODY)).await.0, 200, "{face:?}");
        assert_eq!(served.send(&chunked(BODY + 1)).await.0, 413, "{face:?}");
        let padded_to = |size: usize| {
            let empty = add(&served, &[("X-Long", "")]);
            let head = empty.find("\r\n\r\n").unwrap() + 4;
            add(&served, &[("X-Long", &"x".repeat(size - head))])
        };
        assert_eq!(served.send(&padded_to(HEAD)).await.0, 200, "{face:?}");
        assert_eq!(served.send(&padded_to(HEAD + 1)).await.0, 431, "{face:?}");
        assert_eq!(served.send(&padded_to(1 << 20)).await.0, 431, "{face:?}");
        let many = |count: usize| {
            let usual = head.matches("\r\n").count() - 2;
            add(&served, &vec![("X-Many", "x"); count - usual])
        };
        assert_eq!(served.send(&many(64)).await.0, 200, "{face:?}");
        assert_eq!(served.send(&many(65)).await.0, 431, "{face:?}");
        served.end().await;
    }
}

#[tokio::test]
async fn requests_are_counted() {
    let host = host(&["calculator"], &["spin"]).await;
    for face in Face::ALL {
        let http = HttpOptions { requests: 2, ..http_options(Access::Anyone) };
        let served = served_with(face, &host, http).await;
        let mut busy = Vec::new();
        for count in 1..=2 {
            busy.push(served.open(&spin(&served)).await);
            running(&host, count).await;
        }
        let (status, answer) = served.send(&add(&served, &[])).await;
        assert!(
            status == 429 && answer.contains("retry-after: 1") && answer.contains("concurrent"),
            "{face:?}: {answer}"
        );
        drop(busy.pop());
        running(&host, 1).await;
        let (status, answer) = served.send(&add(&served, &[])).await;
        assert!(status == 200, "{face:?}: {answer}");
        drop(busy);
        running(&host, 0).await;
        served.end().await;
    }
}

#[tokio::test]
async fn a_busy_connection_makes_no_room_and_an_idle_one_does() {
    let host = host(&["calculator"], &["spin"]).await;
    for face in Face::ALL {
        let http = HttpOptions { connections: 1, ..http_options(Access::Anyone) };
        let served = served_with(face, &host, http).await;
        let busy = served.open(&spin(&served)).await;
        running(&host, 1).await;
        let (status, answer) = served.send(&served.greeting(&[])).await;
        assert!(status == 503 && answer.contains("connection: close"), "{face:?}: {answer}");
        assert_eq!(host.running(), 1);
        drop(busy);
        running(&host, 0).await;
        // An idle connection, kept open after a response.
        let mut idle = TcpStream::connect(served.address).await.unwrap();
        let kept = served.greeting(&[]).replace("Connection: close\r\n", "");
        idle.write_all(kept.as_bytes()).await.unwrap();
        let end: &[u8] = if face == Face::Mcp { b"0\r\n\r\n" } else { b"{\"calls\":[]}" };
        let mut answer = Vec::new();
        while !answer.ends_with(end) {
            tokio::time::timeout(PATIENCE, idle.read_buf(&mut answer)).await.expect("no answer").unwrap();
        }
        let (status, answer) = served.send(&served.greeting(&[])).await;
        assert_eq!(status, 200, "{face:?}: {answer}");
        served.end().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_stops_its_guest() {
    let host = host(&[], &["spin"]).await;
    for face in Face::ALL {
        let served = TestServer::new(face, &host, Access::Anyone).await;
        let calling = served.open(&spin(&served)).await;
        running(&host, 1).await;
        let left = Instant::now();
        drop(calling);
        running(&host, 0).await;
        assert!(left.elapsed() < Duration::from_secs(2), "{face:?}: {:?}", left.elapsed());
        served.end().await;
    }
}

#[tokio::test]
async fn stopping_takes_bounded_time_whatever_runs() {
    let host = host(&[], &["spin"]).await;
    for face in Face::ALL {
        let served = TestServer::new(face, &host, Access::Anyone).await;
        let mut calling = served.open(&spin(&served)).await;
        running(&host, 1).await;
        let stopped = Instant::now();
        served.end().await;
        running(&host, 0).await;
        assert!(stopped.elapsed() < Duration::from_secs(3), "{face:?}: {:?}", stopped.elapsed());
        let mut answer = String::new();
        let _reset = calling.read_to_string(&mut answer).await;
        assert!(
            !answer.contains("structuredContent") && !answer.starts_with("HTTP/1.1 200 OK\r\ncontent-length"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn heads_with_two_readings_are_refused() {
    let host = host(&["calculator"], &[]).await;
    for face in Face::ALL {
        let served = TestServer::new(face, &host, Access::Anyone).await;
        let plain = add(&served, &[]);
        assert_eq!(served.send(&plain).await.0, 200, "{face:?}");
        let length = plain.lines().find(|line| line.starts_with("Content-Length")).unwrap().to_owned();
        let chunk = format!("{:x}\r\n", plain.split("\r\n\r\n").nth(1).unwrap().len());
        let chunked = plain.replacen(&length, "Transfer-Encoding: chunked", 1);
        let chunked = format!("{}\r\n0\r\n\r\n", chunked.replacen("\r\n\r\n", &format!("\r\n\r\n{chunk}"), 1));
        let (status, answer) = served.send(&chunked).await;
        assert!(status == 200 && answer.contains("connection: close"), "{face:?}: {answer}");
        for bad in [
            plain.replacen("\r\nHost", "\nHost", 1),
            plain.replacen("\r\n\r\n", "\n\n", 1),
            plain.replacen("\r\n\r\n", "\r\n\n", 1),
            plain.replacen(&length, &format!("{length}\r\nTransfer-Encoding: chunked"), 1),
            chunked.replacen("Transfer-Encoding: chunked", &format!("{length}\r\nTransfer-Encoding: chunked"), 1),
            chunked.replacen("chunked", "gzip, chunked", 1),
            plain.replacen(&length, &format!("{length}\r\n{length}"), 1),
            plain.replacen("Content-Length: ", "Content-Length: +", 1),
            plain.replacen("Content-Length:", "Content-Length :", 1),
            plain.replacen("\r\nHost", "\r\nX: a\rContent-Length: 0\r\nHost", 1),
        ] {
            assert_ne!(bad, plain);
            let (status, answer) = served.send(&bad).await;
            assert_eq!(status, 400, "{face:?} {bad:?}: {answer}");
        }
        // The same behind a request on one connection.
        let first = plain.replacen("Connection: close\r\n", "", 1);
        let (_, answers) = served.send(&format!("{first}{plain}")).await;
        assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{face:?}: {answers}");
        let (_, answers) = served.send(&format!("{first}{}", plain.replacen("\r\nHost", "\nHost", 1))).await;
        assert_eq!(answers.matches("HTTP/1.1 200").count(), 1, "{face:?}: {answers}");
        assert_eq!(answers.matches("HTTP/1.1 400").count(), 1, "{face:?}: {answers}");
        served.end().await;
    }
}

#[tokio::test]
async fn bodies_with_content_codings_are_refused() {
    let host = host(&["calculator"], &[]).await;
    for face in Face::ALL {
        let served = TestServer::new(face, &host, Access::Anyone).await;
        for coding in ["gzip", "br", "deflate, gzip", "GZIP", "unknown", ""] {
            let (status, answer) = served.send(&add(&served, &[("Content-Encoding", coding)])).await;
            assert_eq!(status, 415, "{face:?} {coding:?}: {answer}");
            assert!(
                answer.contains("accept-encoding: identity") && answer.contains("send the body as it is"),
                "{answer}"
            );
        }
        assert_eq!(served.send(&add(&served, &[("Content-Encoding", "identity")])).await.0, 200, "{face:?}");
        served.end().await;
    }
}
