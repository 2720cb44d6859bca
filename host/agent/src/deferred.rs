//! Calls that are deferred until somebody answers a question about them, and the answers.

use fumehood_core::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A call that could not be decided on now: somebody has to answer a question about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeferredCall {
    /// The id of the model's call.
    pub call: String,
    /// The id of the call within the program that the model's call runs; `None` for the model's call itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<String>,
    /// The full name of the tool.
    pub tool: String,
    /// The arguments that the tool would get.
    pub arguments: Value,
    /// The arguments as they may be recorded; `None` if they may not.
    #[serde(default)]
    pub recorded: Option<Value>,
    /// The source of the question, such as a rule.
    pub from: String,
    /// The question.
    pub question: String,
    /// The digest of what an answer is about: the tool, its code, definition and powers, and the arguments.
    pub binding: Digest,
}

/// The answer of a person to a call that was deferred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallAnswer {
    /// The id of the question.
    pub id: String,
    /// The id of the model's call.
    pub call: String,
    /// The id of the call within a program.
    pub inner: Option<String>,
    /// The digest of what the answer is about. It holds for nothing else.
    pub binding: Digest,
    /// The answer.
    pub given: GivenAnswer,
}

/// The answer of a person to a call that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GivenAnswer {
    /// True if the call may run.
    pub yes: bool,
    /// The reason, for the model where the answer is no. May be empty.
    #[serde(default)]
    pub reason: String,
    /// The name of the person, as they gave it: it is not checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
