//! The agent loop: a pure session, drivers that turn replies of a model into calls, and the pipeline that runs calls.
//!
//! Models, recorders and tools are ports: no provider, database or sandbox is named here.

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

pub use fumehood_core::persistence;
