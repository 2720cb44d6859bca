//! The path of a call: resolve, allowlist, schema, authorize, guardrails, hooks, run, hooks, cap, record.

mod batch;
mod before;
mod builder;
mod clear;
mod course;
mod executor;
mod halt;
mod ids;
mod journal;
mod parts;
mod stream;
mod walk;

pub use builder::{PipelineBuilder, PipelineError};
pub use executor::Pipeline;
pub use parts::{Modes, Observers, StateSink};
pub use stream::StreamEvent;
