//! Asks for decisions, and takes them.

use fumehood_core::chat::{Delta, DeltaSink, Message, Request, Response, ToolIntent, ToolSpec};
use serde_json::{Map, Value};

use super::decision::{Move, Raw};
use super::format::{concluded, observed};
use super::prompt::prompt;
use super::schema::decision_schema;
use crate::driver::{Decision, DecisionError, DecisionFault, Driver, ToolRuntime};
use crate::execution::ToolExecution;
use crate::render::echo;

/// What the last request of [`ReactDriver::final_via_inference`] ends with.
const ANSWER_NOW: &str = "Now write the final answer for the user, in words, not as JSON.";

/// The driver for any model that can write JSON.
///
/// By default the provider is told to answer in JSON, where it can be told so in nothing but decisions; a reply that is no decision is asked for again at most twice, and
/// the final answer is the one in the decision.
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
    /// Of a decision, for providers that let a model write nothing else.
    schema: Value,
    retries: u32,
    /// What was said so far, kept for the final request only.
    said: Vec<Message>,
    /// The answer of the decision, while the final request is being made.
    concluding: Option<String>,
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
            prompt: prompt(&[]),
            schema: decision_schema(&[]),
            retries: 0,
            said: Vec::new(),
            concluding: None,
        }
    }
}

impl ReactDriver {
    /// See [`ReactDriver`] for what it does by default.
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

    /// Which model to ask, instead of the one that the client is set up for.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.template.model = Some(model.into());
        self
    }

    /// Settings of the provider, sent as they are. None by default.
    #[must_use]
    pub fn options(mut self, options: Map<String, Value>) -> Self {
        self.template.options = options;
        self
    }

    /// Sampling temperature, instead of the client's own.
    #[must_use]
    pub fn temperature(mut self, temperature: f64) -> Self {
        self.template.temperature = Some(temperature);
        self
    }

    /// Most tokens of a reply, instead of the provider's own limit.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.template.max_tokens = Some(tokens);
        self
    }

    /// What is said before the rules of a decision. Nothing by default.
    #[must_use]
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system = Some(prompt.into());
        self
    }

    /// How often a reply that is no valid decision is asked for again, in a row. 2 by default.
    #[must_use]
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Whether the final answer is made by a request of its own, with the whole conversation and without the rules of
    /// decisions. By default it is not.
    #[must_use]
    pub fn final_via_inference(mut self, separate: bool) -> Self {
        self.final_via_inference = separate;
        self
    }

    /// Which model makes the final answer, if it is made by a request of its own. That of the decisions by default.
    #[must_use]
    pub fn final_model(mut self, model: impl Into<String>) -> Self {
        self.final_model = Some(model.into());
        self
    }

    /// Settings for the final request. Those of the decisions by default.
    #[must_use]
    pub fn final_options(mut self, options: Map<String, Value>) -> Self {
        self.final_options = options;
        self
    }

    fn rules(&self) -> Message {
        let system = self.system.as_ref().map_or_else(String::new, |system| format!("{system}\n\n"));
        Message::system(format!("{system}{}", self.prompt))
    }

    /// Asks again, as often as that is allowed.
    fn object(&mut self, response: &Response, fault: DecisionFault, problem: String) -> Decision {
        if self.retries >= self.max_retries {
            return Decision::Failed(DecisionError { fault, message: problem });
        }
        self.retries = self.retries.saturating_add(1);
        let said = echo(response.reply.text());
        let advice = Message::user(format!("{problem} Reply with exactly one JSON object that is a decision."));
        Decision::Again { messages: said.into_iter().chain([advice]).collect() }
    }

    fn conclude(&mut self, thought: &str, answer: String) -> Decision {
        if !self.final_via_inference {
            return Decision::Answer(answer);
        }
        let system = self.system.iter().map(Message::system);
        let said = std::mem::take(&mut self.said);
        let messages = system.chain(said).chain([concluded(thought), Message::user(ANSWER_NOW)]).collect();
        let options = if self.final_options.is_empty() { &self.template.options } else { &self.final_options };
        self.concluding = Some(answer);
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
    fn bind(&mut self, runtime: ToolRuntime) {
        self.prompt = prompt(&runtime.tools);
        self.schema = decision_schema(&runtime.tools);
        self.tools = runtime.tools;
        self.retries = 0;
        self.concluding = None;
        self.said.clear();
    }

    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        let said = conversation.iter().chain(trace).cloned();
        // A request for a decision means that no final answer is being made, or no longer.
        self.concluding = None;
        if self.final_via_inference {
            self.said = said.clone().collect();
        }
        let messages: Vec<_> = std::iter::once(self.rules()).chain(said).collect();
        Request {
            cached_messages: messages.len().saturating_sub(trace.len()),
            messages,
            json_schema: self.template.json.then(|| self.schema.clone()),
            ..self.template.clone()
        }
    }

    /// Nothing of a decision; all of the final answer where it has a request of its own.
    fn filter_deltas<'a>(&self, sink: &'a mut dyn DeltaSink) -> Box<dyn DeltaSink + 'a> {
        let concluding = self.concluding.is_some();
        Box::new(move |delta| match delta {
            Delta::Text(_) if !concluding => {}
            delta => sink.delta(delta),
        })
    }

    fn decide(&mut self, response: &Response) -> Decision {
        if let Some(answer) = self.concluding.take() {
            // The decision had an answer; a request that brought none takes nothing away from it.
            let text = response.reply.text();
            return Decision::Answer(if text.trim().is_empty() { answer } else { text.to_owned() });
        }
        let raw = match Raw::extract(response) {
            Ok(raw) => raw,
            Err(problem) => return self.object(response, DecisionFault::Extraction, problem),
        };
        let decision = match raw.validate(&self.tools) {
            Ok(decision) => decision,
            Err(problem) => return self.object(response, DecisionFault::Validation, problem),
        };
        self.retries = 0;
        match decision.next {
            Move::Answer(answer) => self.conclude(&decision.thought, answer),
            Move::Call { tool, args } => Decision::Call {
                text: decision.thought,
                calls: vec![ToolIntent { id: String::new(), name: tool, arguments: args }],
                refused: Vec::new(),
            },
        }
    }

    fn trace(&self, response: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        let thought = Raw::extract(response).ok().map(|raw| raw.thought());
        if executions.is_empty() {
            return thought
                .map(|thought| concluded(&thought))
                .or_else(|| echo(response.reply.text()))
                .into_iter()
                .collect();
        }
        executions.iter().flat_map(|execution| observed(execution, thought.as_deref())).collect()
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        observed(execution, None).to_vec()
    }
}
