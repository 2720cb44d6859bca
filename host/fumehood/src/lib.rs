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
//! - Watching: one call with an [`Observer`] of its own ([`Call::observer`]), or all of them with [`Host::subscribe`],
//!   whose subscribers lose events if they are slow.
//! - Answering over HTTP: [`ErrorKind::http_status`].
//! - Recording: opt-in. An agent records through its `Recorder`; other calls through a [`CallLog`], with
//!   [`Host::call_recorded`] or a [`Stack`]. Calls made in any other way are not recorded.
//! - An agent that calls the tools: [`Host::agent`]; with programs that it writes, [`AgentBuilder::code`].
//! - Deciding on calls and results: hooks of the operator, sandboxed or built in: [`hooks`].
//! - Host interfaces of your own, such as a database: [`HostBuilder::capability`] and [`capability::Capability`].
//! - Ending: [`Host::shutdown`] takes bounded time, whatever guests do.
//!
//! # Features
//!
//! With `default-features = false` the crate is the sandbox alone: loading, calls, grants, approvals, and stores in
//! memory.
//!
//! | feature | adds |
//! |---|---|
//! | `agent` | the agent loop ([`Host::agent`]) and the providers of models |
//! | `cell` | gateways and workers on NATS (`cell`); not among the defaults |
//! | `http` | the HTTP API ([`http_api`]) |
//! | `mcp` | the MCP server and client; with `agent`, tools of MCP servers for agents ([`McpTools`]) |
//! | `oauth` | access tokens of an authorization server, for clients of a listener; not among the defaults |
//! | `postgres` | the event log and the key-value store in PostgreSQL; not among the defaults |
//! | `rate-limit` | the hook that limits the rate of calls (`hooks::RateLimit`) |
//! | `registry` | components of OCI registries, verified and kept in a local store (`Load::reference`); not among the defaults |
//! | `settings` | grants and limits with the names of `fumehood.toml` (`settings`); not among the defaults |
//! | `storage` | the event log and the key-value store on disk |
//! | `tower` | calls as a service of tower (`ToolService`) |
//! | `telemetry` | traces and metrics for OpenTelemetry, metrics for Prometheus (`telemetry`); not among the defaults |
//! | `tls` | requests of tools to `https` addresses; without it, a grant of those is refused when a component is loaded |
//!
//! # Build settings
//!
//! Cargo takes profiles from the workspace that is built, so a service needs these in its own `Cargo.toml` for
//! development builds. Without the optimisation, compiling components is very slow. Release builds do not need them.
//!
//! ```toml
//! [profile.dev.package]
//! cranelift-codegen.opt-level = 2
//! cranelift-frontend.opt-level = 2
//! regalloc2.opt-level = 2
//! wasmtime.opt-level = 2
//! wasmtime-environ.opt-level = 2
//! wasmtime-internal-cranelift.opt-level = 2
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

/// Private stores of tools: keys and values that outlive a call, in memory or on disk.
///
/// ```
/// use std::sync::Arc;
///
/// use fumehood::key_value::DiskStore;
/// use fumehood::permission::KeyValueQuota;
/// use fumehood::{Call, Grant, Host, Load};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../example-tools/dist/notes.wasm");
/// # let folder = tempfile::tempdir()?;
/// let store = Arc::new(DiskStore::open(folder.path().join("tools.db"))?);
/// let host = Host::builder().key_value_store(store).build()?;
/// let grant = Grant::none().with_key_value(KeyValueQuota::parse("1MiB")?);
/// host.load(Load::path(path).grant(grant)).await?;
/// let written = host.call(Call::new("notes__write", r#"{"title": "milk", "text": "two"}"#)).await;
/// assert!(written.is_ok());
/// # host.shutdown(std::time::Duration::from_secs(1)).await;
/// # Ok(())
/// # }
/// ```
pub mod key_value {
    pub use fumehood_core::key_value::*;
    #[cfg(feature = "postgres")]
    pub use fumehood_storage::key_value::PostgresStore;
    #[cfg(feature = "storage")]
    pub use fumehood_storage::{OpenError, key_value::DiskStore};
}

/// The parts of agents: drivers, pipeline, budgets, memory and saved sessions.
#[cfg(feature = "agent")]
pub mod agent {
    pub use fumehood_agent::{
        agent, allowlist, approval_queue, batch, budget, code, deferred, driver, execution, executor, guardrail,
        identity, knowledge, memory, native, persistence, pipeline, react, registry, render, retry, session, suggest,
        tool_search, transcript,
    };
}

/// Gateways and workers on NATS.
#[cfg(feature = "cell")]
pub mod cell {
    pub use fumehood_cell::{
        BareRequests, BucketError, CellError, CellJobs, CellTools, ComponentStore, ComponentStoreError, DrainState,
        GatewayOptions, JobQueueOptions, JobRunner, KeptValues, KeyError, LateResult, LimitsOf, Load, LoadReport,
        NatsCounters, NatsStore, NodeKey, NodeOptions, NodePublicKey, ServerOptions, Worker, WorkerOptions,
        is_node_name,
    };
}

/// The MCP server, and the client of other MCP servers.
#[cfg(feature = "mcp")]
pub mod mcp {
    pub use fumehood_mcp::{
        Access, AddressError, ClientSecret, ConnectError, Credentials, Endpoint, Entry, HeaderError, Headers,
        HttpError, HttpListener, HttpOptions, Launch, LaunchSandbox, LaunchWrapper, Library, LibraryError,
        LibraryOptions, ListChanges, LogLevel, Login, LoginError, McpService, NamePrefix, NamingScheme, OAuthOptions,
        Parameter, Prompt, Remote, RemoteLibrary, RemoteOptions, RemoteTool, SandboxedLaunch, Server, ServerOptions,
        ServerRequestPolicy, Source, StdioError, Tenant, Token, TokenError, ToolNotice, check_address, end_with_parent,
        logout,
    };
}

/// The providers of models, and models with prepared answers.
#[cfg(feature = "agent")]
pub mod model {
    pub use fumehood_model::{
        Key, MAX_SCRIPT_BYTES, ModelSpec, Provider, ProviderConfig, ReasoningEffort, Retries, ScriptError,
        ScriptedAnswer, ScriptedModel, ScriptedReply, Service, SetupError, SpecError, Timeouts,
    };
}

/// Components of OCI registries: references, policies, signatures and the local store.
#[cfg(feature = "registry")]
pub mod registry {
    pub use fumehood_registry::{
        artifact, client, credentials, error, fetch, http, index, index_history, metadata, policy, publish, reference,
        signature, store, version,
    };
}

/// The listener of HTTP services: tenants, tokens, budgets, limits and jobs.
#[cfg(any(feature = "http", feature = "mcp", feature = "oauth", feature = "telemetry"))]
pub mod listener {
    pub use fumehood_server::{
        Access, AdmittedRequest, Budget, BudgetCounters, BudgetKind, BudgetLeases, CallOrJob, CallPhase, CallSink,
        DayUsage, EndedCall, HttpError, HttpOptions, HttpService, JobCall, JobError, JobOptions, Jobs, Lease, Listener,
        LogBudget, Phase, Rejection, RequestContext, ResponseGuard, RunningCall, RunningCalls, Services, StartedCall,
        Tenant, TenantLimits, TenantTools, Tenants, Token, TokenError, TokenRefusal, TokenVerifier, ToolFilter,
        TrackedTools, UsageEntry, UsageLedger, VerifiedToken,
    };
}

/// Traces and metrics for OpenTelemetry, metrics for Prometheus, and the live view.
#[cfg(feature = "telemetry")]
pub mod telemetry {
    pub use fumehood_telemetry::{
        CallPhase, ContentPolicy, ExportOptions, LIVE_PATH, LiveCall, LiveClient, LiveClientError, LiveSnapshot,
        METRICS_PATH, Metrics, MetricsService, OptionsError, Signals, Telemetry, TelemetryError, parse_endpoint,
    };
}

#[cfg(feature = "agent")]
mod agents;
mod events;
pub mod hooks;
mod host;
mod load;
mod lock;
mod model_text;
mod secrets;
#[cfg(feature = "settings")]
pub mod settings;
#[cfg(feature = "tower")]
mod tool_service;

#[cfg(all(feature = "agent", feature = "http", feature = "storage"))]
pub use agents::SavedAgents;
#[cfg(feature = "agent")]
pub use agents::{AgentBuilder, AgentError, JavaScript, StoredNotes};
#[cfg(all(feature = "agent", feature = "http"))]
pub use agents::{AgentParts, ServedAgents};
#[cfg(all(feature = "agent", feature = "mcp"))]
pub use agents::{ListChange, ListObserver, McpTools};
#[cfg(all(feature = "http", feature = "storage"))]
pub use events::logged_calls::LoggedCalls;
#[cfg(all(feature = "http", feature = "storage"))]
pub use events::logged_timelines::LoggedTimelines;
#[cfg(feature = "storage")]
pub use events::saved_jobs::SavedJobs;
pub use events::{EventStream, Observed};
pub use fumehood_core::boxed;
pub use fumehood_core::call::content::{Content, JsonText};
pub use fumehood_core::call::error_kind::{ErrorKind, Stage};
pub use fumehood_core::call::event::{Event, Level, Progress, RequestReport};
pub use fumehood_core::call::history::{CallHistory, PastCall};
pub use fumehood_core::call::limits::{self, LimitError, Limits};
pub use fumehood_core::call::result::{CallError, CallResult, CapturedStream, JsonResultError, Metadata};
pub use fumehood_core::call::{
    Arguments, Call, CallContext, CancellationToken, ErrorDetails, FuelAccount, Observer, ResultMembers, SessionStep,
    Usage,
};
pub use fumehood_core::capability;
pub use fumehood_core::chat;
pub use fumehood_core::dependency;
pub use fumehood_core::digest::Digest;
pub use fumehood_core::flow;
pub use fumehood_core::job;
pub use fumehood_core::log;
pub use fumehood_core::persistence;
pub use fumehood_core::policy::approval;
pub use fumehood_core::policy::call as policy;
pub use fumehood_core::policy::permission::{self, Grant};
pub use fumehood_core::policy::redact;
pub use fumehood_core::program;
pub use fumehood_core::record;
pub use fumehood_core::saved_session;
pub use fumehood_core::schema::gate::{
    DEFAULT_INJECTED, ForeignGate, ForeignSchema, Gate, GateLimits, Repair, RepairKind, RepairPolicy,
    RepairedArguments, SchemaError, UncheckedPart, UncheckedReason, Violation, Violations,
};
pub use fumehood_core::text::abbreviation;
pub use fumehood_core::text::line::PrintableLine;
pub use fumehood_core::text::sanitize;
pub use fumehood_core::text::untrusted::{PrintableText, Untrusted};
pub use fumehood_core::time;
pub use fumehood_core::tool::command_template::{self, CommandTemplate};
pub use fumehood_core::tool::definition::{Annotations, ToolDefinition};
pub use fumehood_core::tool::name::{NameError, Namespace, QualifiedName, SEPARATOR, ToolName};
pub use fumehood_core::tool::resource::ResourceDefinition;
pub use fumehood_core::tool::{
    Changes, InvalidCall, NameForm, PendingCall, ProviderKind, ResultForm, Revision, Stop, Tool, ToolAliases,
    ToolLayer, ToolProvider, ValidatedCall, WISHES_SECTION, is_named,
};
pub use fumehood_core::trace_context;
pub use fumehood_layers::{CallEntry, CallLog, CallLogError, CallLogOptions, RecordingProvider, Source, Stack};
#[cfg(feature = "tls")]
pub use fumehood_runtime::TrustError;
pub use fumehood_runtime::{
    ACCEPTED_CONTRACT, CacheError, CacheReport, CodeCache, CompileBudget, CompileLimit, CompileLimits, Compiler,
    Component, Dialect, EngineProfile, FolderError, Import, Isolation, JailReport, LoadError as ComponentError,
    LoadReport, Network, ProgramJail, ProgramJailError, ProgramJailReport, ProgramLimits, ProxyAddress, Resolver,
    SandboxError, Skipped, SystemResolver, Ungranted, Workers, probe_program_jail, read_wishes, run_program,
    serve_compiler, serve_worker,
};
#[cfg(feature = "http")]
pub use fumehood_server::http_api;
#[cfg(feature = "oauth")]
pub use fumehood_server::oauth;
#[cfg(feature = "postgres")]
pub use fumehood_storage::postgres;
#[cfg(feature = "storage")]
pub use fumehood_storage::{event_log, jobs::JobFile, usage};
pub use host::{BuildError, Host, HostBuilder};
pub use load::error::LoadError;
pub use load::loaded_component::LoadedComponent;
#[cfg(feature = "registry")]
pub use load::registry_source::{RegistrySource, StoredComponent, default_component_name};
pub use load::wit_docs::{WitDocs, WitDocsError};
pub use load::{IsolationPolicy, Load};
pub use lock::Lock;
pub use lock::approval_check::{ApprovalCheck, LockedApproval};
pub use lock::error::LockError;
pub use model_text::model_text;
pub use secrets::{SecretSource, SecretSourceError};
#[cfg(feature = "tower")]
pub use tool_service::ToolService;
