//! The path of a call: resolve, allowlist, schema, the checks of every face, run, policies, truncate, record.

mod abort;
pub mod allowlist;
mod approval;
pub mod approval_queue;
mod batch;
mod builder;
mod checks;
mod config;
mod dispatch;
mod error;
mod executor;
mod finalize;
pub mod guardrail;
mod journal;
mod program;
mod skill_call;

pub use builder::PipelineBuilder;
pub use config::{Modes, RELAY_TOOLS};
pub use error::PipelineError;
pub use executor::Pipeline;
