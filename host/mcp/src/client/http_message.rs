//! Messages in the bodies of HTTP responses, which are measured before they are parsed.

use std::io;

use fumehood_listener::bounds::{self, BoundsError};
use futures_util::stream::StreamExt as _;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use sse_stream::{Error as SseError, Sse};

use super::http_client::Events;
use super::lenient;
use crate::transport::line_transport::parse_id;

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
    let parse = move || {
        let normal = || {
            let normal = lenient::with_id(lenient::normalize(&body)?, id.as_ref());
            serde_json::from_value(normal).ok()
        };
        match serde_json::from_slice(&body) {
            Ok(message) if lenient::is_handshake(&body) => Ok(normal().unwrap_or(message)),
            Ok(message) => Ok(message),
            Err(error) => normal().ok_or_else(|| format!("no JSON-RPC message of MCP: {error}")),
        }
    };
    if size.is_cheap() {
        parse()
    } else {
        tokio::task::spawn_blocking(parse).await.map_err(|error| error.to_string())?
    }
}

/// Returns an error response to the request that this message answers, if it answers one.
fn error_in_place_of(message: &[u8], error: BoundsError) -> Option<ServerJsonRpcMessage> {
    let why = ErrorData::internal_error(format!("the answer of the server is not read: {error}"), None);
    parse_id(message).map(|id| JsonRpcMessage::error(why, Some(id)))
}

/// Replaces each event that would take too much to parse with an error response, or fails the stream there. Events that are
/// not quite messages are replaced by what they are understood as.
pub(super) fn bound_events(events: Events) -> Events {
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
