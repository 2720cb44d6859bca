//! The path of a call: resolve, allowlist, schema, authorize, guardrails, flows, hooks, run, hooks, truncate, record.

mod abort;
pub mod allowlist;
mod approval;
pub mod approval_queue;
mod batch;
mod builder;
mod call_hook_stages;
mod checks;
mod config;
mod dispatch;
mod error;
mod executor;
mod finalize;
mod flows;
pub mod guardrail;
mod journal;
mod program;
mod skill_call;

pub use builder::PipelineBuilder;
pub use config::{Modes, RELAY_TOOLS};
pub use error::PipelineError;
pub use executor::Pipeline;
