//! The layers around the tools of a host, one file each, and the order in which a call passes them.
//!
//! Part of [`fumehood`](https://docs.rs/fumehood), the crate that services depend on.
//!
//! A layer is a [`ToolProvider`](fumehood_core::tool::ToolProvider) around another one. [`Stack::around`] is the function in which
//! their order is readable.
//!
//! ```
//! use fumehood_core::flow::FlowPolicy;
//! use fumehood_core::tool::ToolProvider as _;
//! use fumehood_layers::{Source, Stack};
//!
//! // A source is a host, or any other provider of tools. Here there is none.
//! let sources: Vec<Source> = Vec::new();
//! let stack = Stack::new().only(["calculator__add".to_owned()]).flows(Some(FlowPolicy::new()));
//! let tools = stack.around(sources);
//! assert!(tools.find("calculator__add").is_none());
//! ```
//!
//! | layer | file |
//! |---|---|
//! | [`TenantTools`]: the tools of a tenant, its budgets, and a fair share of the places | `limits.rs` |
//! | [`TrackedTools`]: the list of running calls | `track.rs` |
//! | allowlist: only the tools that are named | `allowlist.rs` |
//! | [`CallChecks`](fumehood_core::policy::call::CallChecks): flows, policies and their questions; records of calls | `checks.rs`, `record.rs` |

mod allowlist;
mod budget_leases;
mod call_places;
mod checks;
pub mod fair_queue;
mod limits;
mod log_budget;
mod program_places;
mod record;
mod running_calls;
mod stack;
mod tenant;
mod token;
mod track;
mod usage;

pub use budget_leases::{Budget, BudgetCounters, BudgetKind, BudgetLeases, Lease};
pub use limits::TenantTools;
pub use log_budget::LogBudget;
pub use record::{CallEntry, CallLog, CallLogError, CallLogOptions};
pub use running_calls::{CallPhase, CallSink, EndedCall, RunningCall, RunningCalls};
pub use stack::{RecordingProvider, Source, Stack};
pub use tenant::{Access, Tenant, TenantLimits, ToolFilter};
pub use token::{Token, TokenError};
pub use track::TrackedTools;
pub use usage::{DayUsage, UsageEntry, UsageLedger, now};
