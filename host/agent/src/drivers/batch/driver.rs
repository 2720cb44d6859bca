//! The driver of the batch protocol.

use fumehood_core::chat::{DeltaSink, Message, Request, Response, ToolIntent, ToolSpec};

use super::conversation::rebuild;
use super::delta_filter::DeltaFilter;
use super::event::{Event, merge_pieces};
use super::parser::{Parser, ParserLimits};
use super::prompt::system_prompt;
use super::report::{ToolReport, render_results};
use crate::drivers::driver::{Decision, DecisionError, DecisionFault, Driver, ToolRuntime, cache_breakpoints};
use crate::drivers::render::images_of;
use crate::drivers::reply_part::ReplyPart;
use crate::execution::ToolExecution;
use crate::names::resolve;

/// The message to a model that made results up.
const MADE_UP_RESULTS_MESSAGE: &str = "\
    Error: The reply has <results>, and no <execute> to go with them. Only the system writes <results>. \
    To call tools, write <execute> with a JSON array of calls; to answer, write plain text.";

/// The message to a model whose reply is empty.
const EMPTY_REPLY_MESSAGE: &str = "\
    Error: The reply has neither an answer nor calls. To answer, write plain text outside all tags; \
    to call tools, write <execute> with a JSON array of calls.";

/// The driver of the batch protocol. Tools and results are text, so model and provider need no support for tools.
///
/// The defaults are:
///
/// - The limits are those of [`ParserLimits::default`].
/// - A reply that cannot be read is retried at most twice in a row.
#[derive(Debug, Clone)]
pub struct BatchDriver {
    limits: ParserLimits,
    max_retries: u32,
    /// The number of consecutive replies that were no decision.
    failed_replies: u32,
    tools: Vec<ToolSpec>,
    prompt: String,
}

impl Default for BatchDriver {
    fn default() -> Self {
        Self::new()
    }
}

impl BatchDriver {
    /// Creates a driver with the defaults that [`BatchDriver`] lists.
    #[must_use]
    pub fn new() -> Self {
        let tools = Vec::new();
        let prompt = system_prompt(&[]);
        Self { limits: ParserLimits::default(), max_retries: 2, failed_replies: 0, tools, prompt }
    }

    /// Sets the limits on a reply.
    #[must_use]
    pub fn limits(mut self, limits: ParserLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the maximum number of retries in a row after a reply that cannot be read. The default is 2; 0 disables
    /// retries.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Returns the calls, with full names in place of names that are the last part of one.
    fn calls(&self, parsed: &ParsedReply<'_>) -> Vec<ToolIntent> {
        let mut calls = parsed.calls();
        for call in &mut calls {
            if let Some(tool) = resolve(&call.name, &self.tools) {
                call.name.clone_from(&tool.name);
            }
        }
        calls
    }

    fn retry_or_fail(&mut self, reply: &str, error: String) -> Decision {
        if self.failed_replies >= self.max_retries {
            self.failed_replies = 0;
            return Decision::Failed(DecisionError { fault: DecisionFault::Extraction, message: error });
        }
        self.failed_replies = self.failed_replies.saturating_add(1);
        // Some providers reject messages without text.
        let message = (!reply.trim().is_empty()).then(|| Message::assistant(reply));
        Decision::Again { messages: message.into_iter().chain([Message::user(error)]).collect() }
    }
}

struct ParsedReply<'a> {
    events: Vec<Event>,
    /// The reply up to the end of its calls.
    consumed: &'a str,
    is_closed: bool,
}

impl<'a> ParsedReply<'a> {
    fn parse(reply: &'a str, limits: ParserLimits) -> Self {
        let mut parser = Parser::new(limits);
        let mut events = parser.push(reply);
        events.extend(parser.finish());
        let consumed = reply.get(..parser.consumed_bytes()).unwrap_or(reply);
        Self { events: merge_pieces(events), consumed, is_closed: parser.is_closed() }
    }

    fn has_batch(&self) -> bool {
        self.events.contains(&Event::Execute)
    }

    /// Returns the text for the user.
    fn text(&self) -> String {
        let text: String = self
            .events
            .iter()
            .filter_map(|e| if let Event::Respond(t) = e { Some(t.as_str()) } else { None })
            .collect();
        text.trim().to_owned()
    }

    fn calls(&self) -> Vec<ToolIntent> {
        self.events.iter().filter_map(|e| if let Event::Call(call) = e { Some(call.clone()) } else { None }).collect()
    }

    /// Returns the reply for the history: without any text after the calls, and with an unclosed block closed, so that
    /// the model does not repeat its own mistakes.
    fn to_history(&self) -> String {
        if self.has_batch() && !self.is_closed { rebuild(&self.events) } else { self.consumed.to_owned() }
    }
}

impl Driver for BatchDriver {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn bind(&mut self, runtime: ToolRuntime) {
        self.prompt = system_prompt(&runtime.tools);
        self.tools = runtime.tools;
        self.failed_replies = 0;
    }

    fn add_tools(&mut self, tools: Vec<ToolSpec>) {
        self.tools.extend(tools);
        self.prompt = system_prompt(&self.tools);
    }

    /// Builds a request of the prompt, the conversation and the trace. It has no native tools.
    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        let system = Message::system(self.prompt.as_str());
        let messages: Vec<_> = [&system].into_iter().chain(conversation).chain(trace).cloned().collect();
        Request { cache_breakpoints: cache_breakpoints(&messages, trace), messages, ..Request::default() }
    }

    /// Passes the text outside tags as text, and thoughts as thoughts.
    fn filter_deltas<'a>(&self, sink: &'a mut dyn DeltaSink) -> Box<dyn DeltaSink + 'a> {
        Box::new(DeltaFilter::new(sink, self.limits))
    }

    /// Reads the decision of a reply. Unknown tools and wrong arguments are left to the executor, which rejects each
    /// call by itself.
    fn decide(&mut self, response: &Response) -> Decision {
        let reply = response.reply.text();
        let parsed = ParsedReply::parse(reply, self.limits);
        if parsed.has_batch() {
            self.failed_replies = 0;
            return Decision::Call { text: parsed.text(), calls: self.calls(&parsed), refused: Vec::new() };
        }
        if let Some(error) = parsed.events.iter().find_map(|e| if let Event::Malformed(m) = e { Some(m) } else { None })
        {
            return self.retry_or_fail(reply, error.clone());
        }
        if parsed.events.iter().any(|event| matches!(event, Event::Results(_))) {
            return self.retry_or_fail(reply, MADE_UP_RESULTS_MESSAGE.to_owned());
        }
        let text = parsed.text();
        if text.is_empty() {
            return self.retry_or_fail(reply, EMPTY_REPLY_MESSAGE.to_owned());
        }
        self.failed_replies = 0;
        Decision::Answer(text)
    }

    /// Splits a reply that has calls, or is an answer. One that the model is asked about again is kept as it is, and so is
    /// an empty batch, which has no parts.
    fn split_reply(&self, reply: &str) -> Option<Vec<ReplyPart>> {
        let parsed = ParsedReply::parse(reply, self.limits);
        let is_unread = |event: &Event| matches!(event, Event::Malformed(_) | Event::Results(_));
        let is_empty = if parsed.has_batch() { parsed.calls().is_empty() } else { parsed.text().is_empty() };
        if is_empty || (!parsed.has_batch() && parsed.events.iter().any(is_unread)) {
            return None;
        }
        let part = |event| match event {
            Event::Think(text) => Some(ReplyPart::Think(text)),
            Event::Respond(text) => Some(ReplyPart::Respond(text)),
            Event::Call(call) => Some(ReplyPart::Call(call)),
            Event::Results(_) | Event::Close | Event::Execute | Event::Malformed(_) | Event::End => None,
        };
        Some(parsed.events.into_iter().filter_map(part).collect())
    }

    fn join_reply(&self, parts: &[ReplyPart]) -> String {
        let event = |part: &ReplyPart| match part {
            ReplyPart::Think(text) => Event::Think(text.clone()),
            ReplyPart::Respond(text) => Event::Respond(text.clone()),
            ReplyPart::Call(call) => Event::Call(call.clone()),
        };
        rebuild(&parts.iter().map(event).collect::<Vec<_>>())
    }

    /// Returns the reply as it belongs in the history, and the results as a message of the user. The messages of a
    /// single execution carry its id.
    fn trace(&self, response: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        let parsed = ParsedReply::parse(response.reply.text(), self.limits);
        let mut messages = vec![Message::assistant(parsed.to_history())];
        if parsed.has_batch() || !executions.is_empty() {
            messages.push(results_message(executions.iter()));
        }
        if let [only] = executions {
            messages.iter_mut().for_each(|message| message.tool_execution_id = Some(only.id.clone()));
        }
        messages
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        self.replay_batch("", &[execution])
    }

    /// Returns one reply with the text and one block of all calls, and one block of their results. Thoughts are not
    /// repeated: that turn is over.
    fn replay_batch(&self, text: &str, executions: &[&ToolExecution]) -> Vec<Message> {
        if executions.is_empty() {
            return Vec::new();
        }
        let text = (!text.trim().is_empty()).then(|| Event::Respond(text.to_owned()));
        let calls = executions.iter().map(|execution| Event::Call(execution.call.clone()));
        let events: Vec<Event> = text.into_iter().chain(calls).chain([Event::Execute]).collect();
        let mut messages = vec![Message::assistant(rebuild(&events)), results_message(executions.iter().copied())];
        if let [only] = executions {
            messages.iter_mut().for_each(|message| message.tool_execution_id = Some(only.id.clone()));
        }
        messages
    }
}

/// Returns the message of the user with the results of a batch, and their images.
fn results_message<'a>(executions: impl Iterator<Item = &'a ToolExecution> + Clone) -> Message {
    let reports: Vec<ToolReport> = executions.clone().map(ToolReport::from_execution).collect();
    Message { images: executions.flat_map(images_of).collect(), ..Message::user(render_results(&reports)) }
}

#[cfg(test)]
mod tests;
