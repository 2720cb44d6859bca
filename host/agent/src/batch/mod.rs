//! The batch protocol, for models without tool calling: the model writes `<think>`, then `<execute>` with a JSON array of calls;
//! the system answers with `<results>`; text outside the tags is the answer.
//!
//! This module does no I/O: it turns text into events.

mod block;
mod conversation;
mod driver;
mod event;
mod parser;
mod prompt;
mod report;
mod stream;

pub use conversation::{Entry, entries, rebuild, to_messages};
pub use driver::BatchDriver;
pub use event::{Event, whole};
pub use parser::{Parser, ParserLimits, parse};
pub use prompt::system_prompt;
pub use report::{BatchSummary, ReportStatus, ToolReport, render_results};
pub use stream::Spoken;
