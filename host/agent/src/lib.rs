//! The agent loop: a pure session, the drivers that turn a model's reply into calls, and the path of a call.
//!
//! Nothing here knows a provider, a database or a sandbox: models, records and tools are ports.

pub mod allowlist;
pub mod cap;
pub mod driver;
pub mod execution;
pub mod executor;
pub mod guardrail;
pub mod hook;
pub mod identity;
pub mod knowledge;
pub mod memory;
pub mod persist;
pub mod pipeline;
pub mod registry;
pub mod retry;
