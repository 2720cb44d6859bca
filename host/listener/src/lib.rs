//! The HTTP listener that every protocol of the host stands on: connections, admission of requests, and limits.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! A [`Listener`] accepts connections, enforces a deadline for each phase of one, and admits requests by their `Host`,
//! `Origin` and token. The token names a [`Tenant`], whose limits hold for every protocol. What it admits is answered by an [`HttpService`], one for each protocol, so that MCP and the HTTP
//! API have the same guarantees by the same code.
//!
//! ```
//! use fumehood_listener::{Access, HttpOptions, Listener, Tenant, TenantLimits, Token};
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

mod admission;
pub mod body;
pub mod bounds;
mod budget_leases;
mod call_places;
mod connections;
mod fair_queue;
mod guard;
mod jobs;
mod limits;
mod listener;
mod log_budget;
mod options;
pub mod parse_queue;
mod program_places;
mod rejection;
mod request_framing;
mod running_calls;
mod service;
mod tenant;
mod tenant_tools;
mod tenants;
mod token;
mod token_verifier;
mod tracked_tools;
mod turns;
mod usage;
mod write_deadline;

pub use budget_leases::{Budget, BudgetCounters, BudgetKind, BudgetLeases, Lease};
pub use connections::Phase;
pub use jobs::{CallOrJob, JobCall, JobError, JobOptions, Jobs, StartedCall, poll_interval};
pub use limits::{MemoryPermit, message_memory_bytes};
pub use listener::Listener;
pub use log_budget::LogBudget;
pub use options::{HttpError, HttpOptions};
pub use rejection::{PROBLEM_TYPE, Rejection, retry_after_header};
pub use running_calls::{CallPhase, CallSink, EndedCall, RunningCall, RunningCalls};
pub use service::{AdmittedRequest, HttpService, RequestContext, ResponseGuard, Services};
pub use tenant::{Access, Tenant, TenantLimits, ToolFilter};
pub use tenant_tools::TenantTools;
pub use tenants::Tenants;
pub use token::{Token, TokenError};
pub use token_verifier::{TokenRefusal, TokenVerifier, VerifiedToken};
pub use tracked_tools::TrackedTools;
pub use usage::{DayUsage, UsageEntry, UsageLedger, now};
