//! Memory of an agent: notes that it writes, summaries of the calls that it made, and texts that it reads on demand.

mod episodes;
pub mod knowledge;
mod notes;
mod tools;

pub use episodes::{Episode, Episodes};
pub use notes::{InMemoryStore, Memory, MemoryError, Note};
pub use tools::{MemoryToolsError, TOOL_NAMES, register};
