//! The response, assembled while an answer is being streamed, and joined if the provider paused it.

use fumehood_core::chat::{
    Activity, Delta, DeltaSink, Message, ModelError, ModelFailure, Reply, Request, Response, StopReason, Thought, Usage,
};
use fumehood_core::text::sanitize::{printable, truncate_str};
use genai::chat::{ChatStreamEvent, ContentPart, StreamEnd, ToolChunk};
use serde_json::Value;

use super::calls::CallAssembler;
use super::names::ToolNames;
use super::stop::translate_stop;
use super::tags::TagSplitter;
use crate::replies::{ReplyNotes, SharedNotes};
use crate::spec::Service;

/// Maximum size of a provider's explanation of the end of an answer, in bytes.
const MAX_REASON_BYTES: usize = 300;

/// The state of an answer after an event.
#[derive(Debug)]
pub(crate) enum Progress {
    /// More events follow.
    Partial,
    /// The answer is complete.
    Complete(Response),
}

/// A builder of the response from the events of one answer.
pub(crate) struct ResponseBuilder {
    service: Service,
    with_tools: bool,
    bytes_left: usize,
    text: String,
    tags: TagSplitter,
    calls: CallAssembler,
    names: ToolNames,
    thoughts: Vec<Thought>,
    /// The thoughts of a provider that does not sign them.
    thinking: String,
    has_forwarded: bool,
    has_started: bool,
}

impl ResponseBuilder {
    /// Creates a builder that accepts up to `max_bytes` of text, thoughts and arguments.
    pub(crate) fn new(service: Service, with_tools: bool, names: ToolNames, max_bytes: usize) -> Self {
        Self {
            service,
            with_tools,
            bytes_left: max_bytes,
            text: String::new(),
            tags: TagSplitter::default(),
            calls: CallAssembler::default(),
            names,
            thoughts: Vec::new(),
            thinking: String::new(),
            has_forwarded: false,
            has_started: false,
        }
    }

    /// Returns whether the answer has begun.
    pub(crate) fn has_started(&self) -> bool {
        self.has_started
    }

    /// Returns whether any piece was passed on to the sink.
    pub(crate) fn has_forwarded(&self) -> bool {
        self.has_forwarded
    }

    /// Adds one event, and passes its text on to the sink.
    ///
    /// # Errors
    /// If the answer exceeds the size limit, or is truncated.
    pub(crate) fn push(
        &mut self,
        event: ChatStreamEvent,
        notes: &SharedNotes,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Progress, ModelError> {
        self.has_started |= !matches!(event, ChatStreamEvent::Start | ChatStreamEvent::Heartbeat);
        let grown = match event {
            ChatStreamEvent::Chunk(chunk) => {
                let grown = chunk.content.len();
                for delta in self.tags.push(chunk.content) {
                    self.add_delta(delta, deltas);
                }
                grown
            }
            ChatStreamEvent::ReasoningChunk(chunk) => {
                if self.service == Service::Compatible {
                    self.thinking.push_str(&chunk.content);
                }
                let grown = chunk.content.len();
                self.add_delta(Delta::Thought(chunk.content), deltas);
                grown
            }
            ChatStreamEvent::ToolCallChunk(chunk) if self.with_tools => {
                deltas.activity(Activity::Writing);
                self.add_call(chunk)
            }
            ChatStreamEvent::End(end) => {
                if let Some(delta) = self.tags.finish() {
                    self.add_delta(delta, deltas);
                }
                return self.finish(&end, &mut notes.lock()).map(Progress::Complete);
            }
            ChatStreamEvent::Start
            | ChatStreamEvent::ToolCallChunk(_)
            | ChatStreamEvent::ThoughtSignatureChunk(_)
            | ChatStreamEvent::Heartbeat => 0,
        };
        match self.bytes_left.checked_sub(grown) {
            Some(left) => self.bytes_left = left,
            None => {
                return Err(malformed_error("the answer is longer than the settings allow; raise `max_reply_bytes`"));
            }
        }
        Ok(Progress::Partial)
    }

    /// Adds a piece of a call, and the signature of the thought before it. Returns by how many bytes the response grew.
    fn add_call(&mut self, chunk: ToolChunk) -> usize {
        let mut call = chunk.tool_call;
        let signatures = call.thought_signatures.take().unwrap_or_default();
        let mut grown = 0;
        if self.service == Service::Gemini {
            for signature in signatures {
                grown += signature.len();
                self.thoughts.push(Thought::Call { call: call.call_id.clone(), signature });
            }
        }
        grown + self.calls.add(self.service, call)
    }

    /// Adds a piece of text or thoughts, and passes it on.
    fn add_delta(&mut self, delta: Delta, deltas: &mut dyn DeltaSink) {
        if let Delta::Text(text) = &delta {
            self.text.push_str(text);
        }
        let (Delta::Text(text) | Delta::Thought(text)) = &delta;
        if !text.is_empty() {
            self.has_forwarded = true;
            deltas.delta(delta);
        }
    }

    fn finish(&mut self, end: &StreamEnd, notes: &mut ReplyNotes) -> Result<Response, ModelError> {
        if matches!(self.service, Service::Gemini | Service::Ollama) && !notes.is_finished {
            return Err(truncated_error(self.service));
        }
        let stop = end.captured_stop_reason.as_ref().map_or(StopReason::Done, |reason| translate_stop(reason.raw()));
        let mut calls = std::mem::take(&mut self.calls).finish();
        for call in &mut calls {
            call.name = self.names.resolve(call.name.trim()).to_owned();
        }
        let text = std::mem::take(&mut self.text);
        let thoughts = match stop {
            StopReason::Paused => {
                notes.turn.drain(..).map(|block| Thought::Sealed { block: block.to_string() }).collect()
            }
            _ if calls.is_empty() => Vec::new(),
            _ => self.take_thoughts(end),
        };
        let usage = end.captured_usage.as_ref();
        let of_prompt = usage.and_then(|usage| usage.prompt_tokens_details.as_ref());
        Ok(Response {
            reply: if calls.is_empty() { Reply::Text(text) } else { Reply::ToolCalls { text, calls } },
            usage: Usage {
                input: to_tokens(usage.and_then(|usage| usage.prompt_tokens)),
                output: to_tokens(usage.and_then(|usage| usage.completion_tokens)),
                cache_read: to_tokens(of_prompt.and_then(|prompt| prompt.cached_tokens)),
                cache_creation: to_tokens(of_prompt.and_then(|prompt| prompt.cache_creation_tokens)),
            },
            stop,
            thoughts,
            notices: self.end_notice(stop, notes).into_iter().collect(),
        })
    }

    /// Returns a notice of the provider's explanation of an answer that it did not complete.
    fn end_notice(&self, stop: StopReason, notes: &ReplyNotes) -> Option<String> {
        let reason = notes.reason.as_ref().filter(|_| stop != StopReason::Done)?;
        Some(format!("{} explains: {}", self.service, printable(truncate_str(reason, MAX_REASON_BYTES))))
    }

    /// Takes the thoughts that must be sent back with the calls.
    fn take_thoughts(&mut self, end: &StreamEnd) -> Vec<Thought> {
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
                    (ContentPart::ReasoningContent(content), Some(Thought::Signed { text, .. })) => {
                        text.clone_from(content);
                    }
                    (ContentPart::Custom(block), _) => thoughts.push(Thought::Sealed { block: block.data.to_string() }),
                    _ => {}
                }
            }
        }
        thoughts
    }
}

fn to_tokens(count: Option<i32>) -> u64 {
    count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}

/// Returns the error of an answer that ended too early.
pub(crate) fn truncated_error(service: Service) -> ModelError {
    malformed_error(&format!("{service}'s answer is incomplete, or is not an event stream; try again"))
}

fn malformed_error(message: &str) -> ModelError {
    ModelError::new(ModelFailure::Malformed, message)
}

/// Appends a paused turn to the request for the rest of it.
pub(crate) fn continue_turn(request: &mut Request, paused: &Response) {
    let thoughts = paused.thoughts.clone();
    request.messages.push(Message { thoughts, ..Message::assistant("") });
}

/// Joins a paused answer and the rest of it.
pub(crate) fn join_turn(paused: Response, rest: Response) -> Response {
    let Response { reply: before, mut usage, mut notices, thoughts, .. } = paused;
    usage += rest.usage;
    notices.extend(rest.notices);
    let join = |text: &str| format!("{}{text}", before.text());
    let (reply, thoughts) = match rest.reply {
        Reply::Text(text) => (Reply::Text(join(&text)), rest.thoughts),
        // Of the earlier part, only the thoughts are sent back with the calls; its text is before them.
        Reply::ToolCalls { text, calls } => {
            let thoughts = thoughts.into_iter().filter(is_thinking).chain(rest.thoughts).collect();
            (Reply::ToolCalls { text: join(&text), calls }, thoughts)
        }
    };
    Response { reply, usage, notices, thoughts, stop: rest.stop }
}

fn is_thinking(thought: &Thought) -> bool {
    let Thought::Sealed { block } = thought else { return true };
    let block: Value = serde_json::from_str(block).unwrap_or_default();
    let kind = block.get("type").and_then(Value::as_str);
    matches!(kind, Some("thinking" | "redacted_thinking"))
}
