//! An answer, put together while it is being written.

use fumehood_core::chat::{
    Activity, Delta, DeltaSink, ModelError, ModelFailure, Reply, Response, StopReason, Thought, Usage,
};
use fumehood_core::sanitize::{printable, truncate_str};
use genai::chat::{ChatStreamEvent, ContentPart, StreamEnd, ToolChunk};

use super::calls::Calls;
use super::frames::Frames;
use super::names::Names;
use crate::spec::Service;

/// What to do after a piece.
#[derive(Debug)]
pub(crate) enum Writing {
    /// Wait for the next.
    Goes,
    /// That was the last.
    Ended(Response),
}

/// The pieces of one answer.
pub(crate) struct Pieces {
    service: Service,
    with_tools: bool,
    bytes_left: usize,
    text: String,
    calls: Calls,
    names: Names,
    thoughts: Vec<Thought>,
    /// The thoughts of a provider that does not sign them.
    thinking: String,
    handed_on: bool,
    began: bool,
}

impl Pieces {
    /// Nothing yet.
    pub(crate) fn new(service: Service, with_tools: bool, names: Names, max_bytes: usize) -> Self {
        Self {
            service,
            with_tools,
            bytes_left: max_bytes,
            text: String::new(),
            calls: Calls::default(),
            names,
            thoughts: Vec::new(),
            thinking: String::new(),
            handed_on: false,
            began: false,
        }
    }

    /// Whether the answer has begun.
    pub(crate) fn began(&self) -> bool {
        self.began
    }

    /// Whether anybody has seen a piece.
    pub(crate) fn handed_on(&self) -> bool {
        self.handed_on
    }

    /// Takes one piece.
    ///
    /// # Errors
    /// If the answer grows over its cap, or ends as no answer ends.
    pub(crate) fn take(
        &mut self,
        event: ChatStreamEvent,
        frames: &Frames,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Writing, ModelError> {
        self.began |= !matches!(event, ChatStreamEvent::Start | ChatStreamEvent::Heartbeat);
        let grown = match event {
            ChatStreamEvent::Chunk(chunk) => {
                self.text.push_str(&chunk.content);
                self.hand_on(Delta::Text(chunk.content), deltas)
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                if self.service == Service::Compatible {
                    self.thinking.push_str(&chunk.content);
                }
                self.hand_on(Delta::Thought(chunk.content), deltas)
            }
            ChatStreamEvent::ToolCallChunk(chunk) if self.with_tools => {
                deltas.activity(Activity::Writing);
                self.call(chunk)
            }
            ChatStreamEvent::End(end) => return self.end(&end, frames).map(Writing::Ended),
            ChatStreamEvent::Start
            | ChatStreamEvent::ToolCallChunk(_)
            | ChatStreamEvent::ThoughtSignatureChunk(_)
            | ChatStreamEvent::Heartbeat => 0,
        };
        match self.bytes_left.checked_sub(grown) {
            Some(left) => self.bytes_left = left,
            None => return Err(malformed("the answer is longer than the settings allow; raise `max_reply_bytes`")),
        }
        Ok(Writing::Goes)
    }

    /// Takes a piece of a call, and the signature of the thought before it.
    fn call(&mut self, chunk: ToolChunk) -> usize {
        let mut call = chunk.tool_call;
        let signatures = call.thought_signatures.take().unwrap_or_default();
        let mut grown = 0;
        if self.service == Service::Gemini {
            for signature in signatures {
                grown += signature.len();
                self.thoughts.push(Thought::Call { call: call.call_id.clone(), signature });
            }
        }
        grown + self.calls.piece(self.service, call)
    }

    fn hand_on(&mut self, delta: Delta, deltas: &mut dyn DeltaSink) -> usize {
        let (Delta::Text(text) | Delta::Thought(text)) = &delta;
        let grown = text.len();
        if grown > 0 {
            self.handed_on = true;
            deltas.delta(delta);
        }
        grown
    }

    fn end(&mut self, end: &StreamEnd, frames: &Frames) -> Result<Response, ModelError> {
        if let Some(error) = frames.error() {
            let shown = printable(truncate_str(&error, 300));
            let message = format!("{} broke its answer off: {shown}", self.service);
            return Err(ModelError::new(ModelFailure::Unavailable, message));
        }
        if matches!(self.service, Service::Gemini | Service::Ollama) && !frames.ended() {
            return Err(cut(self.service));
        }
        let mut calls = std::mem::take(&mut self.calls).finish(self.service);
        for call in &mut calls {
            call.name = self.names.ours(&call.name).to_owned();
        }
        let text = std::mem::take(&mut self.text);
        let thoughts = if calls.is_empty() { Vec::new() } else { self.thoughts(end) };
        let usage = end.captured_usage.as_ref();
        let tokens = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
        Ok(Response {
            reply: if calls.is_empty() { Reply::Text(text) } else { Reply::ToolCalls { text, calls } },
            usage: Usage {
                input: tokens(usage.and_then(|usage| usage.prompt_tokens)),
                output: tokens(usage.and_then(|usage| usage.completion_tokens)),
            },
            stop: match &end.captured_stop_reason {
                Some(genai::chat::StopReason::MaxTokens(_)) => StopReason::Length,
                Some(genai::chat::StopReason::ContentFilter(_)) => StopReason::Filtered,
                _ => StopReason::Done,
            },
            thoughts,
            notices: Vec::new(),
        })
    }

    /// The thoughts that have to go back with the calls.
    fn thoughts(&mut self, end: &StreamEnd) -> Vec<Thought> {
        let mut thoughts = std::mem::take(&mut self.thoughts);
        if !self.thinking.is_empty() {
            thoughts.push(Thought::Plain { text: std::mem::take(&mut self.thinking) });
        }
        if self.service == Service::Anthropic {
            for part in end.captured_content.iter().flat_map(genai::chat::MessageContent::parts) {
                match (part, thoughts.last_mut()) {
                    (ContentPart::ThoughtSignature(signature), _) => {
                        thoughts.push(Thought::Signed { text: String::new(), signature: signature.clone() });
                    }
                    (ContentPart::ReasoningContent(said), Some(Thought::Signed { text, .. })) => text.clone_from(said),
                    (ContentPart::Custom(block), _) => thoughts.push(Thought::Sealed { block: block.data.to_string() }),
                    _ => {}
                }
            }
        }
        thoughts
    }
}

/// The answer has no end.
pub(crate) fn cut(service: Service) -> ModelError {
    malformed(&format!("{service}'s answer stopped before its end, or is no stream of answers; ask again"))
}

fn malformed(message: &str) -> ModelError {
    ModelError::new(ModelFailure::Malformed, message)
}
