//! The driver that asks for a decision in each step: its requests, and its messages for decisions and observations.

use fumehood_core::chat::{Delta, DeltaSink, Message, Request, Response, ToolIntent, ToolSpec};
use serde_json::{Map, Value};

use super::decision::{NextAction, RawDecision};
use super::prompt::build_prompt;
use super::schema::decision_schema;
use crate::drivers::driver::{Decision, DecisionError, DecisionFault, Driver, ToolRuntime, cache_breakpoints};
use crate::drivers::render::{echo, format_execution, images_of};
use crate::execution::ToolExecution;

/// The last message of the final request; see [`ReactDriver::final_via_inference`].
const ANSWER_NOW: &str = "Now write the final answer for the user, in words, not as JSON.";

/// The driver for any model that can write JSON.
///
/// The defaults are:
///
/// - Requests ask the provider for JSON, with the schema of a decision where the provider supports one.
/// - A reply that is no decision is retried at most twice in a row.
/// - The final answer is the one in the decision.
#[derive(Debug, Clone)]
pub struct ReactDriver {
    template: Request,
    system: Option<String>,
    max_retries: u32,
    final_via_inference: bool,
    final_model: Option<String>,
    final_options: Map<String, Value>,
    tools: Vec<ToolSpec>,
    prompt: String,
    /// The JSON Schema of a decision, for providers that enforce one.
    schema: Value,
    retries: u32,
    /// The messages so far; filled only if the final answer has a request of its own.
    messages: Vec<Message>,
    /// The answer of the decision, while the final request is in progress.
    pending_answer: Option<String>,
}

impl Default for ReactDriver {
    fn default() -> Self {
        Self {
            template: Request { json: true, ..Request::default() },
            system: None,
            max_retries: 2,
            final_via_inference: false,
            final_model: None,
            final_options: Map::new(),
            tools: Vec::new(),
            prompt: build_prompt(&[]),
            schema: decision_schema(&[]),
            retries: 0,
            messages: Vec::new(),
            pending_answer: None,
        }
    }
}

impl ReactDriver {
    /// Creates a driver with the defaults that [`ReactDriver`] lists.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether requests ask the provider for JSON of a schema. The default is `true`.
    #[must_use]
    pub fn json_mode(mut self, json: bool) -> Self {
        self.template.json = json;
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

    /// Sets the maximum number of tokens of a reply, in place of the provider's own limit.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.template.max_tokens = Some(tokens);
        self
    }

    /// Sets the system prompt before the rules of a decision. There is none by default.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// Sets the maximum number of retries in a row after a reply that is no valid decision. The default is 2.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Sets whether the final answer has a request of its own, with the whole conversation and without the rules of
    /// decisions. The default is `false`.
    #[must_use]
    pub fn final_via_inference(mut self, separate: bool) -> Self {
        self.final_via_inference = separate;
        self
    }

    /// Sets the model for the final request, if there is one. The default is the model of the decisions.
    #[must_use]
    pub fn final_model(mut self, model: impl Into<String>) -> Self {
        self.final_model = Some(model.into());
        self
    }

    /// Sets the options of the provider for the final request, in place of those of the decisions.
    #[must_use]
    pub fn final_options(mut self, options: Map<String, Value>) -> Self {
        self.final_options = options;
        self
    }

    fn rules(&self) -> Message {
        let system = self.system.as_ref().map_or_else(String::new, |system| format!("{system}\n\n"));
        Message::system(format!("{system}{}", self.prompt))
    }

    /// Asks the model again, or fails after the maximum number of retries.
    fn retry_or_fail(&mut self, response: &Response, fault: DecisionFault, problem: String) -> Decision {
        if self.retries >= self.max_retries {
            return Decision::Failed(DecisionError { fault, message: problem });
        }
        self.retries = self.retries.saturating_add(1);
        let reply = echo(response.reply.text());
        let advice = Message::user(format!("{problem} Reply with exactly one JSON object that is a decision."));
        Decision::Again { messages: reply.into_iter().chain([advice]).collect() }
    }

    fn conclude(&mut self, thought: &str, answer: String) -> Decision {
        if !self.final_via_inference {
            return Decision::Answer(answer);
        }
        let system = self.system.iter().map(Message::system);
        let conversation = std::mem::take(&mut self.messages);
        let messages =
            system.chain(conversation).chain([to_conclusion_message(thought), Message::user(ANSWER_NOW)]).collect();
        let options = if self.final_options.is_empty() { &self.template.options } else { &self.final_options };
        self.pending_answer = Some(answer);
        Decision::Infer(Box::new(Request {
            model: self.final_model.clone().or_else(|| self.template.model.clone()),
            messages,
            json: false,
            options: options.clone(),
            ..self.template.clone()
        }))
    }
}

impl Driver for ReactDriver {
    fn name(&self) -> &'static str {
        "react"
    }

    fn bind(&mut self, runtime: ToolRuntime) {
        self.prompt = build_prompt(&runtime.tools);
        self.schema = decision_schema(&runtime.tools);
        self.tools = runtime.tools;
        self.retries = 0;
        self.pending_answer = None;
        self.messages.clear();
    }

    fn add_tools(&mut self, tools: Vec<ToolSpec>) {
        self.tools.extend(tools);
        self.prompt = build_prompt(&self.tools);
        self.schema = decision_schema(&self.tools);
    }

    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        let dialogue = conversation.iter().chain(trace).cloned();
        // A request for a decision means that no final request is in progress any more.
        self.pending_answer = None;
        if self.final_via_inference {
            self.messages = dialogue.clone().collect();
        }
        let messages: Vec<_> = std::iter::once(self.rules()).chain(dialogue).collect();
        Request {
            cache_breakpoints: cache_breakpoints(&messages, trace),
            messages,
            json_schema: self.template.json.then(|| self.schema.clone()),
            ..self.template.clone()
        }
    }

    /// Removes the text of decisions. The text of a final request passes.
    fn filter_deltas<'a>(&self, sink: &'a mut dyn DeltaSink) -> Box<dyn DeltaSink + 'a> {
        let is_final = self.pending_answer.is_some();
        Box::new(move |delta| match delta {
            Delta::Text(_) if !is_final => {}
            delta => sink.delta(delta),
        })
    }

    fn decide(&mut self, response: &Response) -> Decision {
        if let Some(answer) = self.pending_answer.take() {
            // If the final request brought no text, the answer of the decision stands.
            let text = response.reply.text();
            return Decision::Answer(if text.trim().is_empty() { answer } else { text.to_owned() });
        }
        let raw = match RawDecision::extract(response) {
            Ok(raw) => raw,
            Err(problem) => return self.retry_or_fail(response, DecisionFault::Extraction, problem),
        };
        let decision = match raw.validate(&self.tools) {
            Ok(decision) => decision,
            Err(problem) => return self.retry_or_fail(response, DecisionFault::Validation, problem),
        };
        self.retries = 0;
        match decision.next {
            NextAction::Answer(answer) => self.conclude(&decision.thought, answer),
            NextAction::Call { tool, args } => Decision::Call {
                text: decision.thought,
                calls: vec![ToolIntent { id: String::new(), name: tool, arguments: args }],
                refused: Vec::new(),
            },
        }
    }

    fn trace(&self, response: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        let thought = RawDecision::extract(response).ok().map(|raw| raw.thought());
        if executions.is_empty() {
            return thought
                .map(|thought| to_conclusion_message(&thought))
                .or_else(|| echo(response.reply.text()))
                .into_iter()
                .collect();
        }
        executions.iter().flat_map(|execution| to_observation_messages(execution, thought.as_deref())).collect()
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        to_observation_messages(execution, None).to_vec()
    }
}

/// Converts an execution to two messages: the assistant's thought and call, and the user's observation.
fn to_observation_messages(execution: &ToolExecution, thought: Option<&str>) -> [Message; 2] {
    let thought = thought.map_or_else(String::new, |thought| format!("Thought: {thought}\n"));
    let action = format!("{thought}Action: {}\nAction Input: {}", execution.name(), execution.args());
    let observation = format!("Observation: {}", format_execution(execution, "ERROR - "));
    let id = Some(execution.id.clone());
    [
        Message { tool_execution_id: id.clone(), ..Message::assistant(action) },
        Message {
            tool_execution_id: id,
            is_error: execution.has_error(),
            images: images_of(execution),
            ..Message::user(observation)
        },
    ]
}

/// Creates the assistant's message with the decision to answer.
fn to_conclusion_message(thought: &str) -> Message {
    Message::assistant(format!("Thought: {thought}\nAction: final_answer"))
}
