//! The sandbox: the only crate that names wasmtime.
//!
//! [`Sandbox`] compiles components and runs calls. Every call gets a fresh instance with fuel, a deadline that holds
//! over everything the call does, one ceiling over all its memory, and nothing but the powers that it was granted.
//! Every outcome of a call is returned as a value, [`Execution`]; a guest can neither make the host panic nor outlive
//! its call.
//!
//! This crate does not decide who may call a tool. That arguments fit its schema is part of the type of a call.

mod admission;
mod bindings;
mod cache;
mod capability;
mod clock;
mod compile;
mod component;
mod config;
mod dialect;
mod embed_docs;
mod engine;
mod exception;
mod features;
mod file_pool;
mod guest_runtime;
mod host_failure;
mod imports;
mod interpreter;
mod invocation;
mod isolation;
mod jail;
mod load;
mod load_error;
mod load_options;
mod memory;
mod network;
mod outcome;
mod place;
mod run;
mod sandbox;
mod shared;
mod surface;
mod ticker;
mod tool_call;

pub use cache::{CacheError, CacheReport, CodeCache};
pub use capability::FolderError;
pub use compile::{CompileBudget, CompileLimits, Compiler, serve_compiler};
pub use component::{Component, LoadReport};
pub use config::{SandboxConfig, Workers};
#[doc(hidden)]
pub use dialect::convert_typed;
pub use dialect::{Dialect, Skipped};
pub use embed_docs::embed_docs;
pub use engine::{EngineProfile, SandboxError};
pub use imports::{Import, Ungranted};
pub use interpreter::{
    ConsoleLevel, ConsoleLine, Exception, FinishedCall, Interpreter, Pause, Program, ProgramCalls, ProgramDeadline,
    ProgramError, ProgramExecution,
};
pub use isolation::serve_worker;
pub use jail::JailReport;
pub use load_error::{ACCEPTED_CONTRACT, CompileLimit, LoadError, MAX_COMPONENT_BYTES, SLOW_COMPILE_BYTES};
pub use load_options::{Isolation, LoadOptions};
#[cfg(feature = "tls")]
pub use network::TrustError;
pub use network::{Network, Resolver, SystemResolver};
pub use outcome::Execution;
pub use sandbox::Sandbox;
