//! Put a host for untrusted WebAssembly tools inside your own service.
//!
//! A [`Host`] loads tools and calls them. Every call runs in a fresh WebAssembly instance, with fuel, an enforced
//! deadline, a memory ceiling, and none of the powers that you did not grant. Its arguments are checked against the
//! tool's schema before any guest code runs. Every outcome is returned as a [`CallResult`].
//!
//! ```
//! use fumehood::{Call, Host, Load};
//! use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/calculator.wasm");
//! let host = Host::builder().build()?;
//! host.load(Load::path(path)).await?;
//!
//! let sum = host.call(Call::new("calculator__add", json!({"a": 3, "b": 5}))).await;
//! assert_eq!(sum.text().as_deref(), Some(r#"{"result":8}"#));
//!
//! let refused = host.call(Call::new("calculator__add", json!({"a": "3", "b": 5}))).await;
//! println!("{}", refused.error().ok_or("it should be refused")?);
//! # host.shutdown(std::time::Duration::from_secs(1)).await;
//! # Ok(())
//! # }
//! ```
//!
//! - Limits: for the host ([`HostBuilder::limits`]), a component ([`Load::limits`]) or a call
//!   ([`Call::limits`]).
//! - Pinning: [`Load::approval`] and [`Lock`]. A component that is not what was approved is loaded and not called.
//! - Isolation: [`HostBuilder::workers`] runs components in processes of their own, in a jail of the kernel.
//! - Cancelling: drop the future of [`Host::call`], or use [`Host::call_until`]. The guest stops within a few
//!   milliseconds.
//! - Watching: one call with an [`Observer`] of its own ([`Host::call_with`]), or all of them with [`Host::subscribe`],
//!   whose subscribers lose events if they are slow.
//! - Answering over HTTP: [`ErrorKind::http_status`].
//! - Recording: opt-in. An agent records through its `Recorder`; other calls through a [`CallLog`], with
//!   [`Host::call_recorded`] or a [`RecordedHost`]. Calls made in any other way are not recorded.
//! - An agent that calls the tools: [`Host::agent`].
//! - Ending: [`Host::shutdown`] takes bounded time, whatever guests do.
//!
//! # Build settings
//!
//! Cargo takes profiles from the workspace that is built, so a service needs these in its own `Cargo.toml` for
//! development builds. Without the first, compiling components is very slow; the second keeps the compiler from leaving
//! out a constant now and then, which ends in `undefined hidden symbol` when linking. Release builds need neither.
//!
//! ```toml
//! [profile.dev.package."*"]
//! opt-level = 3
//!
//! [profile.dev.package.fumehood]
//! codegen-units = 1
//! ```

/// Private stores of tools: keys and values that outlive a call, in memory or on disk.
pub mod key_value {
    pub use fumehood_core::key_value::*;
    pub use fumehood_key_value::{DiskStore, OpenError};
}

mod agent_builder;
mod agent_error;
mod approval_check;
mod builder;
mod call_log;
mod call_options;
mod events;
mod host;
mod host_tools;
mod keyring;
mod load;
mod lock;
mod mcp_tool;
mod mcp_tools;
mod secret_source;
mod stored_notes;
mod tool;
mod toolbox;
mod wit_docs;

pub use agent_builder::AgentBuilder;
pub use agent_error::AgentError;
pub use approval_check::ApprovalCheck;
pub use builder::{BuildError, HostBuilder};
pub use call_log::{CallEntry, CallLog, CallLogError, CallLogOptions};
pub use call_options::CallOptions;
pub use events::{EventStream, Observed};
pub use fumehood_agent as agent;
pub use fumehood_core::approval;
pub use fumehood_core::boxed;
pub use fumehood_core::call::{Arguments, Call};
pub use fumehood_core::chat;
pub use fumehood_core::content::{Content, JsonText};
pub use fumehood_core::definition::{Annotations, ToolDefinition};
pub use fumehood_core::digest::Digest;
pub use fumehood_core::error_kind::{ErrorKind, Stage};
pub use fumehood_core::event::{Event, Level, Progress, RequestReport};
pub use fumehood_core::gate::{
    ForeignGate, ForeignSchema, Gate, GateLimits, SchemaError, UncheckedPart, UncheckedReason, Violation, Violations,
};
pub use fumehood_core::limits::{self, LimitError, Limits};
pub use fumehood_core::name::{Namespace, QualifiedName, ToolName};
pub use fumehood_core::permission::{self, Grant};
pub use fumehood_core::record;
pub use fumehood_core::redact;
pub use fumehood_core::result::{CallError, CallResult, CapturedStream, Metadata};
pub use fumehood_core::sanitize;
pub use fumehood_core::time;
pub use fumehood_core::untrusted::{PrintableText, Untrusted};
pub use fumehood_event_log as event_log;
pub use fumehood_mcp as mcp;
pub use fumehood_model as model;
pub use fumehood_runtime::{
    ACCEPTED_CONTRACT, CacheError, CacheReport, CodeCache, CompileBudget, CompileLimit, CompileLimits, Compiler,
    Component, Dialect, EngineProfile, FolderError, Import, Invocation, Isolation, JailReport,
    LoadError as ComponentError, LoadReport, Network, Observer, Resolver, SandboxError, Skipped, SystemResolver,
    TrustError, Ungranted, Workers, serve_compiler, serve_worker,
};
pub use host::Host;
pub use host_tools::HostTools;
pub use load::{IsolationPolicy, Load, LoadError};
pub use lock::{Lock, LockError};
pub use mcp_tools::McpTools;
pub use secret_source::{SecretSource, SecretSourceError};
pub use stored_notes::StoredNotes;
pub use tokio_util::sync::CancellationToken;
pub use tool::Tool;
pub use toolbox::RecordedHost;
pub use wit_docs::{WitDocs, WitDocsError};
