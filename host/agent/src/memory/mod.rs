//! Memory of an agent: notes that it writes, results of the calls that it made, and texts that it reads on demand.

pub mod knowledge;
mod notes;
mod results;
mod tools;

pub use notes::{InMemoryStore, Memory, MemoryError, Note};
pub use results::{DEFAULT_STORE_BYTES, READ_RESULT, ResultStore, register_read_result};
pub use tools::{MemoryToolsError, TOOL_NAMES, register};
