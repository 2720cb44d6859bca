//! Memory of an agent: notes that it writes, and summaries of the calls that it made.

mod episodes;
mod notes;
mod tools;

pub use episodes::{Episode, Episodes};
pub use notes::{InMemoryStore, Memory, MemoryError, Note};
pub use tools::{MemoryToolsError, TOOL_NAMES, register};
