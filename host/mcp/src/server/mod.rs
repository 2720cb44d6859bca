//! The server: one set of tools for any number of clients.

mod about;
mod answer;
mod catalogue;
mod client_name;
mod log_level;
mod news;
mod offer;
mod sanitizer;
mod session;
mod shelves;
mod stdio;
mod streams;
mod told;

pub use client_name::Naming;
pub use offer::{Server, ServerOptions};
pub(crate) use session::Session;
pub use stdio::StdioError;
