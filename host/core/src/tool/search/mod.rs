//! Search over tools: an index of their words, and the ranking of the tools that match a query.

mod index;
mod words;

pub use index::ToolIndex;
