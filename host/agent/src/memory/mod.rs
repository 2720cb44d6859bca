//! What an agent remembers: notes that it writes itself, and a short account of the calls that it made.

mod episodes;
mod port;
mod tools;

pub use episodes::{Episode, Episodes};
pub use port::{InMemory, Memory, MemoryError, Note};
pub use tools::{MemoryToolsError, NAMES, register};
