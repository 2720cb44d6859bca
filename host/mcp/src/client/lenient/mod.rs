//! Reading what servers send that is not quite MCP.
//!
//! A message is read strictly first. These functions read what that refuses, piece by piece: what can be understood without
//! guessing is kept, and the rest is left out and named. They cost nothing while a server keeps to the protocol.

mod call_result;
mod handshake;
mod http_answer;
mod message;
mod tool_page;

pub(super) use call_result::read_call_result;
pub(super) use handshake::is_handshake;
pub(super) use http_answer::{answer_in_batch, answer_to, has_lost_session, request_id, with_id};
pub(super) use message::{is_unreadable, normalize};
pub(super) use tool_page::{ToolPage, read_tool_page};

use serde_json::Value;

/// Maximum length of a value that is quoted, in characters.
const MAX_QUOTED_CHARS: usize = 200;

/// Returns the beginning of a value as JSON text.
fn quote(value: &Value) -> String {
    quote_at_most(value, MAX_QUOTED_CHARS)
}

/// Returns at most this many characters of a value as JSON text.
fn quote_at_most(value: &Value, max_chars: usize) -> String {
    let text = value.to_string();
    let mut quoted: String = text.chars().take(max_chars).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    quoted
}
