//! Decisions and observations as messages.

use fumehood_core::chat::Message;

use crate::execution::ToolExecution;
use crate::render::execution_text;

/// Converts an execution to two messages: the assistant's thought and call, and the user's observation.
pub(super) fn observed(execution: &ToolExecution, thought: Option<&str>) -> [Message; 2] {
    let thought = thought.map_or_else(String::new, |thought| format!("Thought: {thought}\n"));
    let action = format!("{thought}Action: {}\nAction Input: {}", execution.name(), execution.args());
    let observation = format!("Observation: {}", execution_text(execution, "ERROR - "));
    let id = Some(execution.id.clone());
    [
        Message { tool_execution_id: id.clone(), ..Message::assistant(action) },
        Message { tool_execution_id: id, is_error: execution.has_error(), ..Message::user(observation) },
    ]
}

/// Creates the assistant's message with the decision to answer.
pub(super) fn concluded(thought: &str) -> Message {
    Message::assistant(format!("Thought: {thought}\nAction: final_answer"))
}
