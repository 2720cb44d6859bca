//! What a session does, input by input. No clock, no model, no tool.

mod conversation;
mod decisions;
mod limits;
mod properties;
pub(crate) mod world;
