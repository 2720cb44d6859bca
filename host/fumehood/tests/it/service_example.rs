//! The example of a service with axum and layers of tower, called over HTTP.

#[path = "../../examples/axum_service.rs"]
mod axum_service;

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Sends a request as a tenant. Returns the status and the body.
async fn request(address: SocketAddr, tenant: &str, line: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer token-of-{tenant}\r\nconnection: close\r\n\
         content-length: {length}"
    );
    stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[tokio::test]
async fn axum_example_serves_each_tenant_its_own_notes() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(async move {
        let stopped = async { drop(stopped.await) };
        axum_service::serve(listener, stopped).await.map_err(|error| error.to_string())
    });

    let (status, tools) = request(address, "ann", "GET /tools", "").await;
    let tools: Vec<Value> = serde_json::from_str(&tools).unwrap();
    assert_eq!(status, 200);
    assert!(tools.iter().any(|tool| tool["name"] == "write" && tool["input_schema"]["type"] == "object"), "{tools:?}");

    let note = json!({"title": "milk", "text": "buy some"}).to_string();
    assert_eq!(request(address, "ann", "POST /tools/write", &note).await.0, 200);
    let (status, read) = request(address, "ann", "POST /tools/read", r#"{"title": "milk"}"#).await;
    assert!(status == 200 && read.contains("buy some"), "{status} {read}");
    // The other tenant has a store of its own.
    let (_, other) = request(address, "ben", "POST /tools/read", r#"{"title": "milk"}"#).await;
    assert!(!other.contains("buy some") && other.contains("there is no note called"), "{other}");

    let (status, refused) = request(address, "ben", "POST /tools/read", r#"{"title": 1}"#).await;
    assert!(status == 422 && refused.contains("invalid_arguments"), "{status} {refused}");
    assert_eq!(request(address, "ben", "POST /tools/nothing", "{}").await.0, 404);
    assert_eq!(request(address, "eve", "GET /tools", "").await.0, 401);
    assert_eq!(request(address, "ann", "POST /tools/write", &"x".repeat(70_000)).await.0, 413);

    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
}
