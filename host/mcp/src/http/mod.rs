//! Serving over streamable HTTP: what is let in, and the listener.

mod connections;
mod guard;
mod guarded_body;
mod listener;
mod requests;
mod share;
mod token;
mod write_deadline;

pub use guard::{Access, Principal};
pub use listener::{HttpError, HttpListener, HttpOptions};
pub use token::{Token, TokenError};
