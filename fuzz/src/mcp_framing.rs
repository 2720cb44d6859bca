//! The framing of MCP messages: every session ends with its input, and every line of the server is one message.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use fumehood_core::boxed::BoxFuture;
use fumehood_core::call::content::Content;
use fumehood_core::call::result::{CallResult, Metadata};
use fumehood_core::call::{Call, CallContext};
use fumehood_core::tool::{Changes, ProviderKind, Revision, Stop, Tool, ToolProvider, ValidatedCall};
use fumehood_mcp::{Server, ServerOptions};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::runtime::Runtime;

/// Maximum time for one input. A fuzzer's inputs are small.
const MAX_TIME: Duration = Duration::from_secs(20);
/// Maximum size of a message, in bytes; small, so that inputs reach it.
const MAX_MESSAGE_BYTES: usize = 1024;
/// Size of the pipes between client and server, in bytes.
const PIPE_BYTES: usize = 64;

const HANDSHAKE: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"fuzz","version":"0"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

/// A provider without tools, which answers every call with a text.
struct Empty(Revision);

impl ToolProvider for Empty {
    fn kind(&self) -> ProviderKind {
        ProviderKind::Component
    }

    fn tools(&self) -> Vec<Arc<Tool>> {
        Vec::new()
    }

    fn find(&self, _name: &str) -> Option<Arc<Tool>> {
        None
    }

    fn call(&self, call: ValidatedCall, context: CallContext) -> BoxFuture<'_, Result<CallResult, Stop>> {
        let tool = call.tool().full_name().to_owned();
        let arguments = call.into_arguments().into();
        Box::pin(async move { Ok(self.dispatch(Call { tool, arguments, context }).await) })
    }

    fn dispatch(&self, call: Call) -> BoxFuture<'_, CallResult> {
        let id = call.context.id;
        let tool = call.tool;
        let outcome = Ok(vec![Content::text(tool.clone())]);
        Box::pin(std::future::ready(CallResult { id, tool, outcome, metadata: Metadata::default() }))
    }

    fn changes(&self) -> Changes {
        self.0.subscribe()
    }
}

fn server() -> &'static (Server, Runtime) {
    static SERVER: OnceLock<(Server, Runtime)> = OnceLock::new();
    SERVER.get_or_init(|| {
        let options = ServerOptions { message_bytes: MAX_MESSAGE_BYTES, ..ServerOptions::default() };
        let server = Server::new(Arc::new(Empty(Revision::default())), options);
        (server, tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"))
    })
}

/// Serves one client that sends these bytes. The first byte is the size of the pieces, and its lowest bit adds a
/// handshake before them.
pub fn run(data: &[u8]) {
    let Some((first, messages)) = data.split_first() else { return };
    let piece = usize::from(first >> 1).max(1);
    let handshake = if first & 1 == 1 { HANDSHAKE } else { b"" };
    let input = [handshake, messages].concat();
    let (server, runtime) = server();
    let output = runtime.block_on(async { tokio::time::timeout(MAX_TIME, exchange(server, &input, piece)).await });
    for line in output.expect("the session ends").split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let text = std::str::from_utf8(line).expect("UTF-8");
        let message: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(message["jsonrpc"], "2.0", "{text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
}

/// Returns the output of the server for a client that sends the input and disconnects.
async fn exchange(server: &Server, input: &[u8], piece: usize) -> Vec<u8> {
    let (mut client_writer, server_reader) = duplex(PIPE_BYTES);
    let (server_writer, mut client_reader) = duplex(PIPE_BYTES);
    let serving = async {
        // A client without a handshake is rejected, which is a valid outcome.
        let _ended = server.serve_streams(server_reader, server_writer, std::future::pending::<()>()).await;
    };
    let sending = async move {
        for piece in input.chunks(piece) {
            // The server may disconnect before the client has sent everything.
            if client_writer.write_all(piece).await.is_err() {
                break;
            }
        }
    };
    let receiving = async {
        let mut output = Vec::new();
        client_reader.read_to_end(&mut output).await.expect("a pipe in memory");
        output
    };
    tokio::join!(serving, sending, receiving).2
}
