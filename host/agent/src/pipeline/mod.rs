//! The path of a call: resolve, allowlist, schema, authorize, guardrails, hooks, run, hooks, cap, record.

mod abort;
mod batch;
mod before;
mod builder;
mod call_state;
mod checks;
mod dispatch;
mod executor;
mod ids;
mod journal;
mod parts;
mod stream;

pub use builder::{PipelineBuilder, PipelineError};
pub use executor::Pipeline;
pub use parts::{Modes, Observers, StateSink};
pub use stream::StreamEvent;
