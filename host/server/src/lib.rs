//! The HTTP server of the host: connections, admission of requests and limits, which every protocol shares.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! A [`Listener`] accepts connections, enforces a deadline for each phase of one, and admits requests by their `Host`,
//! `Origin` and token. The token names a [`Tenant`], whose limits hold for every protocol. An [`HttpService`], one for each
//! protocol, answers admitted requests, so that MCP and the HTTP API have the same guarantees by the same code.
//!
//! | feature | adds |
//! |---|---|
//! | `http` | `http_api`: the HTTP API, its OpenAPI document, and the dashboard |
//! | `oauth` | `oauth`: access tokens of an authorization server, and requests to it |
//!
//! ```
//! use fumehood_server::{Access, HttpOptions, Listener, Tenant, TenantLimits, Token};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let token = Token::generate()?;
//! let limits = TenantLimits { calls_per_day: Some(1_000), ..TenantLimits::default() };
//! let access = Access::Tenants(vec![Tenant::new("acme", &token).limits(limits)]);
//! // Port 0 is any free one.
//! let listener = Listener::bind(HttpOptions::new(([127, 0, 0, 1], 0).into(), access)).await?;
//! assert_ne!(listener.address().port(), 0);
//! # Ok(())
//! # }
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

mod admission;
pub mod body;
pub mod bounds;
mod connections;
mod guard;
#[cfg(feature = "http")]
pub mod http_api;
mod jobs;
mod limits;
mod listener;
#[cfg(feature = "oauth")]
pub mod oauth;
mod options;
pub mod parse_queue;
mod rejection;
mod request_framing;
mod service;
mod tenants;
mod token_verifier;
mod turns;
mod write_deadline;

pub use connections::Phase;
pub use fumehood_layers::{
    Access, Budget, BudgetCounters, BudgetKind, BudgetLeases, CallPhase, CallSink, DayUsage, EndedCall, Lease,
    LogBudget, RunningCall, RunningCalls, Tenant, TenantLimits, TenantTools, Token, TokenError, ToolFilter,
    TrackedTools, UsageEntry, UsageLedger, now,
};
pub use jobs::{CallOrJob, JobCall, JobError, JobOptions, Jobs, StartedCall, poll_interval};
pub use limits::{MemoryPermit, message_memory_bytes};
pub use listener::Listener;
pub use options::{HttpError, HttpOptions};
pub use rejection::{PROBLEM_TYPE, Rejection, retry_after_header};
pub use service::{AdmittedRequest, HttpService, RequestContext, ResponseGuard, Services};
pub use tenants::Tenants;
pub use token_verifier::{TokenRefusal, TokenVerifier, VerifiedToken};
