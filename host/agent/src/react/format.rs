//! Decisions and observations as messages.

use fumehood_core::chat::Message;

use crate::execution::ToolExecution;
use crate::render::format_execution;

/// The assistant's message with a thought and a call, and the user's message with what came of it.
pub(super) fn observed(execution: &ToolExecution, thought: Option<&str>) -> [Message; 2] {
    let thought = thought.map_or_else(String::new, |thought| format!("Thought: {thought}\n"));
    let action = format!("{thought}Action: {}\nAction Input: {}", execution.name(), execution.args());
    let observation = format!("Observation: {}", format_execution(execution, "ERROR - "));
    let id = Some(execution.id.clone());
    [
        Message { tool_execution_id: id.clone(), ..Message::assistant(action) },
        Message { tool_execution_id: id, is_error: execution.has_error(), ..Message::user(observation) },
    ]
}

/// The assistant's message with the decision to answer.
pub(super) fn concluded(thought: &str) -> Message {
    Message::assistant(format!("Thought: {thought}\nAction: final_answer"))
}
