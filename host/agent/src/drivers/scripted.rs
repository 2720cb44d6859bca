//! A driver that follows a script instead of reading replies, for tests and demonstrations.

use std::collections::VecDeque;

use fumehood_core::chat::{Message, Request, Response, ToolIntent};

use super::driver::{Decision, DecisionError, DecisionFault, Driver};
use super::native::to_tool_messages;
use crate::execution::ToolExecution;

/// A driver that returns scripted decisions in order, one for each reply, regardless of its content.
///
/// The script continues from one execution to the next and never starts again. After its end, every reply is a failure
/// with a message about that, or the answer of [`ScriptedDriver::then_answer`]. So a loop around it always ends.
#[derive(Debug, Clone, Default)]
pub struct ScriptedDriver {
    script: VecDeque<Decision>,
    played: usize,
    rest: Option<String>,
}

impl ScriptedDriver {
    /// Creates a driver with an empty script.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a decision.
    #[must_use]
    pub fn decision(mut self, decision: Decision) -> Self {
        self.script.push_back(decision);
        self
    }

    /// Adds a decision with these calls in one batch: names, and arguments as JSON text.
    #[must_use]
    pub fn calls<N: Into<String>, A: Into<String>>(self, calls: impl IntoIterator<Item = (N, A)>) -> Self {
        let calls = calls.into_iter().map(|(name, arguments)| ToolIntent {
            id: String::new(),
            name: name.into(),
            arguments: arguments.into(),
        });
        let calls = calls.collect();
        self.decision(Decision::Call { text: String::new(), calls, refused: Vec::new() })
    }

    /// Adds a decision with one call.
    #[must_use]
    pub fn call(self, name: impl Into<String>, arguments: impl Into<String>) -> Self {
        self.calls([(name, arguments)])
    }

    /// Adds a final answer.
    #[must_use]
    pub fn answer(self, text: impl Into<String>) -> Self {
        self.decision(Decision::Answer(text.into()))
    }

    /// Sets the answer after the end of the script, in place of a failure.
    #[must_use]
    pub fn then_answer(mut self, text: impl Into<String>) -> Self {
        self.rest = Some(text.into());
        self
    }

    /// Returns the number of remaining decisions.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.script.len()
    }
}

impl Driver for ScriptedDriver {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn request(&mut self, conversation: &[Message], trace: &[Message]) -> Request {
        Request { messages: [conversation, trace].concat(), ..Request::default() }
    }

    fn decide(&mut self, _: &Response) -> Decision {
        if let Some(decision) = self.script.pop_front() {
            self.played = self.played.saturating_add(1);
            return decision;
        }
        let message = format!("the script has ended after {} decisions; add the next one to it", self.played);
        let failed = Decision::Failed(DecisionError { fault: DecisionFault::Extraction, message });
        self.rest.clone().map_or(failed, Decision::Answer)
    }

    fn trace(&self, _: &Response, executions: &[ToolExecution]) -> Vec<Message> {
        executions.iter().flat_map(|execution| to_tool_messages(execution, "")).collect()
    }

    fn replay(&self, execution: &ToolExecution) -> Vec<Message> {
        to_tool_messages(execution, "").to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_played_whatever_the_model_says() {
        let mut driver = ScriptedDriver::new().call("add", r#"{"a":3}"#).answer("16");
        let Decision::Call { calls, .. } = driver.decide(&Response::text("{\"tool\": \"other\"}")) else {
            panic!("not a call");
        };
        assert_eq!((calls[0].name.as_str(), calls[0].arguments.as_str()), ("add", r#"{"a":3}"#));
        assert_eq!(driver.decide(&Response::text("")), Decision::Answer("16".to_owned()));
        assert_eq!(driver.remaining(), 0);
    }

    #[test]
    fn a_script_that_has_ended_ends_the_loop() {
        let mut driver = ScriptedDriver::new().answer("a");
        driver.decide(&Response::text(""));
        for _ in 0..3 {
            let Decision::Failed(failure) = driver.decide(&Response::text("")) else { panic!("it goes on") };
            assert_eq!(failure.message, "the script has ended after 1 decisions; add the next one to it");
        }
        let mut driver = ScriptedDriver::new().then_answer("z");
        assert_eq!(driver.decide(&Response::text("")), Decision::Answer("z".to_owned()));
    }
}
