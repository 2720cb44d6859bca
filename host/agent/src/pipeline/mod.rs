//! The path of a call: resolve, allowlist, schema, authorize, guardrails, hooks, run, hooks, truncate, record.

mod abort;
mod batch;
mod builder;
mod checks;
mod config;
mod dispatch;
mod executor;
mod hooks;
mod journal;
mod stream_event;

pub use builder::{PipelineBuilder, PipelineError};
pub use config::{Modes, Observers, StateSink};
pub use executor::Pipeline;
pub use stream_event::StreamEvent;
