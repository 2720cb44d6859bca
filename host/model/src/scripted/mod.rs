//! A model that replies from a script, for tests, demos and examples.

mod model;
mod parse;
mod reply;

pub use model::ScriptedModel;
pub use parse::{MAX_SCRIPT_BYTES, ScriptError};
pub use reply::{ScriptedAnswer, ScriptedReply};
