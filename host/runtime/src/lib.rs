//! The sandbox of the Fumehood tool host, on wasmtime.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! [`Sandbox`] compiles components and runs calls. Every call gets a fresh instance with fuel, a deadline that holds
//! over everything the call does, one ceiling over all its memory, and nothing but the powers that it was granted.
//! Every outcome of a call is returned as a value, [`Execution`]; a guest can neither make the host panic nor outlive
//! its call.
//!
//! This crate does not decide who may call a tool. That arguments fit its schema is part of the type of a call.
//!
//! ```
//! use fumehood_runtime::{LoadOptions, Sandbox, SandboxConfig};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
//! let sandbox = Sandbox::new(SandboxConfig::default())?;
//! let component = sandbox.load(std::fs::read(path)?, LoadOptions::default()).await?;
//! for tool in component.definitions() {
//!     println!("{}", tool.name);
//! }
//! # assert!(component.definitions().iter().any(|tool| tool.name.as_str() == "add"));
//! # sandbox.shutdown(std::time::Duration::from_secs(1)).await;
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod call;
mod config;
mod engine;
mod interpreter;
mod isolation;
mod jail;
mod load;
mod network;
mod sandbox;
mod socket;
mod wasi;

pub use call::outcome::Execution;
pub use config::{SandboxConfig, Workers};
pub use engine::{EngineProfile, SandboxError};
pub use interpreter::{Interpreter, JAVASCRIPT};
pub use isolation::serve_worker;
pub use jail::JailReport;
pub use jail::program::{
    ProgramJail, ProgramJailError, ProgramJailReport, ProgramLimits, probe_program_jail, run_program,
};
pub use load::cache::{CacheError, CacheReport, CodeCache};
pub use load::compile::{CompileBudget, CompileLimits, Compiler, serve_compiler};
#[doc(hidden)]
pub use load::dialect::convert_typed;
pub use load::dialect::{Dialect, HOOK_FUNCTIONS, Skipped};
pub use load::error::{ACCEPTED_CONTRACT, CompileLimit, LoadError, MAX_COMPONENT_BYTES, SLOW_COMPILE_BYTES};
pub use load::imports::{Import, Ungranted};
pub use load::{Isolation, LoadOptions, LoadReport, embed_docs, read_wishes};
#[cfg(feature = "tls")]
pub use network::TrustError;
pub use network::{Network, ProgramProxy, ProxyAddress, RefusalLog, Resolver, SystemResolver};
pub use sandbox::{Component, Sandbox};
pub use wasi::{FolderError, capability_interfaces};
