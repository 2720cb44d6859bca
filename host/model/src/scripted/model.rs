//! The scripted model.

use std::io::Read as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use fumehood_core::boxed::BoxFuture;
use fumehood_core::chat::{Delta, DeltaSink, Model, ModelError, ModelFailure, Reply, Request, Response};
use fumehood_core::text::sanitize::{printable, truncate_str};

use super::parse::{MAX_SCRIPT_BYTES, ScriptError, parse};
use super::reply::{ScriptedAnswer, ScriptedReply};

/// A model that answers the first request with the first reply of a script, the second with the second, and so on.
///
/// A script is a JSON array of replies, or JSON Lines with one reply on each line, of at most [`MAX_SCRIPT_BYTES`].
/// Each reply is one of
///
/// ```json
/// {"text": "The result is 16."}
/// {"calls": [{"name": "calculator__add", "arguments": {"a": 3, "b": 5}}], "text": "Let me see."}
/// {"error": {"failure": "rate_limited", "message": "…", "status": 429, "retry_after_ms": 1000}}
/// ```
///
/// and may also have `expect` (one string or several that the last message of the request must contain, so that a
/// script does not continue after a wrong result), `delay_ms`, `usage` (`{"input": …, "output": …}`) and `stop`
/// (`done`, `length`, `filtered`, `refused`, `paused` or `failed`). A call may have an `id`. Arguments given as a string
/// are passed on literally, and need not be JSON.
#[derive(Debug)]
pub struct ScriptedModel {
    replies: Vec<ScriptedReply>,
    next: Mutex<usize>,
}

impl ScriptedModel {
    /// Creates a model from its replies.
    #[must_use]
    pub fn new(replies: Vec<ScriptedReply>) -> Self {
        Self { replies, next: Mutex::new(0) }
    }

    /// Parses a script.
    ///
    /// # Errors
    /// If the script is malformed; the message names the reply that is wrong, and the line in which it begins.
    pub fn parse(text: &str) -> Result<Self, ScriptError> {
        parse(text).map(Self::new)
    }

    /// Reads and parses the script in a file.
    ///
    /// # Errors
    /// If the file cannot be read, is larger than [`MAX_SCRIPT_BYTES`], or is not a script.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ScriptError> {
        let failed = |source| ScriptError::File { path: path.as_ref().display().to_string(), source };
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path.as_ref()).map_err(failed)?;
        file.take(MAX_SCRIPT_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > MAX_SCRIPT_BYTES {
            return Err(ScriptError::TooLong);
        }
        Self::parse(std::str::from_utf8(&bytes).map_err(|_| ScriptError::NotText)?)
    }

    /// Returns the number of replies that were not used yet.
    #[must_use]
    pub fn replies_left(&self) -> usize {
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        self.replies.len().saturating_sub(next)
    }

    /// Returns the next reply with its number, counted from 1. A reply whose expectation is not met remains the next
    /// one.
    fn next_reply(&self, request: &Request) -> Result<(usize, &ScriptedReply), ModelError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(reply) = self.replies.get(*next) else {
            let message = format!(
                "the script has only {} replies, but the model was asked again; add a reply",
                self.replies.len()
            );
            return Err(ModelError::new(ModelFailure::Setup, message));
        };
        let last = request.messages.last().map(|message| message.content.as_str()).unwrap_or_default();
        if let Some(missing) = reply.expect.iter().find(|words| !last.contains(words.as_str())) {
            let place = if reply.line > 0 { format!(" (line {})", reply.line) } else { String::new() };
            let excerpt = truncate_str(last, 200);
            let message = format!(
                "reply {}{place} of the script expects {missing:?} in the last message, which is: {}",
                *next + 1,
                printable(excerpt)
            );
            return Err(ModelError::new(ModelFailure::Setup, message));
        }
        *next += 1;
        Ok((*next, reply))
    }
}

impl Model for ScriptedModel {
    fn name(&self) -> Option<&str> {
        Some("scripted")
    }

    fn chat<'a>(
        &'a self,
        request: &'a Request,
        deltas: &'a mut dyn DeltaSink,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        Box::pin(async move {
            let (number, reply) = self.next_reply(request)?;
            if !reply.delay.is_zero() {
                tokio::time::sleep(reply.delay).await;
            }
            let answer = match &reply.answer {
                ScriptedAnswer::Error(error) => return Err(error.clone()),
                ScriptedAnswer::Text(text) => Reply::Text(text.clone()),
                ScriptedAnswer::Calls { text, calls } => {
                    let mut calls = calls.clone();
                    for (index, call) in calls.iter_mut().enumerate().filter(|(_, call)| call.id.is_empty()) {
                        call.id = format!("call_{number}_{}", index + 1);
                    }
                    Reply::ToolCalls { text: text.clone(), calls }
                }
            };
            // Streamed word by word, as a provider does.
            for word in answer.text().split_inclusive(' ') {
                deltas.delta(Delta::Text(word.to_owned()));
            }
            Ok(Response { usage: reply.usage, stop: reply.stop, ..Response::new(answer) })
        })
    }
}
