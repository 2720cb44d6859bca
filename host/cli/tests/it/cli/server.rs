//! A server on this machine that plays scripted replies of an OpenAI-compatible provider, one for each connection.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// The server. It ends after its last reply.
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Receiver<Value>,
    _playing: JoinHandle<()>,
}

pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Server {
    pub(crate) fn playing(responses: Vec<Response>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let (sender, asked) = channel();
        let playing = std::thread::spawn(move || {
            for response in responses {
                let (mut stream, _) = listener.accept().unwrap();
                let _nobody_looks = sender.send(request(&mut stream));
                write_response(&mut stream, &response).unwrap();
            }
        });
        Self { url, asked, _playing: playing }
    }

    /// Starts a server that answers every request with what the function makes of it, until the test ends. A client that
    /// leaves in the middle does not matter to it.
    pub(crate) fn answering(answer: impl Fn(&Value) -> Response + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1/", listener.local_addr().unwrap());
        let (sender, asked) = channel();
        let playing = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let Some(request) = read_request(&mut stream) else { continue };
                let response = answer(&request);
                let _nobody_looks = sender.send(request);
                let _client_left = write_response(&mut stream, &response);
            }
        });
        Self { url, asked, _playing: playing }
    }

    /// Returns the bodies of the requests so far.
    pub(crate) fn asked(&self) -> Vec<Value> {
        self.asked.try_iter().collect()
    }
}

fn stream_chunk(choices: Value, usage: Value) -> String {
    format!(
        "data: {}\n\n",
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices, "usage": usage})
    )
}

/// Returns a stream with these deltas of the answer, and its usage.
pub(crate) fn stream(deltas: &[Value], finish: &str) -> Response {
    let mut body = String::new();
    for delta in deltas {
        body.push_str(&stream_chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), Value::Null));
    }
    body.push_str(&stream_chunk(json!([{"index": 0, "delta": {}, "finish_reason": finish}]), Value::Null));
    body.push_str(&stream_chunk(json!([]), json!({"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18})));
    body.push_str("data: [DONE]\n\n");
    Response { status: 200, body }
}

/// Returns an answer that requests one call.
pub(crate) fn call(name: &str, arguments: &str) -> Response {
    let call =
        json!([{"index": 0, "id": "call_a", "type": "function", "function": {"name": name, "arguments": arguments}}]);
    stream(&[json!({"role": "assistant", "content": null, "tool_calls": call})], "tool_calls")
}

/// Returns an answer of text.
pub(crate) fn words(words: &[&str]) -> Response {
    let deltas: Vec<Value> = words.iter().map(|word| json!({"content": word})).collect();
    stream(&deltas, "stop")
}

fn write_response(stream: &mut TcpStream, response: &Response) -> std::io::Result<()> {
    let Response { status, body } = response;
    let kind = if *status == 200 { "text/event-stream" } else { "application/json" };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

fn request(stream: &mut TcpStream) -> Value {
    read_request(stream).expect("the client left before it had asked")
}

/// Returns the body of a request; `None` if the client leaves before its end.
fn read_request(stream: &mut TcpStream) -> Option<Value> {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let body = &bytes[end + 4..];
        if body.len() >= length.trim().parse().unwrap() {
            return Some(serde_json::from_slice(body).unwrap_or_default());
        }
    }
}
