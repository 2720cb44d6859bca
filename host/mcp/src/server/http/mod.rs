//! Serving over streamable HTTP: the listener, the guard and the limits of each principal.

mod connections;
mod guard;
mod listener;
mod principal_limits;
mod request_handler;
mod write_deadline;

pub use guard::{Access, Principal};
pub use listener::{HttpError, HttpListener, HttpOptions};
