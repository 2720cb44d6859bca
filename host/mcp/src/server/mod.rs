//! The server: one set of tools for any number of clients.

mod about;
mod answer;
mod catalogue;
mod client_name;
mod log_level;
mod news;
mod notifier;
mod offer;
mod resources;
mod sanitizer;
mod session;
mod stdio;
mod streams;

pub use client_name::Naming;
pub use offer::{Server, ServerOptions};
pub(crate) use session::Session;
pub use stdio::StdioError;
