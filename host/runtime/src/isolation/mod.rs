//! Worker processes: a second wall around guests, for the day on which the engine has a bug.
//!
//! A component that is isolated has a process of its own, in a [`jail`](crate::jail). The host never maps its code; it sends calls over a
//! socket and gets results back as data. Keys and values, HTTP requests, secrets and records stay with the host, which decides
//! on each step again. A worker that dies is a failed call; the next one starts another.
//!
//! `supervisor` starts workers and ends them, `link` is the host's end of the socket, `services` is what a worker asks of its
//! host, `worker` is the process itself.

mod body_stream;
mod convert;
mod frame;
mod launch;
mod launcher;
mod link;
mod load;
mod message;
mod services;
mod supervisor;
mod worker;

pub(crate) use load::{Parcel, load};
pub(crate) use supervisor::Worker;
pub use worker::serve_worker;
