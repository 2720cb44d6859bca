//! The parts of a reply that a saved session keeps one by one, for protocols that have calls in the text.

use fumehood_core::chat::ToolIntent;
use serde::{Deserialize, Serialize};

/// A part of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplyPart {
    /// A thought.
    Think(String),
    /// A text for the user.
    Respond(String),
    /// A call. Consecutive calls are one batch.
    Call(ToolIntent),
}
