//! The port through which a loop talks to a model: what to ask, and what an answer means.
//!
//! A driver is pure: it neither asks the model nor runs a tool. One driver serves one execution at a time.

use fumehood_core::chat::{DeltaSink, Message, Request, Response, ToolIntent, ToolSpec};

use crate::execution::ToolExecution;

/// What a driver may use within one execution. Bound once, before its first step.
#[derive(Debug, Clone, Default)]
pub struct ToolRuntime {
    /// The tools that may be called.
    pub tools: Vec<ToolSpec>,
}

/// What an answer of the model means.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// It is the final answer.
    Answer(String),
    /// It asks for calls.
    Call {
        /// What it said beside the calls; may be empty.
        text: String,
        /// The calls, in order. May be empty where the driver's protocol allows that.
        calls: Vec<ToolIntent>,
        /// Calls that the driver itself could already refuse, by position, with the words to answer them with.
        refused: Vec<(usize, String)>,
    },
    /// It is not a decision; ask again with these messages appended.
    Again {
        /// What to tell the model.
        messages: Vec<Message>,
    },
    /// Make the final answer with one separate request, without tools.
    Infer(Box<Request>),
    /// It is not a decision, and asking again has not helped.
    Failed(DecisionFailure),
}

/// Which part of taking a reply for a decision failed. The name is that of the pseudo-execution that tells of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionFault {
    /// No decision could be found in the reply.
    Extraction,
    /// A decision was found, and it is not a valid one.
    Validation,
}

impl DecisionFault {
    /// The name of the pseudo-execution.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Extraction => "decision_extraction",
            Self::Validation => "decision_validation",
        }
    }
}

/// A reply that could not be taken for a decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecisionFailure {
    /// Which part failed.
    pub fault: DecisionFault,
    /// What was wrong, in words for the model and for people.
    pub message: String,
}

/// Turns a conversation into requests and replies into decisions.
pub trait Driver: Send {
    /// The tools of the execution that begins. Called once for each execution, before its first request. A driver that
    /// needs no tools need not have it.
    fn bind(&mut self, runtime: ToolRuntime) {
        let _ = runtime;
    }

    /// The next request. `conversation` is what was said before this execution and its own user message;
    /// `trace` is what this execution has said since, as [`Driver::trace`] put it.
    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request;

    /// Puts in front of `sink` whatever keeps from it those parts of a reply that are not for the user: thoughts and
    /// calls, where a protocol has them in the text. One for each request; drop it when the answer is complete, since
    /// only then may it pass on the last piece. By default, nothing is kept from `sink`.
    fn shown<'a>(&self, sink: &'a mut dyn DeltaSink) -> Box<dyn DeltaSink + 'a> {
        Box::new(move |delta| sink.delta(delta))
    }

    /// What an answer means.
    fn decide(&mut self, response: &Response) -> Decision;

    /// How a decision and what became of its calls is told to the model, in the order of the calls.
    fn trace(&self, response: &Response, executions: &[ToolExecution]) -> Vec<Message>;

    /// How an earlier call and its result are told again in a later execution.
    fn replay(&self, execution: &ToolExecution) -> Vec<Message>;
}
