//! Calls over the HTTP API of a gateway, and their answers.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::harness::PATIENCE;

/// The answer to a call.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) retry_after: bool,
    pub(crate) took: Duration,
}

impl Answer {
    /// Returns `ok`, or the kind of the failure; `lost` if the gateway did not answer.
    pub(crate) fn kind(&self) -> &str {
        match self.status {
            200 => "ok",
            0 => "lost",
            _ => self.body["kind"].as_str().unwrap_or("refused"),
        }
    }

    /// Returns the words of the failure.
    pub(crate) fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap_or_default()
    }
}

/// Sends a call to a gateway, without waiting for its answer.
pub(crate) fn send(address: &str, tool: &str, arguments: &str) -> TcpStream {
    send_as(address, tool, arguments, None)
}

fn send_as(address: &str, tool: &str, arguments: &str, token: Option<&str>) -> TcpStream {
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    send_request(address, &format!("POST /v1/tools/{tool}/calls"), &authorization, arguments)
}

/// Sends a request, its method and path, with these lines of headers.
fn send_request(address: &str, request: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "{request} HTTP/1.1\r\nConnection: close\r\nHost: {address}\r\n{headers}Content-Length: {}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream;q=0.5\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Sends a request, its method and path, with these lines of headers, and returns the answer.
pub(crate) fn ask(address: &str, request: &str, headers: &str, body: &str) -> Answer {
    let began = Instant::now();
    read(send_request(address, request, headers, body), began)
}

/// Reads the answer to a call that was sent at `began`.
pub(crate) fn read(mut stream: TcpStream, began: Instant) -> Answer {
    let mut bytes = Vec::new();
    let _reset = stream.read_to_end(&mut bytes);
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.get(9..12).and_then(|status| status.parse().ok()).unwrap_or(0);
    let retry_after = head.to_lowercase().contains("\r\nretry-after:");
    Answer {
        status,
        body: serde_json::from_str(body).unwrap_or_else(|_| Value::from(body)),
        retry_after,
        took: began.elapsed(),
    }
}

/// Makes a call.
pub(crate) fn call(address: &str, tool: &str, arguments: &str) -> Answer {
    let began = Instant::now();
    read(send(address, tool, arguments), began)
}

/// Makes a call with a token.
pub(crate) fn call_as(address: &str, tool: &str, arguments: &str, token: Option<&str>) -> Answer {
    let began = Instant::now();
    read(send_as(address, tool, arguments, token), began)
}
