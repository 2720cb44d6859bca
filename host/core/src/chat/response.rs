//! Responses of a model.

use serde::{Deserialize, Serialize};

use super::message::{Thought, ToolIntent};

/// The content of a response: text, or calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Text.
    Text(String),
    /// Calls, in the order in which the model asked for them, with the text beside them.
    ToolCalls {
        /// The text beside the calls; often empty.
        text: String,
        /// The calls; at least one.
        calls: Vec<ToolIntent>,
    },
}

impl Reply {
    /// Returns the text of the reply, with or without calls beside it.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Text(text) | Self::ToolCalls { text, .. } => text,
        }
    }

    /// Returns the calls; none for a text.
    #[must_use]
    pub fn calls(&self) -> &[ToolIntent] {
        match self {
            Self::Text(_) => &[],
            Self::ToolCalls { calls, .. } => calls,
        }
    }
}

/// The reason why the model stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete, or the model waits for the results of its calls.
    #[default]
    Done,
    /// The answer reached its maximum length.
    Length,
    /// The provider filtered the answer.
    Filtered,
    /// The model refused to answer.
    Refused,
    /// The provider paused the answer, and did not end it however often it was continued.
    Paused,
    /// The provider says that the answer failed.
    Failed,
}

impl StopReason {
    /// Describes the end of an answer, as a sentence without a full stop.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Done => "the answer is complete",
            Self::Length => "the answer was cut at its length limit",
            Self::Filtered => "the provider filtered the answer",
            Self::Refused => "the model refused to answer",
            Self::Paused => "the provider paused the answer repeatedly",
            Self::Failed => "the provider reported that the answer failed",
        }
    }
}

/// Numbers of tokens, as the provider counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the request, those of its cache included.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// Tokens of the request that the provider read from its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Tokens of the request that the provider wrote to its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_creation: u64,
}

impl Usage {
    /// Creates the usage of a request without a cache.
    #[must_use]
    pub fn new(input: u64, output: u64) -> Self {
        Self { input, output, ..Self::default() }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cache_read = self.cache_read.saturating_add(more.cache_read);
        self.cache_creation = self.cache_creation.saturating_add(more.cache_creation);
    }
}

/// One answer of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The content.
    pub reply: Reply,
    /// The token usage; zero if the provider does not report it.
    #[serde(default)]
    pub usage: Usage,
    /// The reason why the model stopped.
    #[serde(default)]
    pub stop: StopReason,
    /// Thoughts that the provider expects back with the calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub thoughts: Vec<Thought>,
    /// Notices for an operator about the request, such as that a setting was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
}

impl Response {
    /// Creates a complete answer without token usage.
    #[must_use]
    pub fn new(reply: Reply) -> Self {
        Self { reply, usage: Usage::default(), stop: StopReason::Done, thoughts: Vec::new(), notices: Vec::new() }
    }

    /// Creates a text answer without token usage, for closures and tests.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(Reply::Text(text.into()))
    }

    /// Creates an answer of calls without token usage, for closures and tests.
    #[must_use]
    pub fn calls(calls: Vec<ToolIntent>) -> Self {
        Self::new(Reply::ToolCalls { text: String::new(), calls })
    }
}
