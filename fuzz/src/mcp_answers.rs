//! Lists and results of MCP servers: none hangs or panics, what stands beside something odd is not lost, and no call that may
//! have run is reported as one that did not.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use fumehood_core::call::error_kind::ErrorKind;
use fumehood_core::call::result::CallResult;
use fumehood_core::call::{Arguments, CallContext};
use fumehood_core::tool::name::Namespace;
use fumehood_mcp::{Credentials, Endpoint, Remote, RemoteOptions};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::loopback;

/// Maximum time for one input. A fuzzer's inputs are small.
const MAX_TIME: Duration = Duration::from_secs(20);

/// The places of the input in what a server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The definition of a tool beside a good one.
    Definition,
    /// A part of a result beside a good one.
    Part,
    /// The whole result.
    Result,
    /// The whole answer to a call.
    Answer,
    /// The stream of events with the answer to a call.
    Events,
}

const PLACES: [Place; 5] = [Place::Definition, Place::Part, Place::Result, Place::Answer, Place::Events];

/// What the server sends next.
static NEXT: Mutex<(Place, Vec<u8>)> = Mutex::new((Place::Answer, Vec::new()));

/// Returns the server's answer to a request.
fn answer(request: loopback::Request) -> loopback::Response {
    let typed = |status, media_type, body| loopback::Response { status, media_type, body, piece: 4096 };
    let response = |status, body: Vec<u8>| typed(status, "application/json", body);
    let message: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let Some(method) = message["method"].as_str().filter(|_| request.method == "POST") else {
        return response("405 Method Not Allowed", Vec::new());
    };
    let (place, input) = NEXT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let text = String::from_utf8_lossy(&input).into_owned();
    let result = match method {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "fuzz", "version": "0"},
        })
        .to_string(),
        "tools/list" => {
            let ordinary = r#"{"name":"other","inputSchema":{"type":"object"}}"#;
            let other = if place == Place::Definition { &text } else { ordinary };
            format!(r#"{{"tools":[{{"name":"good","inputSchema":{{"type":"object"}}}},{other}]}}"#)
        }
        "tools/call" => match place {
            Place::Answer => return response("200 OK", input),
            Place::Events => return typed("200 OK", "text/event-stream", input),
            Place::Result => text,
            Place::Part => format!(r#"{{"content":[{{"type":"text","text":"kept"}},{text}]}}"#),
            Place::Definition => r#"{"content":[{"type":"text","text":"kept"}]}"#.to_owned(),
        },
        _ if message.get("id").is_none() => return response("202 Accepted", Vec::new()),
        _ => "{}".to_owned(),
    };
    let body = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]);
    response("200 OK", body.into_bytes())
}

fn fixture() -> &'static (String, Runtime) {
    static FIXTURE: OnceLock<(String, Runtime)> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        (format!("http://{}/mcp", loopback::serve(answer)), runtime)
    })
}

/// Lists and calls a server that sends these bytes. The first byte selects their place.
pub fn run(data: &[u8]) {
    let Some((first, input)) = data.split_first() else { return };
    let place = PLACES[usize::from(*first) % PLACES.len()];
    // A list or a result that is no JSON as a whole has nothing beside the input that could be kept.
    let is_value = matches!(place, Place::Definition | Place::Part | Place::Result);
    if is_value && serde_json::from_slice::<Value>(input).is_err() {
        return;
    }
    *NEXT.lock().unwrap_or_else(PoisonError::into_inner) = (place, input.to_vec());
    let (url, runtime) = fixture();
    let used = runtime.block_on(async { tokio::time::timeout(MAX_TIME, list_and_call(url)).await });
    let result = used.expect("the call ends");
    match &result.outcome {
        Ok(parts) if matches!(place, Place::Definition | Place::Part) => {
            assert!(format!("{parts:?}").contains("kept"), "the good part was lost: {result:?}");
        }
        Ok(_) => {}
        Err(error) => {
            assert_ne!(error.kind, ErrorKind::Unavailable, "the call ran: {result:?}");
            assert_ne!(place, Place::Definition, "the good tool has nothing to do with the other: {result:?}");
        }
    }
}

async fn list_and_call(url: &str) -> CallResult {
    let endpoint = Endpoint::Http { url: url.to_owned(), credentials: Credentials::None };
    let remote = Remote::new(Namespace::parse("fuzz").expect("a name"), endpoint, RemoteOptions::default());
    let tools = remote.tools().await.expect("the list has a good tool");
    let good = tools.iter().find(|tool| &*tool.foreign == "good").expect("the good tool is kept");
    let call = Arc::clone(&good.tool).validate(Arguments::default()).expect("it accepts any object");
    let result = remote.call(call, CallContext::default()).await;
    remote.close().await;
    result
}
