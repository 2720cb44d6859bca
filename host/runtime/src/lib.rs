//! The sandbox: the only crate that names wasmtime.
//!
//! [`Sandbox`] compiles components and runs calls. Every call gets a fresh instance with fuel, a deadline that holds
//! over everything the call does, one ceiling over all its memory, and nothing but the powers that it was granted.
//! How a call ends is a value, [`Execution`]; a guest can neither make the host panic nor outlive its call.
//!
//! Nothing here knows what a tool is for, who may call it, or whether its arguments fit: that is decided before.

mod admission;
mod bindings;
mod cache;
mod capability;
mod clock;
mod compile;
mod component;
mod dialect;
mod engine;
mod file_pool;
mod guest_runtime;
mod host_failure;
mod imports;
mod invocation;
mod load;
mod load_error;
mod memory;
mod outcome;
mod run;
mod sandbox;
mod shared;
mod ticker;

pub use cache::{CacheError, CacheReport, CodeCache};
pub use capability::FolderError;
pub use component::{Component, LoadReport};
pub use dialect::{Dialect, Skipped};
pub use engine::{EngineProfile, SandboxConfig, SandboxError};
pub use guest_runtime::Late;
pub use imports::Import;
pub use invocation::{Invocation, Observer, Terms};
pub use load::LoadOptions;
pub use load_error::{ACCEPTED_CONTRACT, LoadError, MAX_COMPONENT_BYTES, SLOW_COMPILE_BYTES};
pub use outcome::Execution;
pub use sandbox::Sandbox;
