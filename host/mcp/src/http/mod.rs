//! Serving over streamable HTTP: what is let in, and the listener.

mod guard;
mod held;
mod listener;
mod token;

pub use guard::{Access, Principal};
pub use listener::{HttpError, HttpListener, HttpOptions};
pub use token::{Token, TokenError};
