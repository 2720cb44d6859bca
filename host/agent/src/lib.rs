//! The agent loop: a pure session, the drivers that turn a model's reply into calls, and the path of a call.
//!
//! Nothing here knows a provider, a database or a sandbox: models, records and tools are ports.

pub mod agent;
pub mod batch;
pub mod breaker;
pub mod budget;
pub mod driver;
pub mod execution;
pub mod executor;
pub mod native;
pub mod react;
pub mod recover;
pub mod render;
pub mod scripted;
pub mod session;
pub mod transcript;
