//! The agent loop: a pure session, the drivers that turn a model's reply into calls, and the path of a call.
//!
//! Nothing here knows a provider, a database or a sandbox: models, records and tools are ports.

pub mod agent;
pub mod allowlist;
pub mod approver;
pub mod batch;
pub mod breaker;
pub mod budget;
mod catch_panic;
pub mod clock;
pub mod driver;
mod examples;
pub mod execution;
pub mod executor;
pub mod guardrail;
pub mod hook;
pub mod identity;
pub mod knowledge;
pub mod memory;
mod names;
pub mod native;
pub mod persist;
pub mod pipeline;
pub mod react;
pub mod recover;
pub mod registry;
pub mod render;
pub mod retry;
pub mod scripted;
pub mod session;
pub mod transcript;
pub mod truncate;
