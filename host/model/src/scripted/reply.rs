//! One reply of a script.

use std::time::Duration;

use fumehood_core::chat::{ModelError, StopReason, ToolIntent, Usage};

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptedAnswer {
    /// Text.
    Text(String),
    /// Calls, with the text beside them. A call with an empty id gets one, `call_REPLY_CALL`, both counted from 1.
    Calls {
        /// The text; may be empty.
        text: String,
        /// At least one.
        calls: Vec<ToolIntent>,
    },
    /// No answer.
    Error(ModelError),
}

/// One reply, and when it fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptedReply {
    /// What is answered.
    pub answer: ScriptedAnswer,
    /// What the last message must contain, each of them, for the script to go on.
    pub expect: Vec<String>,
    /// How long the answer takes to come: nothing.
    pub delay: Duration,
    /// What it is said to cost: nothing.
    pub usage: Usage,
    /// Why the model is said to have stopped.
    pub stop: StopReason,
    /// Where in its file it begins, counted from 1; 0 for one that a program made.
    pub(crate) line: usize,
}

impl ScriptedReply {
    fn new(answer: ScriptedAnswer) -> Self {
        let (usage, stop) = (Usage::default(), StopReason::Done);
        Self { answer, expect: Vec::new(), delay: Duration::ZERO, usage, stop, line: 0 }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(ScriptedAnswer::Text(text.into()))
    }

    /// One call, with its arguments as text.
    pub fn call(name: impl Into<String>, arguments: impl Into<String>) -> Self {
        Self::calls(vec![ToolIntent { id: String::new(), name: name.into(), arguments: arguments.into() }])
    }

    /// Several calls at once.
    #[must_use]
    pub fn calls(calls: Vec<ToolIntent>) -> Self {
        Self::new(ScriptedAnswer::Calls { text: String::new(), calls })
    }

    /// No answer.
    #[must_use]
    pub fn error(error: ModelError) -> Self {
        Self::new(ScriptedAnswer::Error(error))
    }

    /// Lets the script go on only if the last message contains `words`.
    #[must_use]
    pub fn expecting(mut self, words: impl Into<String>) -> Self {
        self.expect.push(words.into());
        self
    }

    /// Lets the answer take this long.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Says what the answer cost.
    #[must_use]
    pub fn costing(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }
}
