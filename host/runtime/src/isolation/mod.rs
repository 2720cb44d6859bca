//! Worker processes: a second layer of isolation around guests, in case the engine has a bug.
//!
//! An isolated component has a process of its own, in a [`jail`](crate::jail). The host never maps its code; it sends
//! calls over a socket and receives results as data. Keys and values, HTTP requests, connections, secrets and records stay with the
//! host, which checks every step again, and so do capabilities of the embedder. If a worker dies, its calls fail; the next call starts another worker.
//!
//! `supervisor` starts and ends workers, `link` is the host's end of the connection, `services` serves the requests of a
//! worker, `worker` is the process itself.

mod attempts;
mod body_stream;
mod capability_calls;
mod connection_stream;
mod convert;
mod frame;
mod lanes;
mod launch;
mod link;
mod load;
mod message;
mod services;
mod spin;
mod supervisor;
mod values;
mod worker;

pub(crate) use attempts::WorkerCall;
pub(crate) use load::{CompiledComponent, Described, load};
pub(crate) use supervisor::Worker;
pub use worker::serve_worker;
