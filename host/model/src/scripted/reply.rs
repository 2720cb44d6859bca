//! Replies of a scripted model.

use std::time::Duration;

use fumehood_core::chat::{ModelError, StopReason, ToolIntent, Usage};

/// The content of a scripted reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptedAnswer {
    /// Text.
    Text(String),
    /// Tool calls with optional text. A call with an empty id gets the id `call_REPLY_CALL`, both counted from 1.
    Calls {
        /// The text; may be empty.
        text: String,
        /// The calls, at least one.
        calls: Vec<ToolIntent>,
    },
    /// A failure of the model.
    Error(ModelError),
}

/// One reply of a script, and the condition for its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedReply {
    /// The content of the reply.
    pub answer: ScriptedAnswer,
    /// Texts that the last message of the request must contain, all of them.
    pub expect: Vec<String>,
    /// The delay before the reply. Default: none.
    pub delay: Duration,
    /// The token usage that is reported. Default: zero.
    pub usage: Usage,
    /// The stop reason that is reported.
    pub stop: StopReason,
    /// The line of the script in which the reply begins, counted from 1; 0 for a reply that was built in code.
    pub(crate) line: usize,
}

impl ScriptedReply {
    fn new(answer: ScriptedAnswer) -> Self {
        let usage = Usage::default();
        let stop = StopReason::Done;
        Self { answer, expect: Vec::new(), delay: Duration::ZERO, usage, stop, line: 0 }
    }

    /// Creates a reply of text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(ScriptedAnswer::Text(text.into()))
    }

    /// Creates a reply of one tool call, with its arguments as text.
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::calls(vec![ToolIntent { id: String::new(), name: name.into(), arguments: arguments.into() }])
    }

    /// Creates a reply of several tool calls.
    #[must_use]
    pub fn calls(calls: Vec<ToolIntent>) -> Self {
        Self::new(ScriptedAnswer::Calls { text: String::new(), calls })
    }

    /// Creates a reply that is a failure.
    #[must_use]
    pub fn error(error: ModelError) -> Self {
        Self::new(ScriptedAnswer::Error(error))
    }

    /// Requires the last message of the request to contain `text`. May be called several times.
    #[must_use]
    pub fn expect_text(mut self, text: impl Into<String>) -> Self {
        self.expect.push(text.into());
        self
    }

    /// Sets the delay before the reply.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the token usage that is reported.
    #[must_use]
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }
}
