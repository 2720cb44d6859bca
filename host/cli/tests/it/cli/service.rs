//! Imitations of model services on this machine: they refuse the requests that the real ones refuse, and otherwise
//! solve one sum with the tools that they are offered.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::refusals::{self, Refusal};
use super::server;

/// The real service that is imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    OpenAi,
    Anthropic,
    Ollama,
}

#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        })
    }

    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

/// The imitation. It serves until the test ends.
pub(crate) struct StandIn {
    pub(crate) url: String,
    seen: Arc<Mutex<RequestLog>>,
}

/// The requests that it received.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestLog {
    /// The requests that were answered.
    pub(crate) answered: Vec<Value>,
    /// The requests that were refused, with the messages.
    pub(crate) refused: Vec<(Value, String)>,
}

impl StandIn {
    pub(crate) fn of(service: Service) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let path = if service == Service::Ollama { "" } else { "v1/" };
        let seen = Arc::new(Mutex::new(RequestLog::default()));
        let kept = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                serve(service, stream.unwrap(), &kept);
            }
        });
        Self { url: format!("http://{address}/{path}"), seen }
    }

    pub(crate) fn seen(&self) -> RequestLog {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(service: Service, mut stream: TcpStream, seen: &Mutex<RequestLog>) {
    let asked = request(&mut stream);
    let (status, kind, body) = match refusals::check(service, &asked) {
        Ok(()) => {
            let body = answer(service, &asked.body);
            seen.lock().unwrap().answered.push(asked.body);
            let kind = if service == Service::Ollama { "application/x-ndjson" } else { "text/event-stream" };
            (200, kind, body)
        }
        Err(Refusal(status, body)) => {
            seen.lock().unwrap().refused.push((asked.body, body.to_string()));
            (status, "application/json", body.to_string())
        }
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
}

fn request(stream: &mut TcpStream) -> ReceivedRequest {
    let mut bytes = Vec::new();
    loop {
        let mut buffer = [0; 4096];
        let read = stream.read(&mut buffer).unwrap();
        assert_ne!(read, 0, "the client left before it had asked");
        bytes.extend_from_slice(&buffer[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let asked = ReceivedRequest { head, body: Value::Null };
        let length: usize = asked.header("content-length").map_or(0, |length| length.parse().unwrap());
        let body = &bytes[end + 4..];
        if body.len() >= length {
            return ReceivedRequest { body: serde_json::from_slice(body).unwrap_or_default(), ..asked };
        }
    }
}

/// Returns the next step of (3 + 5) * 2, as a call if calls are possible.
fn answer(service: Service, body: &Value) -> String {
    let messages = body["messages"].to_string();
    let told = match service {
        Service::OpenAi | Service::Ollama => messages.matches(r#""role":"tool""#).count(),
        Service::Anthropic => messages.matches(r#""type":"tool_result""#).count(),
    };
    let forbidden = body["tool_choice"] == "none" || body.pointer("/tool_choice/type") == Some(&json!("none"));
    let has_tools = body["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let steps = [("calculator__add", json!({"a": 3, "b": 5})), ("calculator__multiply", json!({"a": 8, "b": 2}))];
    if !has_tools || forbidden {
        return words(service, "I may not go on.");
    }
    match steps.get(told) {
        Some((name, arguments)) => call(service, told, name, arguments, refusals::is_thinking(body)),
        None => words(service, "It is 16."),
    }
}

fn call(service: Service, at: usize, name: &str, arguments: &Value, thinks: bool) -> String {
    match service {
        Service::OpenAi => server::call(name, &arguments.to_string()).body,
        Service::Anthropic => {
            let thought = json!({"type": "thinking", "thinking": "", "signature": ""});
            let deltas = [
                json!({"type": "thinking_delta", "thinking": "A sum."}),
                json!({"type": "signature_delta", "signature": format!("sealed-{at}")}),
            ];
            let used = json!({"type": "tool_use", "id": format!("toolu_{at}"), "name": name, "input": {}});
            let given = json!({"type": "input_json_delta", "partial_json": arguments.to_string()});
            let mut blocks = vec![(used, vec![given])];
            if thinks {
                blocks.insert(0, (thought, deltas.to_vec()));
            }
            anthropic(&blocks, "tool_use")
        }
        Service::Ollama => ollama(&json!({
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": name, "arguments": arguments}}],
        })),
    }
}

fn words(service: Service, words: &str) -> String {
    match service {
        Service::OpenAi => server::words(&[words]).body,
        Service::Anthropic => {
            let delta = json!({"type": "text_delta", "text": words});
            anthropic(&[(json!({"type": "text", "text": ""}), vec![delta])], "end_turn")
        }
        Service::Ollama => ollama(&json!({"role": "assistant", "content": words})),
    }
}

/// Returns a stream of these blocks, each with its deltas.
fn anthropic(blocks: &[(Value, Vec<Value>)], stop: &str) -> String {
    let mut events = vec![json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": null,
        "usage": {"input_tokens": 11, "output_tokens": 1},
    }})];
    for (index, (block, deltas)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        let deltas = deltas.iter().map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.extend(deltas);
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    events.iter().map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())).collect()
}

fn ollama_line(message: &Value, more: &Value) -> String {
    let mut line = json!({"model": "m", "created_at": "2025-01-01T00:00:00Z", "message": message, "done": false});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    format!("{line}\n")
}

fn ollama(message: &Value) -> String {
    let end = json!({"done": true, "done_reason": "stop", "prompt_eval_count": 11, "eval_count": 7});
    [ollama_line(message, &json!({})), ollama_line(&json!({"role": "assistant", "content": ""}), &end)].concat()
}
