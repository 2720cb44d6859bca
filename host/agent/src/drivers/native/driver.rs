//! The driver that uses the provider's own format for tools and calls.

use fumehood_core::chat::{Message, Request, Response, StopReason, ToolChoice, ToolIntent, ToolSpec};
use serde_json::{Map, Value};

use super::format::{to_prose_messages, to_tool_messages};
use super::inline::{find_inline_call, is_argument_echo, parse_calls};
use crate::drivers::driver::{Decision, DecisionError, DecisionFault, Driver, ToolRuntime, cache_breakpoints};
use crate::drivers::recover::Closing;
use crate::drivers::render::echo;
use crate::execution::ToolExecution;
use crate::names::find;

/// The driver for models that call tools through their provider's own interface.
///
/// The defaults are:
///
/// - The tool choice is [`ToolChoice::Auto`].
/// - The model is the client's own.
/// - No settings of the provider are sent.
/// - A reply that is no decision is retried once.
///
/// [`ToolChoice::Required`] and [`ToolChoice::Specific`] apply until the first call of an execution. After that the
/// model may answer, because otherwise it never could.
#[derive(Debug, Clone)]
pub struct NativeDriver {
    template: Request,
    system: Option<String>,
    choice: ToolChoice,
    supports_tools: bool,
    inline: bool,
    tools: Vec<ToolSpec>,
    has_called: bool,
    max_retries: u32,
    /// The number of consecutive replies that were no decision.
    retries: u32,
}

impl Default for NativeDriver {
    fn default() -> Self {
        Self {
            template: Request::default(),
            system: None,
            choice: ToolChoice::Auto,
            supports_tools: true,
            inline: false,
            tools: Vec::new(),
            has_called: false,
            max_retries: 1,
            retries: 0,
        }
    }
}

impl NativeDriver {
    /// Creates a driver with the defaults that [`NativeDriver`] lists.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the model may, must or must not call tools. The default is [`ToolChoice::Auto`]: it may.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.choice = choice;
        self
    }

    /// Sets the model, in place of the client's own.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.template.model = Some(model.into());
        self
    }

    /// Sets options of the provider, which are sent unchanged. There are none by default.
    #[must_use]
    pub fn options(mut self, options: Map<String, Value>) -> Self {
        self.template.options = options;
        self
    }

    /// Sets the sampling temperature, in place of the client's own.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.template.temperature = Some(temperature);
        self
    }

    /// Sets the maximum number of tokens of an answer, in place of the provider's own limit.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.template.max_tokens = Some(tokens);
        self
    }

    /// Sets the system prompt before the conversation. There is none by default.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// Sets whether the provider supports tools. The default is `true`. With `false`, requests have no tools, calls in
    /// replies are ignored, and [`NativeDriver::tool_choice`] has no effect.
    #[must_use]
    pub fn supports_tools(mut self, supports: bool) -> Self {
        self.supports_tools = supports;
        self
    }

    /// Sets whether the first `{"tool": …, "arguments": {…}}` of an answer is a call if it names a tool of the
    /// execution, whatever text surrounds it, for models that mix calls and text. By default, only an answer that
    /// consists of such objects counts as calls, because an answer may quote one.
    #[must_use]
    pub fn inline_calls(mut self, inline: bool) -> Self {
        self.inline = inline;
        self
    }

    /// Sets the maximum number of retries in a row after a reply that is no decision: it is empty, or lacks a call that
    /// the tool choice requires. The default is 1.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Returns whether replies may have calls.
    fn allows_calls(&self) -> bool {
        self.supports_tools && self.choice != ToolChoice::None
    }

    fn has_tool(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    /// Returns a message for the model if the tool choice requires a call that is not among these.
    fn missing_call(&self, calls: &[ToolIntent]) -> Option<String> {
        match &self.choice {
            _ if self.has_called => None,
            ToolChoice::Auto | ToolChoice::None => None,
            ToolChoice::Required if calls.is_empty() => Some("You must call at least one of the tools.".to_owned()),
            ToolChoice::Required => None,
            ToolChoice::Specific(name) if calls.iter().any(|call| call.name == *name) => None,
            ToolChoice::Specific(name) => Some(format!("You must call the tool `{name}`.")),
        }
    }

    /// Returns the tool choice of the next request.
    ///
    /// A choice that the tools of the execution cannot meet is not sent, because a provider would reject the whole
    /// request. The reply then does not meet the choice either, and is rejected here with a message.
    fn next_tool_choice(&self) -> ToolChoice {
        let possible = match &self.choice {
            ToolChoice::Auto => return ToolChoice::Auto,
            ToolChoice::None => return ToolChoice::None,
            ToolChoice::Required => !self.tools.is_empty(),
            ToolChoice::Specific(name) => self.has_tool(name),
        };
        if possible && !self.has_called { self.choice.clone() } else { ToolChoice::Auto }
    }

    /// Returns the calls, with full names in place of aliases.
    fn find_calls(&self, response: &Response) -> Vec<ToolIntent> {
        let mut calls = self.read_calls(response);
        for call in &mut calls {
            if let Some(tool) = find(&call.name, &self.tools) {
                call.name.clone_from(&tool.name);
            }
        }
        calls
    }

    fn read_calls(&self, response: &Response) -> Vec<ToolIntent> {
        let calls = response.reply.calls();
        if !calls.is_empty() {
            return calls.to_vec();
        }
        let text = response.reply.text();
        let mut written = parse_calls(text, response.stop);
        if written.is_empty() && self.inline {
            written.extend(find_inline_call(text, Closing::from(response.stop)));
        }
        if written.iter().all(|call| find(&call.name, &self.tools).is_some()) { written } else { Vec::new() }
    }

    fn decide_answer(&mut self, response: &Response) -> Decision {
        let text = response.reply.text();
        if !text.trim().is_empty() {
            self.retries = 0;
            return Decision::Answer(text.to_owned());
        }
        let problem = match (response.stop, self.supports_tools && !response.reply.calls().is_empty()) {
            (_, true) => "Tools are switched off. Answer in words.",
            (StopReason::Filtered, _) => "The provider held the answer back. Answer differently.",
            (StopReason::Length, _) => "The answer ran into its length limit before it began. Be brief.",
            (StopReason::Refused, _) => "You refused without a word. Answer, or say why you do not.",
            (StopReason::Paused | StopReason::Failed, _) => "The answer failed before it began. Answer again.",
            (StopReason::Done, _) => "The answer is empty. Answer in words.",
        };
        self.retry_or_fail(response, DecisionFault::Extraction, problem.to_owned())
    }

    /// Asks the model again, and fails once there were too many retries.
    fn retry_or_fail(&mut self, response: &Response, fault: DecisionFault, problem: String) -> Decision {
        if self.retries >= self.max_retries {
            return Decision::Failed(DecisionError { fault, message: problem });
        }
        self.retries = self.retries.saturating_add(1);
        let reply = echo(response.reply.text());
        Decision::Again { messages: reply.into_iter().chain([Message::user(problem)]).collect() }
    }
}

impl Driver for NativeDriver {
    fn name(&self) -> &'static str {
        "native"
    }

    fn bind(&mut self, runtime: ToolRuntime) {
        self.tools = runtime.tools;
        self.has_called = false;
        self.retries = 0;
    }

    fn add_tools(&mut self, tools: Vec<ToolSpec>) {
        self.tools.extend(tools);
    }

    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        let system = self.system.iter().map(Message::system);
        let messages: Vec<_> = system.chain(conversation.iter().cloned()).chain(trace.iter().cloned()).collect();
        // Some providers reject a conversation with calls in it if the request has no tools.
        let describes_tools =
            self.allows_calls() || (self.supports_tools && messages.iter().any(|m| !m.tool_calls.is_empty()));
        Request {
            cache_breakpoints: cache_breakpoints(&messages, trace),
            messages,
            tools: if describes_tools { self.tools.clone() } else { Vec::new() },
            tool_choice: if self.supports_tools { self.next_tool_choice() } else { ToolChoice::Auto },
            ..self.template.clone()
        }
    }

    fn decide(&mut self, response: &Response) -> Decision {
        if !self.allows_calls() {
            return self.decide_answer(response);
        }
        let calls = self.find_calls(response);
        if let Some(problem) = self.missing_call(&calls) {
            return self.retry_or_fail(response, DecisionFault::Validation, problem);
        }
        if calls.is_empty() {
            return self.decide_answer(response);
        }
        self.has_called = true;
        self.retries = 0;
        Decision::Call { text: text_beside_calls(response).to_owned(), calls, refused: Vec::new() }
    }

    fn trace(&self, response: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        if executions.is_empty() {
            return echo(response.reply.text()).into_iter().collect();
        }
        // The text beside the calls appears once, before the first of them.
        let texts = std::iter::once(text_beside_calls(response)).chain(std::iter::repeat(""));
        let messages = executions.iter().zip(texts).flat_map(|(execution, text)| {
            let [mut call, result] = to_tool_messages(execution, text);
            call.thoughts.clone_from(&response.thoughts);
            [call, result]
        });
        messages.collect()
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        if self.supports_tools {
            to_tool_messages(execution, "").to_vec()
        } else {
            to_prose_messages(execution).to_vec()
        }
    }
}

/// Returns the text beside the calls of a response: empty if a provider repeated the arguments there, or if the text
/// was itself the call.
fn text_beside_calls(response: &Response) -> &str {
    let text = response.reply.text();
    let calls = response.reply.calls();
    if calls.is_empty() || is_argument_echo(text, calls) { "" } else { text }
}
