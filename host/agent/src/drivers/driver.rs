//! The port for protocols between the loop and a model: requests, and the decisions that replies stand for.
//!
//! A driver is pure: it neither asks the model nor runs a tool. One driver serves one execution at a time.

use fumehood_core::chat::{DeltaSink, Message, Request, Response, ToolIntent, ToolSpec};

use super::reply_part::ReplyPart;
use crate::execution::ToolExecution;

/// The tools of one execution. Bound once, before its first step; see also [`Driver::add_tools`].
#[derive(Debug, Clone, Default)]
pub struct ToolRuntime {
    /// The tools that may be called.
    pub tools: Vec<ToolSpec>,
}

/// The decision that a reply of the model stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// The final answer.
    Answer(String),
    /// A request for calls.
    Call {
        /// The text beside the calls; may be empty.
        text: String,
        /// The calls, in order. May be empty where the driver's protocol allows that.
        calls: Vec<ToolIntent>,
        /// Calls that the driver refuses, by position, with the messages to answer them with.
        refused: Vec<(usize, String)>,
    },
    /// No decision; the model is asked again with these messages appended.
    Again {
        /// The messages for the model.
        messages: Vec<Message>,
    },
    /// A separate request, without tools, for the final answer.
    Infer(Box<Request>),
    /// No decision, also after asking again.
    Failed(DecisionError),
}

/// The part of reading a decision that failed. Its name is that of the pseudo-execution that reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionFault {
    /// No decision was found in the reply.
    Extraction,
    /// A decision was found that is not valid.
    Validation,
}

impl DecisionFault {
    /// Returns the name of the pseudo-execution.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Extraction => "decision_extraction",
            Self::Validation => "decision_validation",
        }
    }
}

/// An error for a reply that is not a decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DecisionError {
    /// The part that failed.
    pub fault: DecisionFault,
    /// The message, for the model and for people.
    pub message: String,
}

/// A protocol that turns a conversation into requests, and replies into decisions.
pub trait Driver: Send + Sync {
    /// Returns the name of the protocol. A saved session is resumed with the same one only. The default is `custom`.
    fn name(&self) -> &'static str {
        "custom"
    }

    /// Sets the tools of an execution. Called once for each execution, before its first request. The default ignores
    /// them.
    fn bind(&mut self, runtime: ToolRuntime) {
        let _ = runtime;
    }

    /// Adds tools that a search has shown to the model during the execution. The default ignores them.
    fn add_tools(&mut self, tools: Vec<ToolSpec>) {
        let _ = tools;
    }

    /// Returns the next request. `conversation` holds the messages before this execution and its user message; `trace`
    /// holds the messages of this execution since, as made by [`Driver::trace`].
    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request;

    /// Wraps `sink` in a filter that removes the parts of a reply that are not for the user: thoughts and calls, where
    /// a protocol has them in the text.
    ///
    /// There is one filter for each request. Drop it when the answer is complete, because it may pass on the last piece
    /// only then. The default passes on everything.
    fn filter_deltas<'a>(&self, sink: &'a mut dyn DeltaSink) -> Box<dyn DeltaSink + 'a> {
        Box::new(move |delta| sink.delta(delta))
    }

    /// Reads the decision of a reply.
    fn decide(&mut self, response: &Response) -> Decision;

    /// Splits a reply into the parts that a saved session keeps, where the protocol has calls in the text. Such a reply is
    /// replaced by [`Driver::join_reply`] of its parts before it is decided on. `None`, the default, keeps it as it is.
    fn split_reply(&self, reply: &str) -> Option<Vec<ReplyPart>> {
        let _ = reply;
        None
    }

    /// Joins the parts of a reply. Splitting the text gives the same parts. The default is for drivers that split none.
    fn join_reply(&self, parts: &[ReplyPart]) -> String {
        let _ = parts;
        String::new()
    }

    /// Returns the messages that report a decision and the results of its calls to the model, in the order of the
    /// calls.
    fn trace(&self, response: &Response, executions: &[ToolExecution]) -> Vec<Message>;

    /// Returns the messages that repeat an earlier call and its result in a later execution.
    fn replay(&self, execution: &ToolExecution) -> Vec<Message>;

    /// Returns the messages that repeat the calls of one earlier decision and their results, in the order of the calls.
    /// `text` is the text that the model wrote beside them. The default repeats each call by itself, without the text.
    fn replay_batch(&self, text: &str, executions: &[&ToolExecution]) -> Vec<Message> {
        let _ = text;
        executions.iter().flat_map(|execution| self.replay(execution)).collect()
    }
}

/// Returns the [`Request::cache_breakpoints`] of a request with these messages, which end with this trace.
///
/// The conversation is repeated by every request of the execution, and by those of the next one; everything so far is
/// repeated by the next request.
#[must_use]
pub fn cache_breakpoints(messages: &[Message], trace: &[Message]) -> Vec<usize> {
    let mut breakpoints = vec![messages.len().saturating_sub(trace.len()), messages.len()];
    breakpoints.dedup();
    breakpoints
}
