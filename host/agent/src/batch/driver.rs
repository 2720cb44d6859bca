//! The driver of the batch protocol.

use fumehood_core::chat::{DeltaSink, Message, Request, Response, ToolIntent, ToolSpec};

use super::conversation::rebuild;
use super::event::{Event, whole};
use super::parser::{Parser, ParserLimits};
use super::prompt::system_prompt;
use super::report::{ToolReport, render_results};
use super::stream::Spoken;
use crate::driver::{Decision, DecisionFailure, DecisionFault, Driver, ToolRuntime};
use crate::execution::ToolExecution;
use crate::names::resolve;

/// The message to a model that made results up.
const MADE_UP: &str = "Error: The reply has <results>, and no <execute> to go with them. Only the system writes <results>. \
                       To call tools, write <execute> with a JSON array of calls; to answer, write plain text.";

/// The message to a model whose reply is empty.
const NOTHING_SAID: &str = "Error: The reply has neither an answer nor calls. To answer, write plain text outside all tags; \
                            to call tools, write <execute> with a JSON array of calls.";

/// The driver of the batch protocol. Tools and results are text, so neither the model nor the provider needs to support tools.
///
/// - The limits are those of [`ParserLimits::default`].
/// - A reply that cannot be read is retried at most twice in a row.
#[derive(Debug, Clone)]
pub struct BatchDriver {
    limits: ParserLimits,
    retries: u32,
    /// The number of consecutive replies that were no decision.
    failed: u32,
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
        let (tools, prompt) = (Vec::new(), system_prompt(&[]));
        Self { limits: ParserLimits::default(), retries: 2, failed: 0, tools, prompt }
    }

    /// Sets the limits on a reply.
    #[must_use]
    pub fn with_limits(mut self, limits: ParserLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the maximum number of retries in a row after a reply that cannot be read. 0 disables them. The default is 2.
    #[must_use]
    pub fn with_retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Returns the calls, with full names in place of names that are the last part of one.
    fn calls(&self, reading: &Reading<'_>) -> Vec<ToolIntent> {
        let mut calls = reading.calls();
        for call in &mut calls {
            if let Some(tool) = resolve(&call.name, &self.tools) {
                call.name.clone_from(&tool.name);
            }
        }
        calls
    }

    fn again(&mut self, reply: &str, error: String) -> Decision {
        if self.failed >= self.retries {
            self.failed = 0;
            return Decision::Failed(DecisionFailure { fault: DecisionFault::Extraction, message: error });
        }
        self.failed = self.failed.saturating_add(1);
        // Some providers reject messages without text.
        let said = (!reply.trim().is_empty()).then(|| Message::assistant(reply));
        Decision::Again { messages: said.into_iter().chain([Message::user(error)]).collect() }
    }
}

/// A parsed reply.
struct Reading<'a> {
    events: Vec<Event>,
    /// The reply up to the end of its calls.
    heard: &'a str,
    closed: bool,
}

impl<'a> Reading<'a> {
    fn of(reply: &'a str, limits: ParserLimits) -> Self {
        let mut parser = Parser::new(limits);
        let mut events = parser.push(reply);
        events.extend(parser.finish());
        let heard = reply.get(..parser.taken()).unwrap_or(reply);
        Self { events: whole(events), heard, closed: parser.is_closed() }
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

    /// Returns the reply for the history: without any text after the calls, and with an unclosed block closed, so that the model
    /// does not repeat its own mistakes.
    fn said(&self) -> String {
        if self.has_batch() && !self.closed { rebuild(&self.events) } else { self.heard.to_owned() }
    }
}

impl Driver for BatchDriver {
    fn bind(&mut self, runtime: ToolRuntime) {
        self.prompt = system_prompt(&runtime.tools);
        self.tools = runtime.tools;
        self.failed = 0;
    }

    /// Builds a request of the prompt, the conversation and the trace. It has no native tools.
    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        let system = Message::system(self.prompt.as_str());
        let messages: Vec<_> = [&system].into_iter().chain(conversation).chain(trace).cloned().collect();
        // Only the trace changes from step to step.
        Request { cached_messages: conversation.len().saturating_add(1), messages, ..Request::default() }
    }

    /// Passes the text outside tags as text, and thoughts as thoughts.
    fn shown<'a>(&self, sink: &'a mut dyn DeltaSink) -> Box<dyn DeltaSink + 'a> {
        Box::new(Spoken::new(sink, self.limits))
    }

    /// Reads the decision of a reply. Unknown tools and wrong arguments are left to the executor, which rejects each call by itself.
    fn decide(&mut self, response: &Response) -> Decision {
        let reply = response.reply.text();
        let reading = Reading::of(reply, self.limits);
        if reading.has_batch() {
            self.failed = 0;
            return Decision::Call { text: reading.text(), calls: self.calls(&reading), refused: Vec::new() };
        }
        if let Some(error) =
            reading.events.iter().find_map(|e| if let Event::Malformed(m) = e { Some(m) } else { None })
        {
            return self.again(reply, error.clone());
        }
        if reading.events.iter().any(|event| matches!(event, Event::Results(_))) {
            return self.again(reply, MADE_UP.to_owned());
        }
        let text = reading.text();
        if text.is_empty() {
            return self.again(reply, NOTHING_SAID.to_owned());
        }
        self.failed = 0;
        Decision::Answer(text)
    }

    /// Returns the reply as it belongs in the history, and the results as a message of the user. The messages of a single execution
    /// carry its id.
    fn trace(&self, response: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        let reading = Reading::of(response.reply.text(), self.limits);
        let mut said = vec![Message::assistant(reading.said())];
        if reading.has_batch() || !executions.is_empty() {
            said.push(Message::user(results(executions)));
        }
        if let [only] = executions {
            said.iter_mut().for_each(|message| message.tool_execution_id = Some(only.id.clone()));
        }
        said
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        let asked = rebuild(&[Event::Call(execution.call.clone()), Event::Execute]);
        let pair = [Message::assistant(asked), Message::user(results(std::slice::from_ref(execution)))];
        pair.map(|message| Message { tool_execution_id: Some(execution.id.clone()), ..message }).into()
    }
}

fn results(executions: &[ToolExecution]) -> String {
    render_results(&executions.iter().map(ToolReport::of).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests;
