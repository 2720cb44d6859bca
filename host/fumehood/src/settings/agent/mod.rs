//! Agents inside another program: the program is their model, and answers their questions about calls.

mod embedded_agent;
mod messages;
mod questions;
mod report;

pub use embedded_agent::{EmbeddedAgent, budget_over};
pub use questions::Questions;
pub use report::{AgentReport, CallReport};
