//! What a model answers.

use serde::{Deserialize, Serialize};

use super::message::{Thought, ToolIntent};

/// The answer proper: text, or calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Text.
    Text(String),
    /// Calls, in the order in which the model asked for them, with the text beside them.
    ToolCalls {
        /// What the model said beside the calls; often empty.
        text: String,
        /// At least one.
        calls: Vec<ToolIntent>,
    },
}

impl Reply {
    /// The text of the reply, with or without calls beside it.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::ToolCalls { text, .. } => text,
        }
    }

    /// The calls; none for a text.
    #[must_use]
    pub fn calls(&self) -> &[ToolIntent] {
        match self {
            Self::Text(_) => &[],
            Self::ToolCalls { calls, .. } => calls,
        }
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It was done, or waits for the results of its calls.
    #[default]
    Done,
    /// It ran into the limit on the length of an answer.
    Length,
    /// The provider held the answer back.
    Filtered,
}

/// Tokens, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
    }
}

/// One answer of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The answer proper.
    pub reply: Reply,
    /// What it cost. Zero where the provider does not say.
    #[serde(default)]
    pub usage: Usage,
    /// Why the model stopped.
    #[serde(default)]
    pub stop: StopReason,
    /// Thoughts that the provider wants back with the calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Thought>,
    /// Remarks for an operator on how the answer was got, such as that a setting was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

impl Response {
    /// An answer that the model ended by itself.
    #[must_use]
    pub fn new(reply: Reply) -> Self {
        Self { reply, usage: Usage::default(), stop: StopReason::Done, thoughts: Vec::new(), notices: Vec::new() }
    }

    /// A text that cost nothing: for closures and tests.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Reply::Text(text.into()))
    }

    /// Calls that cost nothing: for closures and tests.
    #[must_use]
    pub fn calls(calls: Vec<ToolIntent>) -> Self {
        Self::new(Reply::ToolCalls { text: String::new(), calls })
    }
}
