//! The HTTP listener that every protocol of the host stands on: connections, admission of requests, and limits.
//!
//! A [`Listener`] accepts connections, enforces a deadline for each phase of one, and admits requests by their `Host`,
//! `Origin` and token. What it admits is answered by an [`HttpService`], one for each protocol, so that MCP and the HTTP
//! API have the same guarantees by the same code.

mod admission;
pub mod body;
pub mod bounds;
mod connections;
mod guard;
mod limits;
mod listener;
mod options;
pub mod parse_queue;
mod rejection;
mod service;
mod token;
mod write_deadline;

pub use connections::Phase;
pub use guard::{Access, Principal};
pub use limits::{MemoryPermit, message_memory_bytes};
pub use listener::Listener;
pub use options::{HttpError, HttpOptions};
pub use rejection::Rejection;
pub use service::{AdmittedRequest, HttpService, RequestContext, ResponseGuard, Services};
pub use token::{Token, TokenError};
