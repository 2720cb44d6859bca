//! Providers over real sockets, against recorded replies in the wire format of each.

mod answers;
mod failures;
mod forms;
mod hostile;
mod names;
mod parameters;
mod refused_tools;
mod requests;
mod schemas;
mod server;
mod thoughts;

use std::time::Duration;

use fumehood_core::chat::{Delta, Message, Model as _, ModelError, Request, Response, ToolIntent, ToolSpec};
use fumehood_model::{Key, ModelSpec, Provider, ProviderConfig, Retries, Timeouts};
use serde_json::json;
use server::{Play, Server};

/// Each provider, and the file extension of its recorded streams.
const SERVICES: [(&str, &str); 4] = [("openai", "sse"), ("anthropic", "sse"), ("gemini", "sse"), ("ollama", "ndjson")];

const KEY: &str = "test-key-1";

fn fixture(path: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn reply(status: u16, headers: &'static str, body: impl Into<Vec<u8>>) -> Play {
    Play::Reply { status, headers, body: body.into(), piece: usize::MAX }
}

fn stream(path: &str) -> Play {
    reply(200, "content-type: text/event-stream\r\n", fixture(path))
}

/// Returns settings with short timeouts and delays.
fn config(server: &Server) -> ProviderConfig {
    let connect = Duration::from_secs(2);
    let first_token = Duration::from_millis(400);
    let between_chunks = Duration::from_millis(400);
    let total = Duration::from_secs(20);
    ProviderConfig {
        timeouts: Timeouts { connect, first_token, between_chunks, total },
        retries: Retries { initial_delay: Duration::from_millis(20), ..Retries::default() },
        ..ProviderConfig::default().base_url(server.url.clone()).key(Key::new(KEY))
    }
}

fn provider(service: &str, config: ProviderConfig) -> Provider {
    let spec = ModelSpec::parse(&format!("{service}:m")).unwrap();
    Provider::with_environment(&spec, config, |_| None).unwrap()
}

/// Returns a request with two tools.
fn question() -> Request {
    fn tool(name: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            alias: None,
            description: format!("What {name} does"),
            parameters: json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}),
        }
    }

    Request {
        messages: vec![Message::system("Use the calculator."), Message::user("(3 + 5) * 2")],
        tools: vec![tool("calculator__add"), tool("calculator__multiply")],
        ..Request::default()
    }
}

/// Returns a conversation with two calls and their results.
fn answered_conversation() -> Request {
    let mut request = question();
    let mut asks = Message::assistant("Let me see.");
    asks.tool_calls = [("call_a", "calculator__add", r#"{"a":3}"#), ("call_b", "calculator__multiply", "not json")]
        .map(|(id, name, arguments)| ToolIntent { id: id.into(), name: name.into(), arguments: arguments.into() })
        .to_vec();
    request.messages.extend([asks, Message::tool("call_a", "8"), Message::tool("call_b", "malformed")]);
    request
}

/// Sends a request. Returns the answer, and the pieces that were streamed.
async fn ask(provider: &Provider, request: &Request) -> (Result<Response, ModelError>, Vec<Delta>) {
    let mut heard = Vec::new();
    let answer = provider.chat(request, &mut |delta| heard.push(delta)).await;
    (answer, heard)
}
