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

pub use conversation::{Entry, rebuild, to_entries, to_messages};
pub use delta_filter::DeltaFilter;
pub use driver::BatchDriver;
pub use event::{Event, merge_pieces};
pub use parser::{Parser, ParserLimits, parse};
pub use prompt::system_prompt;
pub use report::{BatchSummary, ReportStatus, ToolReport, render_results};
