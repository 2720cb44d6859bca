//! Messages in the bodies of HTTP responses, which are measured before they are parsed.

use std::io;

use fumehood_server::bounds::{self, BoundsError};
use fumehood_transport::TransportError;
use futures_util::stream::{self, Stream, StreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use sse_stream::{Error as SseError, Sse, SseStream};
use tokio_util::bytes::Bytes;

use super::http_client::Events;
use super::lenient;
use crate::transport::line_transport::parse_id;

const END_OF_EVENT: &[u8] = b"\n\n";
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
/// The beginnings of a line of an event (WHATWG HTML, "Server-sent events"), the last of them that of a comment.
const FIELDS_OF_EVENTS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// Parses a message, on another thread if that takes long. A message over the bounds is replaced with an error response
/// to the same request.
pub(super) async fn parse(
    mut body: Vec<u8>,
    request: Option<&ClientJsonRpcMessage>,
) -> Result<ServerJsonRpcMessage, String> {
    if let Some(answer) = lenient::answer_in_batch(&body) {
        body = answer;
    }
    let size = match bounds::measure(&body) {
        Ok(size) => size,
        Err(error) => return error_in_place_of(&body, error).ok_or_else(|| error.to_string()),
    };
    let id = request.and_then(lenient::request_id);
    if size.is_cheap() {
        read_message(&body, id.as_ref())
    } else {
        tokio::task::spawn_blocking(move || read_message(&body, id.as_ref()))
            .await
            .map_err(|error| error.to_string())?
    }
}

fn read_message(body: &[u8], id: Option<&RequestId>) -> Result<ServerJsonRpcMessage, String> {
    match serde_json::from_slice(body) {
        Ok(message) if lenient::is_handshake(body) => Ok(read_normalized(body, id).unwrap_or(message)),
        Ok(message) => Ok(message),
        Err(error) => read_normalized(body, id).ok_or_else(|| format!("not a JSON-RPC message of MCP: {error}")),
    }
}

fn read_normalized(body: &[u8], id: Option<&RequestId>) -> Option<ServerJsonRpcMessage> {
    let normal = lenient::with_id(lenient::normalize(body)?, id);
    serde_json::from_value(normal).ok()
}

/// Returns an error response to the request that this message answers, if it answers one.
fn error_in_place_of(message: &[u8], error: BoundsError) -> Option<ServerJsonRpcMessage> {
    let why = ErrorData::internal_error(format!("cannot read the answer of the server: {error}"), None);
    parse_id(message).map(|id| JsonRpcMessage::error(why, Some(id)))
}

/// Returns a piece of a stream as an event. Some servers send a message alone, although they say that the body has events.
pub(super) fn to_event(piece: Bytes) -> Bytes {
    let message = piece.trim_ascii();
    if !message.starts_with(b"{") && !message.starts_with(b"[") {
        return piece;
    }
    let lines = message.split(|byte| *byte == b'\n').map(|line| [b"data: ", line].concat());
    let mut event = lines.collect::<Vec<_>>().join(&b'\n');
    event.extend_from_slice(END_OF_EVENT);
    event.into()
}

/// Returns whether a body has events, whatever its type is.
pub(super) fn has_events(body: &[u8]) -> bool {
    let body = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body).trim_ascii_start();
    FIELDS_OF_EVENTS.iter().any(|field| body.starts_with(field))
}

/// Returns the events of a stream of these pieces.
pub(super) fn events_of(pieces: impl Stream<Item = Result<Bytes, TransportError>> + Send + 'static) -> Events {
    // Some servers end without the empty line that completes an event.
    let end = stream::once(async { Ok(Bytes::from_static(END_OF_EVENT)) });
    bound_events(SseStream::from_bytes_stream(pieces.chain(end).boxed()).boxed())
}

/// Replaces each event that would take too much to parse with an error response, or fails the stream there. Events that are
/// not quite messages are replaced by what they are understood as.
fn bound_events(events: Events) -> Events {
    let check = |event: Result<Sse, SseError>| {
        let mut event = event?;
        if let Some(answer) = event.data.as_ref().and_then(|data| lenient::answer_in_batch(data.as_bytes())) {
            event.data = String::from_utf8(answer).ok();
        }
        let data = event.data.as_deref().unwrap_or_default().as_bytes();
        if data.is_empty() {
            return Ok(event);
        }
        // rmcp itself rejects events that are nested too deep, or contain several messages.
        if let Err(error @ (BoundsError::Values | BoundsError::ReservedName)) = bounds::measure(data) {
            let refusal = error_in_place_of(data, error).and_then(|refusal| serde_json::to_string(&refusal).ok());
            let refusal = refusal.ok_or_else(|| SseError::Body(Box::new(io::Error::other(error))))?;
            event.data = Some(refusal);
            return Ok(event);
        }
        let is_message = serde_json::from_slice::<ServerJsonRpcMessage>(data).is_ok();
        let normal = (!is_message || lenient::is_handshake(data)).then(|| lenient::normalize(data)).flatten();
        if is_message || normal.is_some() {
            // rmcp reads no events with names of other protocols.
            event.event = None;
        }
        if let Some(normal) = normal {
            event.data = Some(normal.to_string());
        }
        Ok(event)
    };
    events.map(check).boxed()
}
