//! The batch protocol, for models without tool calling: the model writes `<think>`, then `<execute>` with a JSON array
//! of calls; the system answers with `<results>`; text outside the tags is the answer.
//!
//! This module does no I/O: it turns text into events.

mod block;
mod conversation;
mod delta_filter;
mod driver;
mod event;
mod parser;
mod prompt;
mod report;

#[cfg(test)]
pub(crate) use conversation::to_entries;
pub use conversation::{Entry, to_messages};
pub use driver::BatchDriver;
pub use event::{Event, merge_pieces};
pub use parser::{Parser, ParserLimits, parse};
pub use prompt::system_prompt;
pub(crate) use report::BatchSummary;
pub use report::{ReportStatus, ToolReport};
